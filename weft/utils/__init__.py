"""Helpers that follow ``torch.utils``."""
