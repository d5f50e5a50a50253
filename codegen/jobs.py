"""How many compile jobs fit: limited by processors and by memory, inside a container too."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_MB = 1 << 20


def job_count(cpus: int, memory_mb: int, job_memory_mb: int) -> int:
    """Jobs that run at once: at most ``cpus``, at most what memory holds, at least one."""
    return max(1, min(cpus, memory_mb // max(1, job_memory_mb)))


def cpus() -> int:
    """Processors this process may use: affinity and the quota of its container."""
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    quota = _words(_CGROUP / "cpu.max")
    if len(quota) == 2 and quota[0].isdigit() and quota[1].isdigit():
        count = min(count, max(1, int(quota[0]) // max(1, int(quota[1]))))
    return count


def memory_mb(*, available: bool) -> int:
    """Memory in MB, of the machine or of the container, whichever is smaller.

    ``available`` counts what is free now; without it the answer does not change from one moment
    to the next, so it may stand in a generated file.
    """
    limits = [_meminfo("MemAvailable" if available else "MemTotal")]
    limit = _number(_CGROUP / "memory.max") or _number(_CGROUP / "memory/memory.limit_in_bytes")
    if limit:
        used = _number(_CGROUP / "memory.current") if available else 0
        limits.append(max(0, limit - used) // _MB)
    return min(limits)


def _meminfo(field: str) -> int:
    for line in _lines(Path("/proc/meminfo")):
        name, _, rest = line.partition(":")
        if name == field:
            return int(rest.split()[0]) // 1024
    return 4096  # no /proc: a small machine, rather than none


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeError):
        return []


def _words(path: Path) -> list[str]:
    return " ".join(_lines(path)).split()


def _number(path: Path) -> int:
    words = _words(path)
    return int(words[0]) if words and words[0].isdigit() else 0
