"""Our estimates against what others measured: published kernels, captured instructions, peers' closed forms."""
