"""What mkdocs needs beyond mkdocs.yml: a folder in the navigation stands for the pages in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Lists the pages of the folders that the navigation names."""
    docs = Path(config["docs_dir"])
    config["nav"] = [
        {title: _pages_of(docs, target) if isinstance(target, str) else target}
        for entry in config["nav"]
        for title, target in entry.items()
    ]
    return config


def _pages_of(docs: Path, target: str) -> Any:
    folder = docs / target
    if not folder.is_dir():
        return target
    pages = sorted(folder.glob("*.md"), key=lambda page: (page.stem != "README", page.stem))
    return [str(page.relative_to(docs)) for page in pages]
