"""Lists of attention configurations from an earlier enumerator, as our keys."""

from __future__ import annotations

import functools
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ckdisp.codegen.ops.fmha.families import NEUTRAL
from ckdisp.codegen.ops.fmha.key import FmhaKey

DATA = Path(__file__).parent / "data/fmha_names"
_NAME = re.compile(
    r"fmha_(?P<family>\w+?)_(?P<dtype>fp16)_(?P<mode>batch|group)_h(?P<q>\d+)(?:x(?P<v>\d+))?_"
    r"(?P<pipeline>\w+)_t(?P<tile>[\dx]+)(?:\.(?P<tag>\w+?))?_w(?P<warp>[\dx]+)_"
    r"pad(?P<pads>\d{4})_mask=(?P<mask>no|top_left|generic)_bias=(?P<bias>[a-z]+)(?P<flags>.*)"
)
_FLAGS = {
    "lse": "lse",
    "drop": "dropout",
    "logits": "logits",
    "sink": "sink",
    "skip": "skip_min_seqlen_q",
    "pkv": "paged_kv",
    "det": "deterministic",
    "dbias": "dbias",
}
_PIPELINES = {"qr_async_trload_v3": "v3"}
# What names of backward tiles omit: the last three numbers and the waves, by the first three.
_USUAL_WAVES = (1, 4, 1, 4, 1, 1, 1, 4, 1)
_BACKWARD = {
    (32, 128, 32): ((64, 32, 32), (1, 4, 1, 4, 1, 1, 2, 2, 1)),
    (32, 128, 64): ((32, 64, 64), _USUAL_WAVES),
    (32, 128, 96): ((32, 96, 96), (1, 4, 1, 4, 1, 1, 2, 2, 1)),
    (16, 128, 128): ((32, 128, 128), _USUAL_WAVES),
    (16, 64, 256): ((32, 256, 256), _USUAL_WAVES),
    (32, 16, 64): ((16, 64, 64), (1,) * 9),
    (16, 16, 128): ((16, 128, 128), (1,) * 9),
    (16, 192, 128): ((32, 128, 128), _USUAL_WAVES),
    (32, 128, 128): ((32, 128, 128), _USUAL_WAVES),
}


def slices() -> list[dict[str, Any]]:
    """What lists there are: variant, arch, receipt, number of names and file."""
    return json.loads((DATA / "index.json").read_text())["slices"]


@functools.cache
def names(file: str) -> tuple[str, ...]:
    """The names of one list."""
    with gzip.open(DATA / file, "rt") as stream:
        return tuple(stream.read().split())


def keys(entry: dict[str, Any]) -> Iterator[FmhaKey]:
    """The keys of a slice, in the order of its names."""
    for name in names(entry["file"]):
        yield key(name, entry["arch"])


def key(name: str, arch: str) -> FmhaKey:
    """Our key of one configuration."""
    match = _NAME.fullmatch(name)
    assert match, name
    family = match["family"].removeprefix("fwd_")
    fields: dict[str, Any] = {
        **NEUTRAL,
        "family": f"fmha.{family}",
        "provider": "ck_tile",
        "arch": arch,
        "dtype": match["dtype"],
        "mode": match["mode"],
        "hdim_q": int(match["q"]),
        "hdim_v": int(match["v"] or match["q"]),
        "mask": match["mask"],
        "bias": match["bias"],
        "block_per_cu": 0,
    }
    if family == "splitkv":
        # There is only the form of a mask that serves every kind.
        fields |= {"simplified_mask": True, "mask": "no" if match["mask"] == "no" else "generic"}
    for flag, value in re.findall(r"_([a-z]+)=(half_rotated|[^_]+)", match["flags"]):
        if flag in _FLAGS:
            fields[_FLAGS[flag]] = True
        elif flag == "rope":
            fields["rope"] = value
        elif flag == "drv":
            fields |= {"dropout_warp": 16, "store_randval": match["flags"].count("randval") == 1}
    tile = tuple(map(int, match["tile"].split("x")))
    fields |= _ALGORITHMS.get(family, _forward)(fields, match, tile)
    return FmhaKey.from_dict(fields)


def _forward(fields: dict[str, Any], match: re.Match[str], tile: tuple[int, ...]) -> dict[str, Any]:
    warp = tuple(map(int, match["warp"].split("x")))
    pipeline = _PIPELINES.get(match["pipeline"], match["pipeline"])
    return {
        "tile": tile,
        "wave": (tile[0] // warp[0], 1, 1) * 2,
        "warp": warp * 2,
        "pipeline": pipeline,
        "use_trload": pipeline == "qr_async_trload",
        "num_wave_groups": 2 if pipeline == "v3" else 1,
        "padding": _pads(match, 0, 1, 2, 3),
    }


def _pads(match: re.Match[str], *used: int) -> tuple[int, ...]:
    """The padding of what a family pads; the names have a digit for the rest, too."""
    return tuple(int(digit) if i in used else 0 for i, digit in enumerate(match["pads"]))


def _small(pipeline: str, numbers: Any, *used: int) -> Any:
    def algorithm(fields: dict[str, Any], match: re.Match[str], tile: tuple[int, ...]) -> Any:
        padding = tuple(min(p, 1) for p in _pads(match, *used))
        found = {"tile": numbers(fields, tile), "wave": (), "warp": ()}
        return {**found, "pipeline": pipeline, "padding": padding}

    return algorithm


def _summed(fields: dict[str, Any], tile: tuple[int, ...]) -> tuple[int, ...]:
    """The tile of convert_dq: the names do not have the keys of the parts."""
    keys = 64 if fields["hdim_q"] == 256 else 128
    return (tile[0], keys) if fields["deterministic"] else tile[:1]


def _gradient(
    fields: dict[str, Any], match: re.Match[str], tile: tuple[int, ...]
) -> dict[str, Any]:
    rest, wave = _BACKWARD[tile[0], tile[1], tile[2]]
    trload = match["tag"] == "trload"
    return {
        "tile": (*tile, *rest),
        "wave": wave,
        "warp": (16, 16, 32, 16, 16, 32 if trload else 16, 16, 16, min(32, rest[0])),
        "pipeline": "bwd",
        "use_trload": trload,
        "padding": _pads(match, 2, 3),
    }


_ALGORITHMS = {
    "splitkv_combine": _small("splitkv_combine", lambda _, tile: tile[3:4], 0, 3),
    "appendkv": _small("appendkv", lambda _, tile: tile[:4], 0, 1, 2, 3),
    "bwd_dot_do_o": _small("bwd", lambda _, tile: tile[:1], 0, 3),
    "bwd_convert_dq": _small("bwd", _summed, 0, 2),
    "bwd_dq_dk_dv": _gradient,
}
