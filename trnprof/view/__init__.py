"""The view-model: what every screen shows, with the words already set."""

from trnprof.view.records import Frame, Track, Viewport
from trnprof.view.session import Session

__all__ = ["Frame", "Session", "Track", "Viewport"]
