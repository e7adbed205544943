"""weft: a define-by-run autodiff framework."""

__version__ = "0.1.0"

from weft._core import *  # noqa: F403
