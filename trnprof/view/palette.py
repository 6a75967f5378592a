"""The colours of every mouth: views carry indices, and each theme says what an index looks like.

Contrast and distance were measured (WCAG 2, OKLab with Machado matrices); an engine or a bound is never named by its
colour alone, so that two equal greys still read apart.
"""

from __future__ import annotations

from dataclasses import dataclass

THEMES = ("dark", "light", "contrast")

ENGINE_COLOURS = ("tensor", "vector", "scalar", "gpsimd", "sync", "dma", "cc", "other", "neutral")
"""Colour index of engines; the first eight are `sim.trace.Engine`, the last is control and whatever must not speak."""

NEUTRAL = ENGINE_COLOURS.index("neutral")

BOUNDS = ("compute", "memory_bandwidth", "memory_capacity", "network", "latency")
"""Colour index of bounds."""

HUES = 8
"""Colours for values that are not known beforehand: opcodes, operators, lines."""

HUE_COLOURS = tuple(f"hue-{k}" for k in range(1, HUES + 1))


@dataclass(frozen=True, slots=True)
class BoundGlyph:
    """How a bound looks where there is no colour and no hatch."""

    short: str
    glyph: str
    """One character for a terminal."""
    ascii: str


BOUND_GLYPHS = (
    BoundGlyph("compute", "█", "#"),
    BoundGlyph("bandwidth", "▒", "%"),
    BoundGlyph("capacity", "▓", "@"),
    BoundGlyph("network", "│", "|"),
    BoundGlyph("latency", "░", ":"),
)

_NAMES = (
    *("bg", "surface", "raised", "hover", "line", "line-2", "text", "text-2", "text-3", "accent", "select", "shade"),
    *ENGINE_COLOURS,
    *("neutral-ink", "region", "region-ink"),
    *BOUNDS,
    *("good", "bad", "mark"),
    *HUE_COLOURS,
)
"""Of the tokens, in the order in which the hex values are written below."""

_HEX = {
    "dark": (
        "#0f1115 #15181d #1c2027 #232830 #262b33 #3b4350 #e8ebf0 #b0b8c4 #87909d #9dbcff #ffffff #00000066 "
        "#6996fd #7fd9ab #f0c23b #c78dac #747b84 #d0581f #def2ff #8fa3b5 #353c47 #c3cad5 #2b3340 #dfe4ec "
        "#6b96fe #f08c24 #d8bdfb #86eda4 #858c98 #7fd9ab #ff8f7a #f0c23b "
        "#99adff #ebad1f #ff7099 #c2ff70 #5c70eb #ad4785 #85850a #0affff"
    ),
    "light": (
        "#ffffff #f6f7f9 #ffffff #edeff3 #e2e5ea #c3c9d3 #14181f #434c59 #616b79 #2f57c4 #0b0d10 #ffffffb0 "
        "#4748c6 #0b876d #a98d12 #85158f #4f5257 #bc4e11 #4c9bd9 #5a7186 #d9dde4 #3d4653 #e6e9ef #1d232c "
        "#5264e2 #d66602 #4d2390 #2b614a #85828f #0b7a52 #b3261e #7c6200 "
        "#0a5cc2 #ad330a #85990a #853370 #7085ff #c27099 #470a5c #700a0a"
    ),
    "contrast": (
        "#000000 #000000 #000000 #2b2b2b #8c8c8c #d0d0d0 #ffffff #ffffff #dcdcdc #ffd60a #ffd60a #000000a0 "
        "#8fb1ff #8df0bd #ffd84a #f0b0d2 #8f959c #ff8a4d #e8f7ff #a9bccd #4a4a4a #ffffff #2e2e2e #ffffff "
        "#8fb1ff #ff9d3d #e2ccff #8dffad #989898 #8df0bd #ff9d8a #ffd60a "
        "#adffff #ebad1f #d65c99 #ebff5c #7070eb #47d6ad #c299ff #99850a"
    ),
}

THEME_COLOURS: dict[str, dict[str, str]] = {
    theme: dict(zip(_NAMES, colours.split(), strict=True)) for theme, colours in _HEX.items()
}
"""Hex of every token, by theme."""

DARK_THEMES = ("dark", "contrast")


def bound_colour(name: str | None) -> int:
    """Colour index of a bound; where there is no verdict, of latency, which is grey."""
    return BOUNDS.index(name or "latency")


def luminance(colour: str) -> float:
    """WCAG 2 relative luminance of `#rrggbb`, 0-1."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    """WCAG 2 contrast ratio, 1-21."""
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def ink_on(colour: str) -> str:
    """The label colour that contrasts more."""
    return max(("#0b0d10", "#ffffff"), key=lambda ink: contrast(ink, colour))


def stylesheet() -> str:
    """The tokens as CSS custom properties, a block for each theme; until one is chosen, the system's preference."""
    blocks = [_block(":root", "dark"), f"@media (prefers-color-scheme: light) {{ {_block(':root', 'light')} }}"]
    blocks += [_block(f':root[data-theme="{theme}"]', theme) for theme in THEMES]
    return "\n".join(blocks) + "\n"


def _block(selector: str, theme: str) -> str:
    tokens = " ".join(f"--{name}: {value};" for name, value in THEME_COLOURS[theme].items())
    scheme = "dark" if theme in DARK_THEMES else "light"
    return f"{selector} {{ color-scheme: {scheme}; {tokens} }}"
