"""The roofline as a Plotly figure in the page's own colours."""

from __future__ import annotations

import math

import plotly.graph_objects as go

from trnprof.roofline import Ceiling, Chart, Point
from trnprof.view import format as words
from trnprof.view.palette import BOUNDS, THEME_COLOURS
