"""Evidence that gradients are right: checks whose record can be repeated to the same figures.

`weft.autograd.gradcheck` answers yes or no for one point. `verify` keeps what was compared: with
which seed, dtype, step and tolerance, how large the worst error was and where, on which versions,
machine and commit. `weft verify module.py:function` writes such a record, and
`weft verify record.json` repeats it.
"""

from weft.check._record import InputResult, Record
from weft.check._verify import repeat, verify

__all__ = ["InputResult", "Record", "repeat", "verify"]
