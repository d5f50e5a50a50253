"""The form of what ``ckdisp doctor`` finds."""

from __future__ import annotations

from dataclasses import dataclass

OK, WARN, FAIL = "ok", "warn", "fail"


@dataclass(frozen=True)
class Check:
    """One finding; ``todo`` says what to do unless the status is ``ok``."""

    name: str
    status: str
    found: str
    todo: str = ""
