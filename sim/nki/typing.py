"""`nki.typing`: names for annotations."""

from sim.nki.tensor import NkiTensor

tensor = NkiTensor
mutable_tensor = NkiTensor
