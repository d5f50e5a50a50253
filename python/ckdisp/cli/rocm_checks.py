"""What ``ckdisp doctor`` says of AMD GPUs: what kernels for them are built with and run on.

CPU kernels need nothing of it, so whatever is missing is a warning.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..codegen.errors import BuildError, Error
from ..codegen.rocm import ck, roots
from ..codegen.rocm.archs import SETTING, SHARED_SETTINGS, find_archs
from ..codegen.rocm.toolchain import HipToolchain, choose_headers, choose_rocm
from .findings import OK, WARN, Check


def build_checks() -> Iterator[Check]:
    """Every finding, in the order of the report."""
    places = list(roots.candidates(None, os.environ))
    rocm, error = None, ""
    try:
        rocm = choose_rocm(places, [])
    except BuildError as problem:
        error = str(problem)
    if rocm is None:
        yield Check("rocm", WARN, "none; kernels for AMD GPUs cannot be built", error)
    else:
        yield Check("rocm", OK, f"{rocm.version} in {rocm.folder} ({rocm.origin})")
    yield from _elsewhere("other rocm", places, rocm)
    yield from _headers(rocm)
    if rocm is not None:
        yield from _compiler()
    yield from _archs(rocm)


def _elsewhere(
    name: str,
    places: Sequence[roots.Rocm] | Sequence[ck.Headers],
    chosen: roots.Rocm | ck.Headers | None,
) -> Iterator[Check]:
    """Places that exist and were not taken: another came first, or something lacks there."""
    seen = {chosen.folder} if chosen is not None else set()
    texts = []
    for place in places:
        if place.folder not in seen and os.path.isdir(place.folder):
            seen.add(place.folder)
            texts.append(str(place))
    if texts:
        yield Check(name, OK, f"passed over: {'; '.join(texts)}")


def _headers(rocm: roots.Rocm | None) -> Iterator[Check]:
    places = list(ck.candidates(None, rocm.folder if rocm is not None else "", os.environ))
    try:
        chosen = choose_headers(places, [])
    except BuildError as error:
        yield Check("ck headers", WARN, "none; kernels for AMD GPUs cannot be built", str(error))
        return
    found = ck.features(chosen.folder)
    lacks = [name for name in ck.known_features() if name not in found]
    without = f"; without {', '.join(lacks)}" if lacks else ""
    text = f"{chosen.folder} ({chosen.origin}): {', '.join(sorted(found))}{without}"
    yield Check("ck headers", OK, text)
    usable = [place for place in places if not place.problem]  # most ROCms have none
    yield from _elsewhere("other headers", usable, chosen)


def _compiler() -> Iterator[Check]:
    try:
        hip = HipToolchain.find()
        hip.check()
    except BuildError as error:
        yield Check("hip compiler", WARN, "kernels for AMD GPUs cannot be built", str(error))
        return
    command = " ".join((*hip.launcher, hip.compiler))
    yield Check("hip compiler", OK, f"{command}, with {hip.llvm_bin}: compiles an empty kernel")


def _archs(rocm: roots.Rocm | None) -> Iterator[Check]:
    todo = f"name archs in a declaration or in {SETTING}, e.g. {SETTING}=gfx942"
    try:
        found = find_archs()
    except Error as error:
        yield Check("gpu archs", WARN, "none", str(error))
        return
    if found.names:
        text = f"{' '.join(found.names)} ({found.origin})"
        if found.left_out:
            yield Check("gpu archs", WARN, text, found.warning())
        else:
            yield Check("gpu archs", OK, text)
    elif found.left_out:
        yield Check("gpu archs", WARN, "none", f"{found.warning()}; {todo}")
    elif rocm is not None:
        settings = ", ".join((SETTING, *SHARED_SETTINGS))
        yield Check(
            "gpu archs", WARN, f"ROCm's tools show no device, and none of {settings} is set", todo
        )


def device_checks() -> Iterator[Check]:
    """The runtimes of GPUs that this process uses, and the devices that they show."""
    try:
        from .. import _core
    except ImportError:  # another check says so
        return
    try:
        devices, why = _core.devices(), _core.why_no_devices()
    except Error as error:
        devices, why = [], str(error)
    for name, library in (("hip runtime", "libamdhip64"), ("cuda driver", "libcuda.so")):
        if runtime := _loaded(library):
            yield Check(name, OK, runtime)
    for device in devices:
        memory = device.memory_bytes / (1 << 30)
        text = f"{device.name}, {device.target}, {device.compute_units} compute units, "
        name = "gpu" if device.kind == "hip" else "cuda gpu"
        yield Check(f"{name} {device.index}", OK, f"{text}{memory:.0f} GiB")
    if not devices:
        yield Check("gpus", WARN, "none; kernels for GPUs cannot run here", why)


def _loaded(library: str) -> str:
    """The file from which this process has loaded ``library``; empty if it has not."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    files = (line.split(maxsplit=5)[-1] for line in maps.splitlines())
    return next((f for f in files if os.path.basename(f).startswith(library)), "")
