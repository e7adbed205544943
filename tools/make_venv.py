"""Makes .venv if it is not there, and lets it find the working tree.

python3 tools/make_venv.py .venv
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

OLDEST = (3, 11)


def refuse(message: str) -> None:
    raise SystemExit(f"make_venv: {message}")


def make_venv(folder: Path) -> None:
    if (folder / "bin" / "python").exists():
        return
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        refuse("this python3 has no ensurepip; on Debian: apt install python3-venv python3-dev")
    venv.create(folder, with_pip=True)


def add_working_tree(folder: Path, tree: Path) -> None:
    """Site-packages gets a .pth file that names the tree, so `import weft` works anywhere."""
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    answer = subprocess.run(
        [folder / "bin" / "python", "-c", ask], check=True, capture_output=True, text=True
    )
    (Path(answer.stdout.strip()) / "weft-development.pth").write_text(f"{tree}\n")


def main() -> None:
    if sys.version_info < OLDEST:
        refuse(f"weft needs Python {OLDEST[0]}.{OLDEST[1]} or newer, this is {sys.version}")
    folder = Path(sys.argv[1])
    make_venv(folder)
    add_working_tree(folder, Path(__file__).resolve().parent.parent)


if __name__ == "__main__":
    main()
