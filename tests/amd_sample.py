"""Random keys for AMD GPUs, drawn so that every option appears, and compiled by the real build."""

from __future__ import annotations

import math
import random
import subprocess
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ckdisp.code_objects import InspectError, KernelReport, check_object, inspect
from ckdisp.codegen.arch import arch as arch_facts
from ckdisp.codegen.build import find_ninja, parse_failures
from ckdisp.codegen.enums import FMHA_PIPELINE, PIPELINE
from ckdisp.codegen.generate import generate
from ckdisp.codegen.key import KernelKey
from ckdisp.codegen.make import make_key
from ckdisp.codegen.ops import op
from ckdisp.codegen.ops.conv.curated import curated as conv_curated
from ckdisp.codegen.ops.conv.operands import DTYPES, tensors
from ckdisp.codegen.ops.definition import SpaceRequest
from ckdisp.codegen.ops.facts import default_output, pairs
from ckdisp.codegen.ops.fmha import space as fmha_space
from ckdisp.codegen.ops.fmha.curated import ALGORITHM
from ckdisp.codegen.ops.fmha.curated import curated as fmha_curated
from ckdisp.codegen.ops.gemm.curated import curated as gemm_curated

ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
OPS = ("gemm", "conv", "fmha")
_POOL = 1500  # keys considered for each family and pipeline
_HEAVY = 64  # matrix instructions of a wave per tile, above which a kernel takes long to compile
_HEAVY_SHARE = 12  # of that many heavy kernels one is considered
_PATIENCE = 300  # seconds of a processor: a compilation that takes more does not end
_TILE_FIELDS = ("tile", "wave", "warp", "pipeline", "scheduler", "num_wave_groups")
_CONV_FIELDS = (
    *_TILE_FIELDS,
    *("epilogue", "specialization", "vector", "two_stage", "groups_to_merge", "double_buffer"),
    "split_k",
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
    "fmha": (
        *("dtype", "hdim_q", "hdim_v", "mode", "vlayout", "mask", "bias", "qscale", "rope"),
        *("lse", "dropout", "store_randval", "logits", "skip_min_seqlen_q", "paged_kv"),
        *("dbias", "deterministic", "use_trload", "simplified_mask", "wave", "warp", "padding"),
        *("dropout_warp", "max_seq_len_q", "block_per_cu"),
    ),
}
# Kernels that work, only slower than they might be.
SLOW = ("scratch", "spill")

Trait = tuple[str, Hashable]


def traits(key: KernelKey) -> Iterator[Trait]:
    """What is special about a key: each of these should appear in a sample."""
    yield "family", key.family
    for name in _EVERY_VALUE[key.op]:
        yield name, getattr(key, name)
    yield "pipeline", (key.family, key.pipeline)
    if key.op == "fmha":
        for name in ("dtype", "mode"):
            yield f"{name} of a family", (key.family, getattr(key, name))
        return
    yield "dtypes", key.multiplied
    yield "pipeline layout", (key.pipeline, key.layout)
    yield "pipeline dtypes", (key.family, key.pipeline, *key.multiplied)


def _attention_steps(key: KernelKey) -> int:
    """Matrix instructions of a wave per block of keys, in all kernels of a key."""
    if not any(key.warp):
        return 0
    queries, keys = key.tile[:2]
    gradient = key.family == "fmha.bwd_dq_dk_dv"
    head = 3 * key.tile[7] + 2 * key.tile[8] if gradient else key.tile[3] + key.tile[5]
    kernels = 2 if key.family == "fmha.splitkv" else 1
    return kernels * queries * keys * head // math.prod((*key.wave[:3], *key.warp[:3]))


def _steps(key: KernelKey) -> int:
    """Matrix instructions of a wave per tile, roughly: what a compilation takes grows with them."""
    if key.op == "fmha":
        return _attention_steps(key)
    steps = 1
    for tile, wave, warp in zip(key.tile, key.wave, key.warp, strict=True):
        steps *= max(tile // (wave * warp), 1)
    return steps


def _pool(arch: str, operation: str, rng: np.random.Generator) -> list[KernelKey]:
    """Random keys of every family and pipeline of the arch, few of them heavy."""
    keys: list[KernelKey] = []
    pipelines = FMHA_PIPELINE if operation == "fmha" else PIPELINE
    for family in op(operation).families:
        request = SpaceRequest(family, arch, arch_facts(arch).provider, "all")
        space = op(operation).space(request)
        for code in space.column_values()["pipeline"]:
            part = space.restrict("pipeline", [pipelines.values[code]])
            if len(part):
                keys += part.keys(np.unique(rng.integers(0, len(part), _POOL)))
    heavy = [key for key in keys if _steps(key) > _HEAVY]
    chosen = rng.choice(len(heavy), len(heavy) // _HEAVY_SHARE, replace=False)
    return [*(k for k in keys if _steps(k) <= _HEAVY), *(heavy[i] for i in chosen)]


def draw(
    arch: str,
    operation: str,
    count: int,
    seed: int,
    features: Collection[str] | None = None,
    steps: float = math.inf,
) -> list[KernelKey]:
    """``count`` of all legal keys: as many of each family, with traits that few before them have.

    ``features`` is what the headers have that are to compile them. With ``steps``, only kernels of
    at most that many matrix instructions of a wave per tile are drawn.
    """
    pool = _pool(arch, operation, np.random.default_rng([seed, *arch.encode()]))
    if features is not None:
        pool = [key for key in pool if not op(operation).missing_features(key, features)]
    pool = [key for key in pool if _steps(key) <= steps]
    dice = random.Random(f"{seed} {arch}")
    having: dict[str, dict[Trait, list[KernelKey]]] = {}
    for key in pool:
        of_family = having.setdefault(key.family, defaultdict(list))
        for trait in traits(key):
            of_family[trait].append(key)
    tries = Counter(dict.fromkeys(having, 0))
    seen: Counter[Trait] = Counter()
    chosen: dict[KernelKey, None] = {}
    while len(chosen) < min(count, len(pool)):
        family = dice.choice(_fewest(tries, tries))
        trait = dice.choice(_fewest(seen, having[family]))
        key = dice.choice(having[family][trait])
        tries[family] += 1
        seen[trait] += key in chosen  # a rare trait: go on to others
        if key not in chosen:
            seen.update(traits(key))
            chosen[key] = None
    return list(chosen)


def _fewest(seen: Counter[Any], values: Iterable[Any]) -> list[Any]:
    """Those of ``values`` that were seen least, in a fixed order."""
    least = min(seen[value] for value in values)
    return sorted((value for value in values if seen[value] == least), key=str)


def curated_keys(arch: str, operation: str) -> dict[KernelKey, str]:
    """A kernel of each curated tile of the arch -> why it may spill registers, if it may."""
    rows = {"gemm": _curated_gemm, "conv": _curated_conv, "fmha": _curated_fmha}
    return dict(rows[operation](arch))


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
                yield make_key(family, arch=arch, **dict(types), **fields), row.spills


def _curated_fmha(arch: str) -> Iterator[tuple[KernelKey, str]]:
    seen = set()
    for family in op("fmha").families:
        for row in fmha_curated(arch, family):
            numbers = {f: fmha_space.numbers(getattr(row, f)) for f in ("tile", "wave", "warp")}
            fields = {f: getattr(row, f) for f in ("dtype", "hdim_q", "hdim_v", "block_per_cu")}
            fields |= numbers | {f: getattr(row, f) for f in (*ALGORITHM, "max_seq_len_q")}
            features = {f: values[0] for f, values in row.features.items()}
            key = make_key(family, arch=arch, **(features | fields))
            code = (family, row.dtype, *numbers.values(), row.pipeline, row.use_trload)
            if code not in seen and not key.check():
                seen.add(code)
                yield key, "as CK's own does"


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
    command = ["sh", "-c", f'ulimit -t {_PATIENCE}; exec "$@"', "sh"]
    command += [find_ninja(), "-k", "0", "-j", str(jobs)]
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
