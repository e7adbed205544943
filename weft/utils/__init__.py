"""Helpers that follow ``torch.utils``."""

# Imported when they are first asked for: `weft.utils.data` works after `import weft`.
_SUBMODULES = frozenset(("checkpoint", "data", "hooks"))


def __getattr__(name: str) -> object:
    if name in _SUBMODULES:
        import importlib

        return importlib.import_module(f"weft.utils.{name}")
    raise AttributeError(f"module 'weft.utils' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_SUBMODULES]
