"""Charts and pages that leave the program: they draw records of the view-model and compute nothing."""
