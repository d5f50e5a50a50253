"""Random keys for AMD GPUs, drawn so that every option appears, and compiled by the real build."""

from __future__ import annotations

import random
import subprocess
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ckdisp.code_objects import InspectError, KernelReport, check_object, inspect
from ckdisp.codegen.arch import arch as arch_facts
from ckdisp.codegen.build import find_ninja, parse_failures
from ckdisp.codegen.enums import PIPELINE
from ckdisp.codegen.generate import generate
from ckdisp.codegen.key import KernelKey
from ckdisp.codegen.make import make_key
from ckdisp.codegen.ops import op
from ckdisp.codegen.ops.conv.curated import curated as conv_curated
from ckdisp.codegen.ops.conv.operands import DTYPES, tensors
from ckdisp.codegen.ops.definition import SpaceRequest
from ckdisp.codegen.ops.facts import default_output, pairs
from ckdisp.codegen.ops.gemm.curated import curated as gemm_curated

ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
OPS = ("gemm", "conv")
_POOL = 1500  # keys considered for each family and pipeline
_HEAVY = 64  # matrix instructions of a wave per tile, above which a kernel takes long to compile
_HEAVY_SHARE = 12  # of that many heavy kernels one is considered
_TILE_FIELDS = ("tile", "wave", "warp", "pipeline", "scheduler", "num_wave_groups")
_CONV_FIELDS = (
    *_TILE_FIELDS,
    *("epilogue", "specialization", "vector", "two_stage", "groups_to_merge", "double_buffer"),
)
# Fields of which every value should appear in a sample.
_EVERY_VALUE = {
    "gemm": (
        *("dtype_c", "dtype_d", "layout", "elementwise", "num_d", "epilogue", "scheduler"),
        *("persistent", "split_k", "pad_m", "wave", "warp", "block_per_cu"),
    ),
    "conv": (
        *("dtype_in", "dtype_wei", "dtype_out", "layout", "epilogue", "scheduler"),
        *("specialization", "vector", "wave", "warp"),
        *("split_k", "two_stage", "split_image", "explicit_gemm", "groups_to_merge"),
        "block_per_cu",
    ),
}
# Kernels that work, only slower than they might be.
SLOW = ("scratch", "spill")

Trait = tuple[str, Hashable]


def traits(key: KernelKey) -> Iterator[Trait]:
    """What is special about a key: each of these should appear in a sample."""
    yield from (("family", key.family), ("dtypes", key.multiplied))
    for name in _EVERY_VALUE[key.op]:
        yield name, getattr(key, name)
    yield "pipeline", (key.family, key.pipeline)
    yield "pipeline layout", (key.pipeline, key.layout)
    yield "pipeline dtypes", (key.family, key.pipeline, *key.multiplied)


def _is_heavy(key: KernelKey) -> bool:
    steps = 1
    for tile, wave, warp in zip(key.tile, key.wave, key.warp, strict=True):
        steps *= max(tile // (wave * warp), 1)
    return steps > _HEAVY


def _pool(arch: str, operation: str, rng: np.random.Generator) -> list[KernelKey]:
    """Random keys of every family and pipeline of the arch, few of them heavy."""
    keys: list[KernelKey] = []
    for family in op(operation).families:
        request = SpaceRequest(family, arch, arch_facts(arch).provider, "all")
        space = op(operation).space(request)
        for code in space.column_values()["pipeline"]:
            part = space.restrict("pipeline", [PIPELINE.values[code]])
            if len(part):
                keys += part.keys(np.unique(rng.integers(0, len(part), _POOL)))
    heavy = [key for key in keys if _is_heavy(key)]
    chosen = rng.choice(len(heavy), len(heavy) // _HEAVY_SHARE, replace=False)
    return [*(k for k in keys if not _is_heavy(k)), *(heavy[i] for i in chosen)]


def draw(
    arch: str, operation: str, count: int, seed: int, features: Collection[str] | None = None
) -> list[KernelKey]:
    """``count`` of all legal keys, each with a trait that few of those before it have.

    ``features`` is what the headers have that are to compile them.
    """
    pool = _pool(arch, operation, np.random.default_rng([seed, *arch.encode()]))
    if features is not None:
        pool = [key for key in pool if not op(operation).missing_features(key, features)]
    dice = random.Random(f"{seed} {arch}")
    having: dict[Trait, list[KernelKey]] = defaultdict(list)
    for key in pool:
        for trait in traits(key):
            having[trait].append(key)
    seen = Counter(dict.fromkeys(having, 0))
    chosen: dict[KernelKey, None] = {}
    while len(chosen) < min(count, len(pool)):
        fewest = min(seen.values())
        trait = dice.choice(sorted((t for t, n in seen.items() if n == fewest), key=str))
        key = dice.choice(having[trait])
        seen[trait] += key in chosen  # a rare trait: go on to others
        if key not in chosen:
            seen.update(traits(key))
            chosen[key] = None
    return list(chosen)


def curated_keys(arch: str, operation: str) -> dict[KernelKey, str]:
    """A kernel of each curated tile of the arch -> why it may spill registers, if it may."""
    rows = _curated_gemm if operation == "gemm" else _curated_conv
    return dict(rows(arch))


def _curated_gemm(arch: str) -> Iterator[tuple[KernelKey, str]]:
    for family in ("gemm.standard", "gemm.preshuffle"):
        for a, b in pairs():
            for row in gemm_curated(arch, family, a, b):
                fields = {f: getattr(row, f) for f in _TILE_FIELDS}
                yield make_key(family, arch=arch, dtype_a=a, dtype_b=b, **fields), row.spills


def _curated_conv(arch: str) -> Iterator[tuple[KernelKey, str]]:
    for family in op("conv").families:
        for a, b in pairs():
            for row in conv_curated(arch, family, a, b):
                fields = {f: getattr(row, f) for f in _CONV_FIELDS}
                types = zip(DTYPES, tensors(family, a, b, default_output(a)), strict=True)
                yield make_key(family, arch=arch, **dict(types), **fields), ""


@dataclass
class Outcome:
    """What became of a key: ``errors`` say why it is no good, ``slow`` what makes it slow."""

    key: KernelKey
    errors: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)
    kernels: list[KernelReport] = field(default_factory=list)


def compile_keys(keys: Sequence[KernelKey], folder: Path, jobs: int) -> list[Outcome]:
    """Build a library of ``keys`` in ``folder``, as far as it goes, and check every object."""
    generate(keys, folder, emit=("ninja",), name="check")
    command = [find_ninja(), "-k", "0", "-j", str(jobs)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    failed: dict[str, list[str]] = defaultdict(list)
    failures = parse_failures(done.stdout.splitlines())
    for failure in failures:
        failed[failure.kernel].append(failure.first_error)
    outcomes = [_checked(key, folder, failed.pop(key.name, [])) for key in keys]
    if failed and not any(outcome.errors for outcome in outcomes):
        raise RuntimeError(f"the build in {folder} failed: {dict(failed)}")
    return outcomes


def _checked(key: KernelKey, folder: Path, errors: Iterable[str]) -> Outcome:
    outcome = Outcome(key, list(errors))
    path = folder / "obj" / f"{key.name}.o"
    if outcome.errors:
        return outcome
    try:
        outcome.kernels = inspect(path)
        problems = check_object(path, key, outcome.kernels)
    except InspectError as error:
        outcome.errors.append(str(error))
        return outcome
    for problem in problems:
        (outcome.slow if problem.kind in SLOW else outcome.errors).append(str(problem))
    return outcome
