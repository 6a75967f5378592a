"""A review as a file: the ending says the format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from sim.errors import UsageError
from trnprof.report.charts import css_free, replace_file
from trnprof.report.review import review
from trnprof.report.review_html import to_html
from trnprof.report.review_markdown import picture_name, pictures, to_markdown
from trnprof.report.svg import to_svg

if TYPE_CHECKING:
    from trnprof.view.session import Session

ENDINGS = (".html", ".md")


def write(session: Session, path: str | os.PathLike[str], theme: str | None = None) -> Path:
    """Write a review as .html or .md; an existing file is replaced whole or not at all.

    theme  : light or dark, for a page that does not follow its reader and for pictures beside Markdown
    raises : UsageError for another ending, InputError when the file cannot be written
    """
    target = Path(path)
    ending = target.suffix.lower()
    if ending not in ENDINGS:
        said = target.suffix or "a file without ending"
        raise UsageError(f"{target}: a report cannot be written as {said!r}", remedy=f"one of {', '.join(ENDINGS)}")
    made = review(session)
    if ending == ".html":
        replace_file(target, to_html(made, theme).encode(errors="replace"))
        return target
    for picture in pictures(made):
        drawn = to_svg(picture.scene, css_free(theme or "light"))
        replace_file(target.with_name(picture_name(target.stem, picture)), drawn.encode())
    replace_file(target, to_markdown(made, target.stem).encode(errors="replace"))
    return target
