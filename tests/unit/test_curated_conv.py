"""The curated convolutions: valid, broad enough, and with the tiles that a search times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from ckdisp.codegen.arch import arch, arch_names
from ckdisp.codegen.kernel_set import KernelSet
from ckdisp.codegen.make import make_key
from ckdisp.codegen.ops import op
from ckdisp.codegen.rules import check_all

FAMILIES = op("conv").families
GPUS = ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"]
LEVELS = [name for name in arch_names() if not arch(name).is_gpu]
HALF = ("fp16", "bf16")
# What each arch convolves, forward only but for the first ones.
TYPES = {
    "gfx90a": (*HALF, "fp32"),
    "gfx942": (*HALF, "fp32", "int8", "fp8", "bf8"),
    "gfx950": (*HALF, "fp32", "int8", "fp8", "bf8"),
    "gfx1100": (*HALF, "int8"),
    "gfx1201": (*HALF, "int8", "fp8", "bf8"),
}


def gradients(name: str) -> tuple[str, ...]:
    """The types of gradients: gfx950 has no transposing reads of fp32."""
    if arch(name).is_gpu:
        return (*HALF, "fp32") if name in ("gfx90a", "gfx942") else HALF
    return (*HALF, "fp32")


def general(key: Any) -> bool:
    """Whether a kernel serves any filter and number of channels, or nearly any."""
    return key.specialization == "default" and key.vector[1:] == (1, 1)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", [*GPUS, *LEVELS])
def test_every_type_and_rank_has_kernels_and_a_general_one(name: str, family: str) -> None:
    keys = list(KernelSet.sweep(family, name))
    assert check_all(keys) == [[] for _ in keys]
    types = TYPES.get(name, (*HALF, "fp32", "int8", "fp8", "bf8"))
    wanted = types if family == "conv.fwd" else gradients(name)
    for layout in ("nwgc", "nhwgc", "ndhwgc"):
        for dtype in wanted:
            found = [k for k in keys if k.layout == layout and set(k.multiplied) == {dtype}]
            assert any(map(general, found)), (layout, dtype)
            assert len(found) > 1, (layout, dtype)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("level", LEVELS)
def test_cpu_levels_have_the_kernels_of_special_problems(level: str, family: str) -> None:
    where = {"dtype_in": "fp32", "dtype_wei": "fp32", "layout": "nhwgc"}
    found = KernelSet.sweep(family, level, where=where)
    assert Counter((k.pipeline, k.specialization) for k in found) == {
        ("packed", "default"): 1,
        ("packed", "filter1x1_stride1_pad0"): 1,
        ("direct", "default"): 1,
    }


def test_every_level_of_the_wheel_holds_the_same_kernels() -> None:
    def contents(level: str) -> list[tuple[str, ...]]:
        keys = KernelSet.preset("conv.cpu_prebuilt", level)
        fields = ("family", "dtype_in", "dtype_out", "layout", "pipeline", "specialization")
        return sorted(tuple(getattr(key, field) for field in fields) for key in keys)

    assert 0 < len(contents("generic")) <= 10
    assert {family for family, *_ in contents("generic")} == set(FAMILIES)
    assert all(contents(level) == contents("generic") for level in LEVELS)


# The tables that earlier tools search by default: block tiles, waves and a warp tile. A tile goes
# with the waves that cover its M in one step.
TABLES: list[tuple[list[tuple[int, ...]], list[tuple[int, int]], tuple[int, ...]]] = [
    ([(16, 64, 64), (32, 64, 64), (64, 64, 64)], [(1, 4), (2, 2), (4, 1)], (16, 16, 16)),
    ([(32, 128, 64), (64, 128, 64), (128, 128, 64)], [(1, 4), (2, 2), (4, 4)], (32, 32, 16)),
    (
        [(16, 64, 128), (32, 64, 128), (64, 64, 128), (128, 64, 128)],
        [(1, 4), (2, 2), (4, 1), (8, 2)],
        (16, 16, 32),
    ),
]


def searched(family: str, name: str) -> Iterator[dict[str, Any]]:
    """The algorithms of the tables whose waves and warp tile the arch has."""
    for tiles, waves, warp in TABLES:
        if warp not in arch(name).warp_tiles["fp16_fp16_fp32"]:
            continue
        for tile in tiles:
            for wave in waves:
                if tile[0] != wave[0] * warp[0] or (*wave, 1) not in arch(name).waves:
                    continue
                fields = {"tile": tile, "wave": (*wave, 1), "warp": warp}
                fields |= {"scheduler": "intrawave", "two_stage": False}
                ways = [fields | {"pipeline": "compv3", "epilogue": "cshuffle"}]
                if family == "conv.fwd":
                    doubled = (*tile[:2], 2 * tile[2])
                    small = tile[0] <= 64 and tile[1] == 64
                    ways += [ways[0] | {"pipeline": "compv4", "tile": doubled}] * small
                else:
                    ways.append(fields | {"pipeline": "mem", "epilogue": "default"})
                if family == "conv.bwd_weight":
                    ways += [way | {"two_stage": True} for way in ways]
                yield from ways


def judged(family: str, name: str, vector: tuple[int, int, int]) -> Counter[str]:
    """Their number, and of those that are refused the number by the rules that refuse them."""
    options = {"arch": name, "dtype": "fp16", "vector": vector}
    keys = [make_key(family, **options, **fields) for fields in searched(family, name)]
    refused = Counter(" ".join(r.rule for r in found) for found in check_all(keys) if found)
    return Counter({"all": len(keys)}) + refused


@pytest.mark.parametrize(
    ("family", "sizes"),
    [
        ("conv.fwd", {"gfx950": 16, "gfx942": 14, "gfx90a": 14, "gfx1201": 0}),
        ("conv.bwd_data", {"gfx950": 20, "gfx942": 16, "gfx90a": 16, "gfx1201": 0}),
        ("conv.bwd_weight", {"gfx950": 40, "gfx942": 32, "gfx90a": 32, "gfx1201": 0}),
    ],
)
def test_the_tables_have_the_known_sizes_and_rules_say_what_is_refused(
    family: str, sizes: dict[str, int]
) -> None:
    for name, size in sizes.items():
        refused = {}
        if family == "conv.fwd" and name in ("gfx942", "gfx90a"):
            refused = {"lds": 3}  # compv4 with K 256: two tiles take more than 64 KiB
        if family == "conv.bwd_weight" and size:
            # A is transposed in vectors of CK's choice: 4 values only where a lane gets no more.
            refused = {"load_a": size - 4}
        assert judged(family, name, (4, 8, 8)) == Counter({"all": size, **refused}), name


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["gfx90a", "gfx942", "gfx950"])
def test_the_preset_of_a_search_holds_the_tables(name: str, family: str) -> None:
    """All that the LDS has room for, with the vectors that the direction can have."""
    columns = ("tile", "wave", "warp", "pipeline", "scheduler", "epilogue", "two_stage")

    def algorithm(values: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(values[name] for name in columns)

    def fits(values: dict[str, Any]) -> bool:
        m, n, k = values["tile"]
        half = values["pipeline"] == "compv4"
        return 2 * k * (m + n) <= arch(name).lds_bytes // (2 if half else 1)

    preset = KernelSet.preset("conv.fp16_nhwgc_search", name)
    keys: list[Any] = [k for k in preset if k.family == family]
    found = [algorithm({c: getattr(k, c) for c in columns}) for k in keys]
    wanted = [algorithm(values) for values in searched(family, name) if fits(values)]
    assert Counter(found) == Counter(wanted)
    assert not any(key.split_k for key in keys)
