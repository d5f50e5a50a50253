"""Which GPU architectures to build for when nobody names any in a declaration."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..arch import arch, arches
from ..errors import BuildError, InvalidKey
from ..probing import run_compiler
from ..toolchain import which
from .roots import candidates

SETTING = "CKDISP_ARCHS"
# Variables of CMake projects and of PyTorch. They may name GPUs that ckdisp has no kernels for.
SHARED_SETTINGS = ("CMAKE_HIP_ARCHITECTURES", "GPU_TARGETS", "AMDGPU_TARGETS", "PYTORCH_ROCM_ARCH")
DEVICES = "the devices present"
_TOOLS = ("amdgpu-arch", "rocm_agent_enumerator")
_SEPARATORS = re.compile(r"[;,\s]+")


@dataclass(frozen=True)
class Archs:
    """GPU archs, the setting that named them, and what it named besides that is not known."""

    names: tuple[str, ...]
    origin: str
    left_out: tuple[str, ...] = ()

    def warning(self) -> str:
        """What was left out, as a sentence; empty if nothing was."""
        if not self.left_out:
            return ""
        return (
            f"{self.origin}: {', '.join(self.left_out)} left out, which ckdisp has no kernels for; "
            f"it knows {', '.join(gpu_names())}"
        )


def gpu_names() -> tuple[str, ...]:
    return tuple(name for name, facts in arches().items() if facts.device_kind == "hip")


def find_archs(env: Mapping[str, str] | None = None) -> Archs:
    """The archs of the first setting that is not empty, else those of the devices present.

    ``$CKDISP_ARCHS`` may also hold CPU levels, which count for nothing here; a name in it that is
    wrong raises :class:`InvalidKey`. The other settings belong to others: names in them that are
    not known are left out.
    """
    env = os.environ if env is None else env
    for name in (SETTING, *SHARED_SETTINGS):
        text = env.get(name, "").strip()
        if text and text.upper() not in ("OFF", "FALSE", "NO"):
            origin = f"{name}={text}"
            return _parse(text, origin, strict=name == SETTING, env=env)
    return device_archs(env)


def default_archs(env: Mapping[str, str] | None = None) -> Archs:
    """:func:`find_archs`, or :class:`InvalidKey` that says where archs were looked for."""
    found = find_archs(env)
    if found.names:
        return found
    settings = ", ".join((SETTING, *SHARED_SETTINGS))
    if found.origin == DEVICES:
        named = f", but for {', '.join(found.left_out)}" if found.left_out else ""
        why = f"none of {settings} is set, and no AMD GPU was found on this machine{named}"
    else:
        known = "no AMD GPU was found here" if "native" in found.origin else "ckdisp knows none"
        why = f"{found.origin}, and {known}"
    raise InvalidKey(
        f"no arch: {why}. Name archs, e.g. gfx942, in the declaration or in {SETTING}; "
        f"known: {', '.join(gpu_names())}"
    )


def device_archs(env: Mapping[str, str] | None = None) -> Archs:
    """The archs of the AMD GPUs of this machine, as ROCm's tools tell; none without ROCm."""
    env = os.environ if env is None else env
    for tool in _tools(env):
        try:
            answer = run_compiler([tool]).stdout
        except BuildError:
            continue
        found = [word for word in answer.split() if re.match(r"gfx(?!000\b)", word)]
        if found:
            return _parse(" ".join(found), DEVICES, strict=False, env=env)
    return Archs((), DEVICES)


def _tools(env: Mapping[str, str]) -> Iterator[str]:
    """Programs that print the archs of the devices; those of the ROCm in use first."""
    seen = set()
    for place in candidates(None, env):
        for folder in (place.llvm_bin, os.path.join(place.folder, "bin") if place.folder else ""):
            for name in _TOOLS if folder else ():
                path = which(os.path.join(folder, name))
                if path is not None and os.path.realpath(path) not in seen:
                    seen.add(os.path.realpath(path))
                    yield path
    for name in _TOOLS:
        path = which(name, env)
        if path is not None and os.path.realpath(path) not in seen:
            yield path


def _parse(text: str, origin: str, *, strict: bool, env: Mapping[str, str]) -> Archs:
    """``gfx942:sramecc+:xnack-;gfx950, native`` as archs; features are dropped."""
    names: dict[str, None] = {}
    unknown: dict[str, None] = {}
    for word in filter(None, _SEPARATORS.split(text)):
        if word == "native":
            devices = device_archs(env)
            names.update(dict.fromkeys(devices.names))
            unknown.update(dict.fromkeys(devices.left_out))
        elif word == "cpu" and strict:
            continue
        else:
            try:
                facts = arch(word)
            except InvalidKey as error:
                if strict:
                    raise InvalidKey(f"{origin}: {error}") from None
                unknown[word] = None
                continue
            if facts.is_gpu:
                names[facts.name] = None
            elif not strict:
                unknown[word] = None
    return Archs(tuple(names), origin, tuple(unknown))
