"""PyTorch: the operators of `torch.export`, in our own form."""
