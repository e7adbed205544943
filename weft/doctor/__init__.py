"""The doctor: silent failures of training, caught while the loop still runs.

It is on from the start and speaks once per cause, as a ``DoctorWarning`` that names the line of the
cause, the line where it showed, why it matters and the cure. It only reports what it can prove from
the recorded graph. ``weft doctor script.py`` runs a whole program under it and lists what it found;
docs/doctor.md shows every kind with a wrong and a right program.

Where a finding is what you meant, say so on the line of its cause or of its symptom, and only that
finding is silent there::

    loss = ((a - b) ** 2).mean()  # weft: expected accidental-broadcast
"""

from weft.doctor._findings import KINDS, DoctorWarning, Finding, findings
from weft.doctor._lifetime import clear, finish

__all__ = ["KINDS", "DoctorWarning", "Finding", "clear", "findings", "finish"]
