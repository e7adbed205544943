"""The committed page is the one that web/ builds, and brings the licences of what is inside it."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "web"
PAGE = ROOT / "weft" / "graph" / "page.html"


def test_the_bundle_was_made_of_these_sources() -> None:
    fingerprint = hashlib.sha256()
    sources = sorted(path.relative_to(WEB).as_posix() for path in (WEB / "src").iterdir())
    for name in ["build.mjs", "package-lock.json", *sources]:
        text = (WEB / name).read_text(encoding="utf-8")
        fingerprint.update(f"{name}\n{text}\n".encode())
    marked = re.search(r'data-sources="(\w+)"', PAGE.read_text(encoding="utf-8"))
    assert marked, "weft/graph/page.html has no fingerprint"
    assert marked[1] == fingerprint.hexdigest(), (
        "web/ has changed: run `make page` (needs node and npm) and commit weft/graph/page.*"
    )


def test_every_package_is_pinned_by_hash() -> None:
    packages = json.loads((WEB / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    for path, package in packages.items():
        if path:
            assert package["integrity"].startswith("sha512-"), path


def test_licences_of_bundled_libraries() -> None:
    text = PAGE.with_name("page.licences.txt").read_text(encoding="utf-8")
    packages = json.loads((WEB / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    bundled = [path for path, package in packages.items() if path and not package.get("dev")]
    assert bundled
    for path in bundled:
        name, package = path.removeprefix("node_modules/"), packages[path]
        assert f"{name} {package['version']} ({package['license']})" in text
        assert package["license"] == "MIT"
    assert "Permission is hereby granted" in text
