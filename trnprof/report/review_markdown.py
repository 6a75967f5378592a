"""A review as Markdown; its pictures are SVG files beside it."""

from __future__ import annotations

from collections.abc import Iterator

from trnprof.report.review import Block, Grid, Paragraph, Picture, Points, Review, Shares, Step
from trnprof.view import format as words


def to_markdown(review: Review, stem: str) -> str:
    """The text. stem : of the pictures' names, which are `<stem>-<picture>.svg`"""
    lines = [f"# {_inline(review.title)}", "", _inline(review.subtitle)]
    for section in review.sections:
        lines += ["", f"## {section.title}"]
        for block in section.blocks:
            lines += ["", *_block(block, stem)]
    return "\n".join([*lines, "", "---", "", _inline(review.footer), ""])


def pictures(review: Review) -> Iterator[Picture]:
    return (block for section in review.sections for block in section.blocks if isinstance(block, Picture))


def picture_name(stem: str, picture: Picture) -> str:
    return f"{stem}-{picture.name}.svg"


def _block(block: Block, stem: str) -> Iterator[str]:
    match block:
        case Paragraph():
            yield _inline(block.text)
        case Points():
            yield from (f"- {_inline(item)}" for item in block.items)
        case Grid():
            yield from _grid(block)
        case Picture():
            yield f"![{_inline(block.scene.label)}]({picture_name(stem, block).replace(' ', '%20')})"
        case Shares():
            yield ", ".join(_inline(text) for _, _, text in block.parts)
        case Step():
            yield f"### {_inline(block.title)}: {_inline(block.gain)}"
            for each in block.blocks:
                yield ""
                yield from _block(each, stem)


def _grid(grid: Grid) -> Iterator[str]:
    yield _row(grid.head)
    yield "|" + "|".join("--:" if place in grid.right else "---" for place in range(len(grid.head))) + "|"
    yield from (_row(row) for row in grid.rows)


def _row(values: tuple[str, ...]) -> str:
    return "| " + " | ".join(_inline(value).replace("|", "\\|") for value in values) + " |"


def _inline(text: str) -> str:
    """Text in one line in which nothing is markup."""
    shown = " ".join(words.plain(text).split(" "))
    return "".join(f"\\{c}" if c in "\\`*_[]<>#~" else c for c in shown)
