"""The screens without a timeline: reading, failed, and what a page shows around its overlay."""

from __future__ import annotations

import textwrap

from trnprof.tui import ink, listed, overlays, pairs, roofline, screen, wishes
from trnprof.tui.canvas import Canvas, clipped
from trnprof.tui.screen import Picture, Scene

STRONG = ink.TEXT | ink.BOLD


def page(scene: Scene, width: int, height: int) -> Picture:
    """What the state asks for: the timeline or the roofline, and what is open over it."""
    state = scene.state
    picture = screen.Picture(Canvas(width, height), screen.layout.shape(width, height, False))
    if state.screen == "timeline" or picture.shape.too_small:
        picture = screen.paint(scene, width, height)
    else:
        screen.header(picture.canvas, scene)
        if state.screen == "roofline":
            roofline.screen(picture.canvas, scene.session.roofline(), scene.session.dots(), state.dot, 1)
        elif state.screen == "compare" and scene.other is not None:
            pairs.page(picture, scene)
        elif state.screen == "listing":
            listed.page(picture.canvas, scene)
        elif scene.wish is not None:
            wishes.page(picture.canvas, scene.session, scene.wish, state.item)
    if picture.shape.too_small:
        return picture
    match state.overlay:
        case "help":
            overlays.help_screen(picture.canvas, int(state.entry or 0))
        case "commands":
            overlays.commands(picture.canvas, scene)
        case "search":
            overlays.search(picture.canvas, scene)
        case "goto":
            overlays.goto(picture.canvas, scene)
        case "track":
            overlays.find_track(picture.canvas, scene)
        case "what_if":
            overlays.what_if(picture.canvas, scene)
        case "compare":
            overlays.compare(picture.canvas, scene)
    return picture


def loading(width: int, height: int, name: str, seconds: float) -> Canvas:
    """What is being read, and for how long."""
    canvas = Canvas(width, height)
    x = canvas.put(1, 0, clipped(name, max(8, width - 20)), STRONG)
    canvas.put(x + 2, 0, "reading", ink.MID)
    canvas.put(1, 1, f"{seconds:.1f} s", ink.TEXT)
    canvas.put(1, height - 1, "The verdict comes with the last instruction.", ink.DIM)
    canvas.put_right(width - 1, height - 1, "q quit", ink.DIM)
    return canvas


def failed(width: int, height: int, name: str, fault: str) -> Canvas:
    """Why there is no picture, in the words of the error."""
    canvas = Canvas(width, height)
    x = canvas.put(1, 0, clipped(name, max(8, width - 24)), STRONG)
    canvas.put(x + 2, 0, "not opened", ink.BAD)
    for line, text in enumerate(textwrap.wrap(fault, max(20, width - 6))[: height - 4], 2):
        canvas.put(3, line, text, ink.TEXT)
    canvas.put(3, height - 1, "q", ink.ACCENT)
    canvas.put(5, height - 1, "quit, exit code 1", ink.DIM)
    return canvas
