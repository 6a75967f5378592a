"""What each operator must compute, and its work: one module a subject, each with a tuple `OPERATORS`."""
