"""Compiled loops of the analysis and the views."""
