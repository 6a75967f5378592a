"""What threads beside the screen tell it."""

from __future__ import annotations

from textual.message import Message

from trnprof.tui.screen import Scene
from trnprof.tui.shelf import Shelf
from trnprof.view.records import Hits


class Opened(Message):
    """The trace has been read and painted once."""

    def __init__(self, scene: Scene):
        super().__init__()
        self.scene = scene


class Failed(Message):
    """It could not be."""

    def __init__(self, fault: Exception):
        super().__init__()
        self.fault = fault


class Shelved(Message):
    """There are several to choose from."""

    def __init__(self, shelf: Shelf):
        super().__init__()
        self.shelf = shelf


class Found(Message):
    """What a search found."""

    def __init__(self, hits: Hits):
        super().__init__()
        self.hits = hits
