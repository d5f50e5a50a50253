"""What ``ckdisp doctor`` says of building for AMD GPUs: ROCm, compiler, CK headers, archs.

CPU kernels need nothing of it, so whatever is missing is a warning.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

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
        yield Check("gpu archs", WARN, f"no device, and none of {settings} is set", todo)
