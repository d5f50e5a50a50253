"""Building kernel sets at run time, in a content-addressed cache."""

from __future__ import annotations
