"""The one table of commands and their keys: both views' bindings, help and command palette, and the tests, read it."""

from __future__ import annotations

from dataclasses import dataclass

from trnprof.view.colours import COLOUR_WORDS
from trnprof.view.palette import THEMES

VIEWS = ("web", "terminal")


@dataclass(frozen=True, slots=True)
class Key:
    """One command; `keys` are the browser's `KeyboardEvent.key` values, none where only the palette has it."""

    action: str
    keys: tuple[str, ...]
    shown: tuple[str, ...]
    """What help prints, one entry a key cap."""
    group: str
    words: str
    terminal: tuple[str, ...] = ()
    """Textual's names of the same keys."""
    views: tuple[str, ...] = VIEWS


GROUPS = ("Move", "Select", "Find", "Tracks", "Show", "Take")

KEYS: tuple[Key, ...] = (
    Key("zoom_in", ("w", "+"), ("W",), "Move", "zoom in", ("w", "plus")),
    Key("zoom_out", ("s", "-"), ("S",), "Move", "zoom out", ("s", "minus")),
    Key("pan_left", ("a", "ArrowLeft"), ("A", "←"), "Move", "pan left", ("a", "left")),
    Key("pan_right", ("d", "ArrowRight"), ("D", "→"), "Move", "pan right", ("d", "right")),
    Key("page_left", ("A",), ("Shift A",), "Move", "pan left by most of the view", ("A", "shift+left")),
    Key("page_right", ("D",), ("Shift D",), "Move", "pan right by most of the view", ("D", "shift+right")),
    Key("track_up", ("ArrowUp",), ("↑",), "Move", "track above", ("up",)),
    Key("track_down", ("ArrowDown",), ("↓",), "Move", "track below", ("down",)),
    Key("fit", ("f",), ("f",), "Move", "fit selection", ("f",)),
    Key("home", ("0",), ("0",), "Move", "kernel window; again: whole trace", ("0",)),
    Key("goto", ("g",), ("g",), "Move", "go to time, id or line", ("g",)),
    Key("next", (".",), (".",), "Select", "next instruction on the track", ("full_stop",)),
    Key("previous", (",",), (",",), "Select", "previous instruction on the track", ("comma",)),
    Key("follow", ("]",), ("]",), "Select", "what waited for it", ("right_square_bracket",)),
    Key("follow_back", ("[",), ("[",), "Select", "what it waited for", ("left_square_bracket",)),
    Key("area", ("v",), ("v",), "Select", "start, end an area", ("v",)),
    Key("mark", ("m",), ("m",), "Select", "set a mark", ("m",)),
    Key("clear_marks", ("M",), ("M",), "Select", "clear marks", ("M",)),
    Key("clear", ("Escape",), ("Esc",), "Select", "clear, close; one step at a time", ("escape",)),
    Key("search", ("/",), ("/",), "Find", "search, regex", ("slash",)),
    Key("next_hit", ("n",), ("n",), "Find", "next hit", ("n",)),
    Key("previous_hit", ("N",), ("N",), "Find", "previous hit", ("N",)),
    Key("commands", (":",), (":",), "Find", "all commands", ("colon",)),
    Key("find_track", ("t",), ("t",), "Find", "find a track", ("t",)),
    Key("fold", (" ",), ("Space",), "Tracks", "fold, unfold the group", ("space",)),
    Key("pin", ("p",), ("p",), "Tracks", "pin the track", ("p",)),
    Key("hide", ("x",), ("x",), "Tracks", "hide the track; again: show all", ("x",)),
    Key("move_down", ("J",), ("J",), "Tracks", "move the track down", ("J",)),
    Key("move_up", ("K",), ("K",), "Tracks", "move the track up", ("K",)),
    Key("colour", ("c",), ("c",), "Show", "what colours say", ("c",)),
    Key("only", ("C",), ("C",), "Show", "one colour of the legend alone; again: the next", ("C",)),
    Key("everything", (), (), "Show", "all colours of the legend"),
    *(Key(f"colour_{way}", (), (), "Show", f"colour by {said}") for way, said in COLOUR_WORDS.items()),
    Key("tab_1", ("1",), ("1",), "Show", "instruction", ("1",)),
    Key("tab_2", ("2",), ("2",), "Show", "verdict", ("2",)),
    Key("tab_3", ("3",), ("3",), "Show", "engines", ("3",)),
    Key("tab_4", ("4",), ("4",), "Show", "roofline", ("4",)),
    Key("tab_5", ("5",), ("5",), "Show", "regions", ("5",)),
    Key("tab_6", ("6",), ("6",), "Show", "source lines", ("6",)),
    Key("tab_7", ("7",), ("7",), "Show", "advice", ("7",)),
    Key("tab_8", ("8",), ("8",), "Show", "critical path", ("8",)),
    Key("tab_9", ("9",), ("9",), "Show", "memory map", ("9",)),
    Key("panel", ("\\",), ("\\",), "Show", "panel on, off", ("backslash",)),
    Key("listing", ("L",), ("L",), "Show", "what is in view as a table", ("L",)),
    Key("roofline", ("o",), ("o",), "Show", "roofline, whole page", ("o",)),
    Key("compare", ("=",), ("=",), "Show", "compare", ("equals_sign",)),
    Key("what_if", ("i",), ("i",), "Show", "what-if", ("i",)),
    Key("theme", ("T",), ("T",), "Show", "theme", ("T",)),
    *(Key(f"theme_{theme}", (), (), "Show", f"{theme} theme") for theme in THEMES),
    Key("help", ("?",), ("?",), "Show", "this table", ("question_mark",)),
    Key("open", ("O",), ("O",), "Take", "open another trace", ("O",)),
    Key("copy", ("y",), ("y",), "Take", "copy the card as JSON", ("y",)),
    Key("export", ("e",), ("e",), "Take", "save the picture", ("e",)),
    Key("export_svg", (), (), "Take", "save the picture as SVG", views=("web",)),
    Key("export_csv", ("E",), ("E",), "Take", "save what is in view as CSV", ("E",)),
    Key("link", ("l",), ("l",), "Take", "copy a link to this view", ("l",), ("web",)),
    Key("quit", ("q",), ("q",), "Take", "quit", ("q",), ("terminal",)),
)

TABS = ("instruction", "verdict", "engines", "roofline", "regions", "source", "advice", "path", "memory")
"""Panel tabs in the order of keys 1 to 9."""


def keys_of(view: str) -> tuple[Key, ...]:
    """The rows that a view binds to a key."""
    return tuple(key for key in commands_of(view) if key.keys)


def commands_of(view: str) -> tuple[Key, ...]:
    """All rows of a view: what its palette of commands lists."""
    return tuple(key for key in KEYS if view in key.views)


def matching(view: str, text: str) -> tuple[Key, ...]:
    """Commands that hold every word that is typed, in the order of the table."""
    wanted = text.lower().split()
    return tuple(key for key in commands_of(view) if all(word in f"{key.group} {key.words}".lower() for word in wanted))


def grouped(view: str) -> tuple[tuple[str, tuple[Key, ...]], ...]:
    """The help page: groups in order, each with its rows."""
    rows = keys_of(view)
    return tuple((group, tuple(key for key in rows if key.group == group)) for group in GROUPS)
