"""The terminal application: keys and pointer in, lines out; what is on them is painted elsewhere."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding

from sim.errors import TrnprofError
from trnprof.tui import (
    actions,
    choices,
    errands,
    export,
    following,
    kept,
    layout,
    listed,
    pages,
    pairs,
    pointer,
    prompts,
    shelf,
)
from trnprof.tui.canvas import Canvas
from trnprof.tui.ink import Depth, Inkwell
from trnprof.tui.messages import Failed, Found, Opened, Shelved
from trnprof.tui.pane import Pane
from trnprof.tui.screen import Picture, Scene
from trnprof.tui.shelf import Shelf
from trnprof.tui.state import NONE, State
from trnprof.view import Session, places
from trnprof.view.arrivals import EVERY_S, Arrivals
from trnprof.view.keys import TABS, keys_of
from trnprof.view.palette import THEMES
from trnprof.view.records import Hits

TICK = 0.25
"""Seconds between two looks at a progress: a number that changes, nothing that spins."""
INTERRUPTED = 130

KEYS = {name: key.action for key in keys_of("terminal") for name in key.terminal}
"""The action of each key, by Textual's name of it."""


OWN = ("quit", "theme", "copy", "export", "export_csv", "open")
"""Commands that are more than a change of the state."""


LISTED = (*listed.STEPS, "pagedown", "pageup", "enter")
"""Keys of the page of rows."""


class TerminalApp(App[int]):
    """`trnprof tui`: opens at once, reads the trace beside it, ends with the command's exit code."""

    ENABLE_COMMAND_PALETTE = False
    CSS = "Screen { layout: horizontal; background: transparent; overflow: hidden; }"
    BINDINGS = [
        Binding("ctrl+c", f"leave({INTERRUPTED})", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False, priority=True),
    ]

    def __init__(
        self,
        path: str | Path,
        *,
        ascii_only: bool = False,
        colour: str = "engine",
        depth: Depth = "truecolor",
        opener: Callable[[], Session] | None = None,
        kept: Path | None = None,
        memory: Path | None = None,
    ):
        """kept, memory : the files that remember how traces were looked at, and which were opened last"""
        super().__init__(ansi_color=depth in ("16", "none"))
        self.path = Path(path)
        self.ascii_only = ascii_only
        self.colour = colour
        self.inkwell = Inkwell(THEMES[0], depth)
        self.opener = opener
        self.memory = memory
        self.arrivals: Arrivals | None = None
        self.shelf: Shelf | None = None
        self.scene: Scene | None = None
        self.picture: Picture | None = None
        self.kept = kept
        self.fault: Exception | None = None
        self.before_typing: State | None = None
        self.canvas: Canvas | None = None
        self._edges: tuple[int, ...] = ()
        self._asked: set[str] = set()
        self._began = time.monotonic()
        self._pressed: tuple[int, int] | None = None
        self._dragged = False

    def compose(self) -> ComposeResult:
        """Gutter, timeline and what stands at the right."""
        self.panes = (Pane(), Pane(), Pane())
        yield from self.panes

    def on_mount(self) -> None:
        self.beside(self._read)
        self._timer = self.set_interval(TICK, self.repaint)
        self.app_resume_signal.subscribe(self, lambda _: self.repaint(everything=True))
        self.set_interval(EVERY_S, lambda: following.look(self))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            try:
                loop.add_signal_handler(number, self.exit, 128 + number)
            except (NotImplementedError, RuntimeError, ValueError):
                break  # not the main thread, or a platform without signals

    # --- reading --------------------------------------------------------------------------------------------------

    def beside(self, job: Callable[[], object]) -> None:
        """Run a job in a thread that does not hold up leaving; it answers with a message."""
        threading.Thread(target=job, daemon=True).start()

    def _read(self) -> None:
        """Open the trace and paint it once, which fills every cache that the first key needs."""
        try:
            if not self.opener and places.holds_several(self.path):
                self.arrivals = Arrivals(self.path)
                self.arrivals.look()
                if places.only_trace(self.path) is None:
                    self.post_message(Shelved(following.shelf_of(self)))
                    return
                self.path = places.only_trace(self.path) or self.path
            session = self.opener() if self.opener else Session.open(self.path)
            if self.memory is not None:
                places.remember(self.memory, self.path)
            state = actions.start(session, self.colour)
            if self.kept is not None:
                state = kept.restore(self.kept, self.path, session, state)
            scene = Scene(session, state, known=frozenset())
            pages.page(scene, max(self.size.width, 80), max(self.size.height, 24))
        except Exception as fault:
            self.post_message(Failed(fault))
            return
        self.post_message(Opened(scene))

    def on_opened(self, message: Opened) -> None:
        self._timer.stop()
        self.scene = message.scene
        self.repaint()
        self._look_up()
        self.beside(self.scene.session.prepare)
        if not self.scene.judged:
            self._asked.add("verdict")
            errands.find_out(self, "verdict")

    def on_shelved(self, message: Shelved) -> None:
        self._timer.stop()
        self.shelf = message.shelf
        self.repaint()

    def on_arrived(self, message: following.Arrived) -> None:
        following.arrived(self, message)

    def on_failed(self, message: Failed) -> None:
        """A fault of the input is shown; any other ends the program and is told on the terminal that it leaves."""
        self._timer.stop()
        self.fault, self.scene, self.picture = message.fault, None, None
        if isinstance(self.fault, (TrnprofError, OSError)):
            self.repaint()
        else:
            self.exit(TrnprofError.exit_code)

    # --- painting -------------------------------------------------------------------------------------------------

    def repaint(self, everything: bool = False) -> None:
        width, height = self.size
        if width < 1 or height < 1:
            return
        if self.shelf is not None:
            canvas, self.picture = shelf.page(width, height, self.shelf), None
        elif self.scene is not None:
            try:
                self.picture = pages.page(self.scene, width, height)
            except (TrnprofError, OSError) as fault:  # the trace went away while it was open
                self.on_failed(Failed(fault))
                return
            canvas = self.picture.canvas
        elif self.fault is not None:
            canvas = pages.failed(width, height, self.path.name, str(self.fault))
        else:
            canvas = pages.loading(width, height, self.path.name, time.monotonic() - self._began)
        self._show(canvas, everything)

    def _show(self, canvas: Canvas, everything: bool) -> None:
        """Hand a new canvas to the panes, which repaint where it differs from the last."""
        before, self.canvas = self.canvas, canvas
        bare = self.scene is None or self.shelf is not None
        parts = layout.shape(canvas.width, canvas.height, bare or self.scene.state.panel)
        edges = (0, parts.gutter, parts.gutter + parts.cells if parts.side else canvas.width, canvas.width)
        moved = self._edges != edges or before is None or before.height != canvas.height
        if moved:
            self._edges = edges
            for pane, left, right in zip(self.panes, edges[:-1], edges[1:], strict=True):
                pane.left, pane.styles.width, pane.display = left, right - left, right > left
        if moved or everything:
            for pane in self.panes:
                pane.refresh()
            return
        changed = (before.chars != canvas.chars) | (before.inks != canvas.inks)
        for pane in self.panes:
            pane.touch(changed)

    def on_resize(self) -> None:
        self.repaint()

    def become(self, state: State, hits: Hits | None = None) -> None:
        """Show another state."""
        if self.scene is not None:
            self.scene = replace(self.scene, state=state, hits=self.scene.hits if hits is None else hits)
            self.repaint()

    def note(self, text: str) -> None:
        """Answer on the status line."""
        if self.scene is not None:
            self.become(replace(self.scene.state, note=text))

    # --- keys -----------------------------------------------------------------------------------------------------

    def on_key(self, event: events.Key) -> None:
        event.stop()
        event.prevent_default()
        action = KEYS.get(event.key, "")
        if self.shelf is not None:
            self._choose(event.key, event.character)
            return
        if self.scene is None:
            if action == "open":
                self.action_open()
            if action == "quit":
                self.action_leave(
                    self.fault.exit_code if isinstance(self.fault, TrnprofError) else int(bool(self.fault))
                )
            return
        state = self.scene.state
        if state.overlay in prompts.PROMPTS:
            prompts.press(self, event.key, event.character)
        elif state.overlay == "help":
            self.become(prompts.scroll_help(state, event.key, action))
        elif state.screen == "roofline" and event.key in ("tab", "shift+tab", "enter", "up", "down"):
            self.become(prompts.choose_dot(self.scene, event.key))
        elif state.screen == "listing" and event.key in LISTED:
            self.become(listed.press(self.scene, event.key))
        elif state.screen == "what_if" and event.key == "enter":
            self._compare_wish()
        elif choices.offered(self.scene, event.key):
            self.become(choices.press(self.scene, event.key))
        elif action:
            self.do(action)

    def _choose(self, key: str, character: str | None) -> None:
        """One key while there are traces to choose from."""
        if key == "escape":
            self.shelf = None
            if self.scene is None:
                self.action_leave(0)
            self.repaint(everything=True)
        elif key == "enter" and self.shelf.chosen:
            self.open(Path(self.shelf.chosen).expanduser())
        else:
            self.shelf = shelf.press(self.shelf, key, character)
            self.repaint()

    def open(self, path: Path) -> None:
        """Leave what is shown, as it is, and read another trace."""
        self._remember()
        self.path, self.opener, self.shelf, self.scene, self.fault, self.picture = path, None, None, None, None, None
        self._asked, self._began = set(), time.monotonic()
        self._timer = self.set_interval(TICK, self.repaint)
        self.repaint(everything=True)
        self.beside(self._read)

    def action_open(self) -> None:
        """Those of the folder and those that were opened last, to choose from."""
        self.shelf = following.shelf_of(self)
        self.repaint(everything=True)

    def do(self, action: str) -> None:
        """Run a command of the table: its own here, else what it does to the state."""
        if action.startswith("theme_"):
            self._wear(action.removeprefix("theme_"))
        elif action in OWN:
            getattr(self, f"action_{'leave' if action == 'quit' else action}")()
        else:
            self.act(action)

    def act(self, action: str) -> None:
        """Do what a key of the table does."""
        if action in prompts.PROMPTS.values():
            self.before_typing = self.scene.state
        cells = self.picture.shape.cells if self.picture else self.size.width
        self.become(actions.act(action, self.scene, cells))
        if self.scene is None:
            return
        if action == "clear":
            self.scene = replace(self.scene, wish=errands.cancel(self.scene.wish))
        self._look_up()

    def _look_up(self) -> None:
        """Ask for the answer of the open tab, where it takes a moment."""
        tab = TABS[self.scene.state.tab]
        if tab in errands.SLOW and tab not in self._asked:
            self._asked.add(tab)
            errands.find_out(self, tab)

    def on_told(self, message: errands.Told) -> None:
        if self.scene is not None:
            self.scene = replace(self.scene, known=(self.scene.known or frozenset()) | {message.tab})
            self.repaint()

    def on_wished(self, message: errands.Wished) -> None:
        """A run further; what answers a what-if that was left or cancelled is passed over."""
        now = self.scene.wish if self.scene is not None else None
        if now is not None and now.began == message.wish.began and not now.over:
            self.scene = replace(self.scene, wish=message.wish)
            self.repaint()

    def on_beside(self, message: errands.Beside) -> None:
        if self.scene is None:
            return
        if message.session is None:
            self.note(message.fault)
            return
        self.scene = replace(self.scene, other=(message.name, message.session))
        self.become(replace(self.scene.state, screen="compare", overlay="", note=""))

    def _compare_wish(self) -> None:
        wish = self.scene.wish
        if wish is not None and wish.found:
            errands.compare_wish(self, wish, min(self.scene.state.item, len(wish.found) - 1))

    def on_paste(self, event: events.Paste) -> None:
        if self.scene is not None and self.scene.state.overlay in prompts.PROMPTS:
            for char in event.text.splitlines()[0] if event.text else "":
                prompts.press(self, char, char)

    def action_leave(self, code: int = 0) -> None:
        self._remember()
        self.exit(code)

    def _remember(self) -> None:
        if self.kept is not None and self.scene is not None:
            kept.keep(self.kept, self.path, self.scene.session, self.scene.state)

    def action_theme(self) -> None:
        self._wear(THEMES[(THEMES.index(self.inkwell.theme) + 1) % len(THEMES)])

    def _wear(self, theme: str) -> None:
        if self.inkwell.depth in ("16", "none"):
            self.note("the terminal's own colours rule here")
            return
        self.inkwell = Inkwell(theme, self.inkwell.depth)
        self.repaint(everything=True)

    def action_copy(self) -> None:
        """Through the terminal, which passes it on even over SSH (OSC 52)."""
        card = export.card(self.scene)
        if card is None:
            self.note("nothing selected to copy")
            return
        self.copy_to_clipboard(json.dumps(card, ensure_ascii=False))
        self.note("copied the card as JSON")

    def action_export(self) -> None:
        if self.picture is None:
            return
        try:
            path = export.save(self.picture.canvas, self.scene.session, Path.cwd())
        except OSError as fault:
            self.note(f"not saved: {fault.strerror or fault}")
        else:
            self.note(f"saved {path.name}")

    def action_export_csv(self) -> None:
        """Of the selected area, else of what is in view; beside the screen, for there may be many."""
        session, state = self.scene.session, self.scene.state
        errands.write_rows(self, session, state.area or (state.t0, state.t1))
        self.note("writing the rows in view")

    def on_noted(self, message: errands.Noted) -> None:
        self.note(message.text)

    # --- searching ------------------------------------------------------------------------------------------------

    def find(self, pattern: str) -> None:
        """Search beside the screen; what answers an older pattern is passed over."""
        session = self.scene.session
        self.beside(lambda: self.post_message(Found(session.search(pattern))))

    def on_found(self, message: Found) -> None:
        hits = message.hits
        if self.scene is None:
            return
        state = self.scene.state
        if state.overlay == "search" and hits.pattern != state.entry:
            return
        if hits.error and self.scene.hits is not None:
            hits = replace(self.scene.hits, error=hits.error, words=hits.words)
        self.become(replace(state, hit=NONE), hits)

    # --- pointer --------------------------------------------------------------------------------------------------

    def _pointed(self) -> bool:
        return self.scene is not None and self.picture is not None and not self.scene.state.overlay

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._pressed, self._dragged = (event.screen_x, event.screen_y), False

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._pressed is None or not event.button or not self._pointed():
            return
        self._dragged = self._dragged or event.screen_x != self._pressed[0]
        if not self._dragged:
            return
        if event.shift:
            self.become(pointer.sweep(self.picture, self.scene, self._pressed[0], event.screen_x))
        else:
            self.become(pointer.drag(self.picture, self.scene, event.delta_x))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        pressed, self._pressed = self._pressed, None
        if pressed is None or self._dragged or not self._pointed():
            return
        if self.scene.state.screen == "compare" and self.scene.other is not None:
            self.become(pairs.click(self.picture, self.scene, event.screen_x, event.screen_y))
        if self.scene.state.screen != "timeline":
            return
        self.become(pointer.click(self.picture, self.scene, event.screen_x, event.screen_y))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._wheel(event, up=True)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._wheel(event, up=False)

    def _wheel(self, event: events.MouseEvent, up: bool) -> None:
        if self._pointed() and self.scene.state.screen == "timeline":
            self.become(pointer.wheel(self.picture, self.scene, event.screen_x, event.screen_y, up, event.shift))
