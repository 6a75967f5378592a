"""NKI kernels, one file a subject, as they would run on the device."""
