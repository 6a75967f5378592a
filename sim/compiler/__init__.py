"""What a compiler does to a program before it runs, each step a pure function Program -> Program that can be left out.

Current NKI keeps the kernel's order; its compiler renames buffers and schedules each engine within a window. Legacy
kernels went through an optimising middle end, whose steps are passes here.
"""

from __future__ import annotations

from dataclasses import replace

from sim.compiler.aligning import align
from sim.compiler.assignment import assign
from sim.compiler.columns import dense_bytes, engines, operand_roles, used_layouts
from sim.compiler.distribution import distribute
from sim.compiler.forwarding import forward
from sim.compiler.fusion import fuse
from sim.compiler.hoisting import hoist
from sim.compiler.keeping import keep_weights
from sim.compiler.options import UNBOUNDED, WINDOWS, Options
from sim.compiler.ordering import is_straight, order
from sim.compiler.packing import pack
from sim.compiler.renaming import rename
from sim.compiler.splitting import split
from sim.passes import PASSES
from sim.program import Program

__all__ = [
    "PASSES",
    "UNBOUNDED",
    "WINDOWS",
    "Options",
    "adapted",
    "align",
    "assign",
    "dense_bytes",
    "distribute",
    "engines",
    "forward",
    "fuse",
    "hoist",
    "is_straight",
    "keep_weights",
    "operand_roles",
    "order",
    "pack",
    "rename",
    "rewrite",
    "split",
    "used_layouts",
]


def rewrite(program: Program, options: Options) -> Program:
    """The program as its compiler would hand it to the engines."""
    limit = int(program.device[options.sbuf_figure])
    if options.rename:
        program = rename(program)
    if options.forward:
        program = forward(program)
    if options.pack:
        program = pack(program)
    if options.align:
        program = align(program)
    if options.assign:
        program = assign(program)
    if options.split:
        program = split(program)
    if options.fuse:
        program = fuse(program, limit)
    if options.hoist:
        program = hoist(program, limit)
    if options.distribute:
        program = distribute(program, limit)
    if options.straight and is_straight(program):
        program = order(program)
    if options.keep:
        program = keep_weights(program)
    return program


def adapted(program: Program, options: Options) -> Options:
    """The options as they apply to a program: addresses of straight-line code are given in its order, first fit."""
    if not options.straight:
        return options
    if not is_straight(program):
        return replace(options, straight=False)
    return replace(options, buffers=0, rotate=False)
