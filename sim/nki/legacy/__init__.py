"""The legacy API, `neuronxcc.nki…` (SDK 2.20 to 2.29)."""
