"""The inside of `DataLoader`. `collate` and `worker` are where PyTorch's programs look for them."""
