"""Graphs of frameworks as operators: a JAX function, a PyTorch module.

Both are written down in one form (`ir`), in which parts that belong together are joined (`rewriting`), and which
becomes operators of `sim.ops` (`emission`): the same `Graph` that `sim.models` makes of a description.
"""
