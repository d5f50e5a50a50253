"""The host side of attention kernels on emulated devices: arguments, launches, reasons, zeroing.

The code objects are stand-ins that have every kernel by name.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ck_tile_lab as lab
import pytest
from fmha_keys import fmha_key

from ckdisp.codegen.enums import FMHA_BIAS, FMHA_DTYPE, FMHA_MASK

pytestmark = pytest.mark.xdist_group("ck_tile_fmha")

_WMMA = {"tile": (64, 64, 32, 64, 32, 64), "warp": (16,) * 6}
_PADS = (1, 1, 1, 1)
KEYS = {
    "plain": fmha_key("fwd", "gfx942"),
    "group": fmha_key(
        "fwd", "gfx942", pipeline="qr_async", mode="group", padding=_PADS, mask="generic",
        lse=True, dropout=True,
    ),
    "skips": fmha_key(
        "fwd", "gfx942", pipeline="qr_async", mode="group", padding=_PADS, skip_min_seqlen_q=True
    ),
    "triangle": fmha_key(
        "fwd", "gfx942", simplified_mask=False, mask="top_left", padding=_PADS, bias="alibi"
    ),
    "wave32": fmha_key("fwd", "gfx1201", **_WMMA),
    "split": fmha_key("splitkv", "gfx942", padding=(1, 1, 0, 0)),
    "merged": fmha_key(
        "splitkv", "gfx942", hdim=128, tile=(64, 128, 32, 128, 32, 128), padding=(1, 1, 0, 0)
    ),
    "combine": fmha_key("splitkv_combine", "gfx942", padding=(1, 0, 0, 0), lse=True),
    "combine32": fmha_key("splitkv_combine", "gfx1201", padding=(1, 0, 0, 0), mode="group"),
    "scaled": fmha_key("splitkv_combine", "gfx942", dtype="fp8", qscale="pertensor"),
    "pages": fmha_key("pagedkv", "gfx942"),
    "prefill": fmha_key("batch_prefill", "gfx942"),
    "windows": fmha_key("batch_prefill", "gfx942", mask="generic"),
    "split_alibi": fmha_key(
        "splitkv", "gfx942", padding=(1, 1, 0, 0), bias="alibi", mask="generic"
    ),
    "append": fmha_key("appendkv", "gfx942", padding=_PADS, rope="interleaved"),
    "dot": fmha_key("bwd_dot_do_o", "gfx942"),
    "main": fmha_key("bwd_dq_dk_dv", "gfx942", mask="generic", bias="bias", dbias=True),
    "sequences": fmha_key(
        "bwd_dq_dk_dv", "gfx942", mode="group", bias="bias", dbias=True, mask="generic"
    ),
    "alibi": fmha_key("bwd_dq_dk_dv", "gfx942", mode="group", bias="alibi", mask="generic"),
    "far": fmha_key("fwd", "gfx942", bias="alibi", mask="generic", padding=_PADS),
    "fixed": fmha_key("bwd_dq_dk_dv", "gfx942", deterministic=True),
    "short": fmha_key(
        "bwd_dq_dk_dv", "gfx950", tile=(32, 16, 64, 32, 64, 32, 16, 64, 64), wave=(1,) * 9,
        warp=(16, 16, 32, 16, 16, 16, 16, 16, 16), use_trload=True, max_seq_len_q=32,
        block_per_cu=2,
    ),
    "convert": fmha_key("bwd_convert_dq", "gfx942"),
}  # fmt: skip


def command(verb: str, name: str, **changes: int) -> str:
    pairs = " ".join(f"{field} {value}" for field, value in changes.items())
    return f"{verb} {KEYS[name].name} {pairs} ."


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> lab.Driver:
    return lab.build_driver(tmp_path_factory.mktemp("ck_tile_fmha"), "fmha", list(KEYS.values()))


def launched(
    driver: lab.Driver, trace: Path, name: str, devices: str = "gfx942", **changes: int
) -> Mapping[str, Any]:
    """The launch of the kernel in a call that works; before it comes only the copy of a list."""
    answers, entries = driver.run(trace, command("run", name, **changes), devices=devices)
    assert answers == ["ok"]
    *before, launch = lab.launches(entries)
    pages = [lab.pages_symbol(KEYS[name])] * (KEYS[name].family == "fmha.batch_prefill")
    assert [entry["function"] for entry in before] == pages
    return launch


def test_the_keys_are_legal() -> None:
    assert [key.check() for key in KEYS.values()] == [[]] * len(KEYS)


def test_blocks_have_the_lanes_of_the_arch(driver: lab.Driver) -> None:
    wanted = dict.fromkeys(KEYS, 256) | {"wave32": 128, "combine32": 128, "dot": 64, "short": 64}
    answers = driver.ask(*(command("facts", name) for name in KEYS))
    for answer, (name, key) in zip(answers, KEYS.items(), strict=True):
        assert answer == f"{wanted[name]} {key.arch} ck_tile"


@pytest.mark.parametrize(
    ("name", "sizes", "grid", "variant"),
    [
        # Heads, tiles of rows, batches.
        ("plain", {"batch": 2, "nhead_q": 6, "nhead_k": 3, "seqlen_q": 384}, [6, 3, 2], 0),
        ("group", {"batch": 2, "nhead_q": 6, "seqlen_q": 130}, [6, 2, 2], 0),
        # Lengths of K in memory: the batch is the second dimension.
        ("group", {"batch": 2, "nhead_q": 6, "seqlen_q": 130, "lengths_of_k": 1}, [6, 2, 2], 0),
        ("wave32", {"batch": 2, "nhead_q": 4, "seqlen_q": 192}, [4, 3, 2], 0),
        # Tiles of rows times parts; even parts are another kernel.
        ("split", {"seqlen_q": 65, "seqlen_k": 512, "num_splits": 4}, [8, 1, 1], 1),
        ("split", {"seqlen_q": 65, "seqlen_k": 500, "num_splits": 4}, [8, 1, 1], 0),
        ("split", {"seqlen_k": 512, "num_splits": 4, "lengths_of_k": 1}, [8, 1, 1], 0),
        # One row for each of eight heads is one tile.
        ("merged", {"seqlen_q": 1, "nhead_q": 8, "seqlen_k": 512, "num_splits": 2}, [2, 1, 1], 3),
        ("merged", {"seqlen_q": 1, "nhead_q": 8, "seqlen_k": 500, "num_splits": 2}, [2, 1, 1], 2),
        ("merged", {"seqlen_q": 2, "nhead_q": 8, "seqlen_k": 500, "num_splits": 2}, [2, 8, 1], 0),
        # 8 lanes for 32 columns leave 8 rows a wave, or 4.
        ("combine", {"seqlen_q": 20, "nhead_q": 2, "num_splits": 8}, [6, 2, 1], 0),
        ("combine", {"seqlen_q": 20, "num_splits": 9}, [6, 1, 1], 1),
        ("combine", {"seqlen_q": 20, "num_splits": 33}, [6, 1, 1], 3),
        ("combine", {"seqlen_q": 20, "num_splits": 128}, [6, 1, 1], 4),
        ("combine32", {"seqlen_q": 20, "batch": 3, "num_splits": 32}, [10, 1, 3], 2),
        ("pages", {"seqlen_q": 200, "nhead_q": 2, "page_size": 64}, [2, 2, 1], 0),
        ("prefill", {"seqlen_q": 200, "nhead_q": 2, "page_size": 1, "num_pages": 9}, [2, 1, 2], 0),
        (
            "append",
            {"batch": 3, "nhead_q": 2, "seqlen_q": 1, "seqlen_new": 65, "lengths_of_k": 1},
            [2, 2, 3],
            0,
        ),
        ("dot", {"batch": 3, "nhead_q": 2, "seqlen_q": 130}, [3, 2, 3], 0),
        ("main", {"batch": 3, "nhead_q": 2, "nhead_k": 2, "seqlen_k": 130}, [2, 2, 3], 0),
        ("short", {"seqlen_q": 20, "seqlen_k": 130}, [1, 1, 1], 0),
        ("convert", {"batch": 3, "nhead_q": 2, "seqlen_q": 130}, [3, 2, 3], 0),
    ],
)  # fmt: skip
def test_grids_and_variants(
    driver: lab.Driver, tmp_path: Path, name: str, sizes: dict[str, int], grid: list[int],
    variant: int,
) -> None:  # fmt: skip
    key = KEYS[name]
    launch = launched(driver, tmp_path / "trace", name, devices=key.arch, **sizes)
    assert launch["grid"] == grid
    assert launch["function"] == lab.fmha_symbol(key, variant)
    (facts,) = driver.ask(command("facts", name))
    assert launch["block"] == [int(facts.split()[0]), 1, 1]
    assert launch["lds"] == 0  # the code object says how much it needs


def test_arguments_of_a_forward_kernel(driver: lab.Driver, tmp_path: Path) -> None:
    launch = launched(
        driver, tmp_path / "trace", "plain",
        batch=2, nhead_q=6, nhead_k=3, seqlen_q=128, seqlen_k=192,
    )  # fmt: skip
    args = bytes.fromhex(launch["args"])
    assert struct.unpack_from("<4Q", args) == (0x10000, 0x11000, 0x12000, 0x13000)
    assert struct.unpack_from("<6i", args, 32) == (128, 192, 64, 64, 6, 2)
    # Powers are of 2 in the kernel.
    assert struct.unpack_from("<f", args, 56)[0] == pytest.approx(0.5 * 1.44269504)
    assert struct.unpack_from("<4i", args, 60) == (64, 64, 64, 64)
    q, k = 128 * 64, 192 * 64
    assert struct.unpack_from("<4i", args, 76) == (q, k, k, q)
    assert struct.unpack_from("<4i", args, 96) == (6 * q, 3 * k, 3 * k, 6 * q)


@pytest.mark.parametrize(
    ("mask", "window", "wanted"),
    [
        ("no", {}, (-1, -1, 1)),
        ("top_left", {}, (-1, 0, 1)),
        ("bottom_right", {}, (-1, 0, 2)),
        ("generic", {"window_left": 5, "window_right": 3}, (5, 3, 1)),
        ("generic", {"window_left": 5, "window_bottom_right": 1}, (5, -1, 2)),
        ("generic", {"window_left": 1 << 40, "window_right": 0}, (-1, 0, 1)),
    ],
)
def test_a_window_serves_every_mask(
    driver: lab.Driver, tmp_path: Path, mask: str, window: dict[str, int], wanted: tuple[int, ...]
) -> None:
    launch = launched(
        driver, tmp_path / "trace", "group", mask=FMHA_MASK.code(mask), **window
    )  # fmt: skip
    args = bytes.fromhex(launch["args"])
    assert struct.pack("<3i", *wanted) in args


@pytest.mark.parametrize(
    ("mask", "sizes", "wanted"),
    [
        ("no", {}, (-1, -1, 2)),
        ("top_left", {}, (200, 0, 2)),
        ("bottom_right", {"seqlen_k": 300}, (400, 0, 2)),
        ("top_left", {"seqlen_q": 110}, (-1, 10, 2)),
        ("generic", {"window_left": 5, "window_right": 30, "seqlen_k": 120}, (25, 10, 2)),
        ("generic", {"window_left": 5, "seqlen_k": 120}, (25, -1, 2)),
        ("generic", {"window_right": 20, "seqlen_k": 120}, (220, 0, 2)),
        ("generic", {"window_left": 5, "window_bottom_right": 1, "seqlen_k": 50}, (5, -1, 2)),
    ],
)
def test_windows_of_alibi_end_at_the_bottom_right(
    driver: lab.Driver, tmp_path: Path, mask: str, sizes: dict[str, int], wanted: tuple[int, ...]
) -> None:
    sizes = {"seqlen_q": 100, "seqlen_k": 100, **sizes}
    launch = launched(
        driver, tmp_path / "trace", "far", mask=FMHA_MASK.code(mask), **sizes
    )  # fmt: skip
    assert struct.pack("<3i", *wanted) in bytes.fromhex(launch["args"])


def test_a_list_of_pages_is_read_where_it_is_long_enough(
    driver: lab.Driver, tmp_path: Path
) -> None:
    sizes = {"seqlen_q": 10, "page_size": 1, "num_pages": 9, "pages_per_seq": 1000, "batch": 3}
    answers, trace = driver.run(tmp_path / "trace", command("run", "prefill", **sizes))
    assert answers == ["ok"]
    copied, launch = lab.launches(trace)
    args = bytes.fromhex(copied["args"])
    listed, _, batch, copy, count = struct.unpack("<QQi4xQq", args)
    # To the end of a tile of 64 keys, and of the step of 32 behind it.
    assert (batch, count) == (3, 1000 + 64 + 32)
    assert copied["grid"] == [5, 1, 1] and copied["block"] == [256, 1, 1]
    read = bytes.fromhex(launch["args"])
    assert struct.pack("<Q", copy) in read and struct.pack("<Q", listed) not in read


def test_a_cache_is_appended_to_without_queries(driver: lab.Driver, tmp_path: Path) -> None:
    sizes = {"batch": 3, "seqlen_new": 65, "seqlen_q": 500, "lengths_of_k": 1}
    launch = launched(driver, tmp_path / "trace", "append", **sizes, no_q=1)
    assert launch["grid"] == [2, 1, 3]
    assert struct.unpack_from("<Q", bytes.fromhex(launch["args"]))[0] == 0


def test_sequences_are_left_out_as_the_call_says(driver: lab.Driver, tmp_path: Path) -> None:
    found = {
        name: bytes.fromhex(launched(driver, tmp_path / "trace", name)["args"])
        for name in ("group", "skips")
    }
    assert struct.pack("<i", 77) in found["skips"]
    assert struct.pack("<i", 77) not in found["group"]


def test_dropout_is_that_of_the_call(driver: lab.Driver, tmp_path: Path) -> None:
    args = bytes.fromhex(launched(driver, tmp_path / "trace", "group")["args"])
    # Seed, offset, that they are numbers, 1 / 0.75 and the byte up to which elements are kept.
    dropout = struct.pack("<2QB7x", 7, 11, 1)[:17]
    at = args.index(dropout)
    assert struct.unpack_from("<f", args, at + 24)[0] == pytest.approx(4 / 3)
    assert args[at + 28] == 191


def test_sums_of_dq_are_zeroed_before_blocks_add(driver: lab.Driver, tmp_path: Path) -> None:
    sizes = {"batch": 2, "nhead_q": 3, "nhead_k": 3, "seqlen_q": 40, "seqlen_k": 130}
    answers, trace = driver.run(
        tmp_path / "trace",
        command("run", "main", **sizes, mask=FMHA_MASK.code("no")),
        command("run", "main", **sizes),
        command("run", "fixed", **sizes, num_splits=2),
    )
    assert answers == ["ok"] * 3
    zeroed = [(e["width"], e["height"]) for e in trace if "memset" in e]
    dq = 2 * 3 * 40 * 64 * 4
    # Behind a mask there may be tiles of the bias that no block visits.
    assert zeroed == [(dq, 1), (dq, 1), (6 * 40 * 130 * 2, 1), (2 * dq, 1)]


def test_kernels_for_short_sequences_write_dq_themselves(
    driver: lab.Driver, tmp_path: Path
) -> None:
    answers, trace = driver.run(
        tmp_path / "trace", command("run", "short", seqlen_q=20), devices="gfx950"
    )
    assert answers == ["ok"] and not [entry for entry in trace if "memset" in entry]


def test_empty_problems_launch_nothing(driver: lab.Driver, tmp_path: Path) -> None:
    answers, trace = driver.run(
        tmp_path / "trace",
        command("run", "plain", batch=0),
        command("run", "group", seqlen_q=0),
        command("run", "prefill", seqlen_q=0, page_size=1),
        command("run", "main", batch=0),
        command("run", "append", no_q=1, lengths_of_k=1),
    )
    assert answers == ["ok"] * 5 and trace == []


# Batch, heads, queries, keys and what is zeroed of it in rows and bytes: dK and dV.
_EMPTY: dict[str, tuple[dict[str, int], list[tuple[int, int]]]] = {
    # Without keys the sums of dQ, which the next stage converts.
    "no keys": ({"seqlen_q": 40, "seqlen_k": 0}, [(2 * 40 * 64 * 4, 1)]),
    # Without queries dK and dV.
    "no queries": ({"seqlen_q": 0, "seqlen_k": 70}, [(2 * 70 * 64 * 2, 1)] * 2),
}


@pytest.mark.parametrize("case", _EMPTY)
def test_gradients_of_empty_tensors_are_zeroed(
    driver: lab.Driver, tmp_path: Path, case: str
) -> None:
    sizes, wanted = _EMPTY[case]
    answers, trace = driver.run(tmp_path / "trace", command("run", "main", batch=2, at=0, **sizes))
    assert answers == ["ok"] and lab.launches(trace) == []
    assert [(e["width"], e["height"]) for e in trace if "memset" in e] == wanted


def test_dq_that_is_not_summed_is_zeroed_without_keys(driver: lab.Driver, tmp_path: Path) -> None:
    answers, trace = driver.run(
        tmp_path / "trace", command("run", "short", seqlen_q=20, seqlen_k=0), devices="gfx950"
    )
    assert answers == ["ok"] and lab.launches(trace) == []
    assert [(e["width"], e["height"]) for e in trace if "memset" in e] == [(20 * 64 * 2, 1)]


def test_gradients_of_sequences_of_many_lengths_are_zeroed(
    driver: lab.Driver, tmp_path: Path
) -> None:
    # Any of them may have no queries, or fewer keys than the longest.
    sizes = {"batch": 2, "nhead_q": 3, "nhead_k": 3, "seqlen_q": 40, "seqlen_k": 130}
    answers, trace = driver.run(
        tmp_path / "trace", command("run", "sequences", **sizes, mask=FMHA_MASK.code("no"))
    )
    assert answers == ["ok"]
    zeroed = [(e["width"], e["height"]) for e in trace if "memset" in e]
    dk, dbias = 3 * 260 * 64 * 2, 3 * 80 * 130 * 2
    assert zeroed == [(3 * 80 * 64 * 4, 1), (dk, 1), (dk, 1), (dbias, 1)]


def test_only_rows_are_zeroed(driver: lab.Driver, tmp_path: Path) -> None:
    # Between rows of dK there are other tensors' rows: q, k and v in one.
    sizes = {"batch": 2, "nhead_q": 3, "nhead_k": 3, "seqlen_q": 0, "seqlen_k": 130}
    answers, trace = driver.run(
        tmp_path / "trace", command("run", "main", **sizes, stride_dk=3 * 3 * 64)
    )
    assert answers == ["ok"]
    row = 3 * 64 * 2  # of all heads
    # Rows of both batches are equally far apart.
    assert [(e["width"], e["height"]) for e in trace if "memset" in e] == [
        (row, 2 * 130),
        (2 * 3 * 130 * 64 * 2, 1),
    ]


def test_reasons(driver: lab.Driver) -> None:
    top_left, window = FMHA_MASK.code("top_left"), FMHA_MASK.code("generic")
    cases = {
        command("supports", "plain"): "ok",
        command("supports", "plain", dtype=FMHA_DTYPE.code("bf16")): "dtype: the dtype is bf16",
        command("supports", "plain", mode=1): "mode: the mode is group, the kernel's is batch",
        command("supports", "plain", mask=FMHA_MASK.code("top_left")): "mask: the mask is top_left",
        command("supports", "triangle", mask=FMHA_MASK.code("bottom_right")): "ok",
        command("supports", "triangle", mask=FMHA_MASK.code("no")): "mask: the mask is no",
        command("supports", "plain", bias=FMHA_BIAS.code("alibi")): "bias: the bias is alibi",
        command("supports", "plain", lse=1): "feature: the problem has LSE",
        command("supports", "combine", lse=0): "feature: the problem has no LSE",
        command("supports", "plain", sink=4): "feature: the problem has sink",
        command("supports", "plain", nhead_q=3, nhead_k=2): "shape: 2 heads of K do not divide",
        command("supports", "main", nhead_q=4): "feature: 4 heads of Q share 1 heads of K",
        command("supports", "plain", hdim_q=32): "head_dim: hdim_q is 32, the kernel takes "
        "multiples of 64 up to 64",
        command("supports", "triangle", hdim_q=33): "ok",
        command("supports", "group", hdim_q=33): "head_dim: hdim_q is 33",
        command("supports", "group", hdim_v=72): "head_dim: hdim_v is 72",
        command("supports", "plain", seqlen_q=100): "pad: seqlen_q is 100, the kernel takes "
        "multiples of 128",
        command("supports", "plain", seqlen_k=0): "pad: seqlen_k is 0",
        command("supports", "short", seqlen_q=33): "shape: seqlen_q is 33, the kernel takes up to",
        command("supports", "plain", batch=65536): "shape: the batch is 65536",
        command("supports", "plain", seqlen_q=1 << 24): "shape: seqlen_q is 16777216",
        command("supports", "plain", stride_q=68): "alignment: a stride of Q is 68",
        command("supports", "plain", stride_q=1 << 30): "shape: 128 rows of Q at a distance",
        command("supports", "split", num_splits=0): "splits: the keys are to be split into 0",
        command("supports", "combine", num_splits=129): "splits: the keys are to be split into 129",
        command("supports", "scaled"): "qscale: the kernel takes its scales as numbers from the",
        command("supports", "pages", page_size=48): "pages: a page has 48 rows",
        command("supports", "prefill", page_size=16): "pages: a page has 16 rows, the kernel "
        "takes 1",
        command("supports", "far", mask=top_left, seqlen_q=127): "bias: a side of the window ends",
        command("supports", "far", mask=top_left, seqlen_k=127): "ok",
        command(
            "supports", "far", mask=window, window_left=9, window_right=9, seqlen_k=118
        ): "bias: a side of the window",
        command("supports", "far", mask=window, window_left=9, window_right=9, seqlen_k=137): "ok",
        command("supports", "far", seqlen_k=65536): "ok",
        command("supports", "far", seqlen_k=65537): "bias: seqlen_q is 128 and seqlen_k 65537, the",
        command("supports", "alibi", mask=top_left): "bias: mask top_left starts at the top left",
        command("supports", "alibi", mask=FMHA_MASK.code("bottom_right")): "ok",
        command("supports", "alibi", mask=FMHA_MASK.code("no")): "ok",
        command("supports", "windows", page_size=1, mask=window, window_left=126): "mask: the "
        "window starts 126 keys before the diagonal",
        command("supports", "windows", page_size=1, mask=window, window_left=127): "ok",
        command(
            "supports",
            "windows",
            page_size=1,
            mask=window,
            window_left=9,
            window_bottom_right=1,
            seqlen_k=10,
        ): "ok",
        command("supports", "windows", page_size=1, mask=top_left): "ok",
        command("supports", "plain", cache_batches=3): "feature: cache_batch_idx chooses among 3",
        command("supports", "split", cache_batches=3, seqlen_k=512): "ok",
        command("supports", "split", seqlen_q=1 << 20, batch=64): "shape: 67108864 rows of 64",
    }
    for answer, (case, wanted) in zip(driver.ask(*cases), cases.items(), strict=True):
        assert answer.startswith(wanted), (case, answer)


def test_refusals_at_run(driver: lab.Driver, tmp_path: Path) -> None:
    cases = {
        command("run", "plain", at=0x10008): "alignment: Q is at 0x10008",
        command("run", "plain", lengths_of_k=1): "mode: sequences of K have lengths of their own",
        command("run", "plain", cache_batches=3): "feature: cache_batch_idx is given, and the",
        command("run", "append", seqlen_new=1): "stage: the lengths of K is null",
        command(
            "run", "split_alibi", mask=FMHA_MASK.code("top_left"), lengths_of_k=1
        ): "bias: mask top_left starts at the top left",
        command("run", "main", at=0x10008): "prepare: alignment: Q is at 0x10008",
        command("run", "plain", device=-1): "device: -1",
    }
    answers, trace = driver.run(tmp_path / "trace", *cases)
    for answer, wanted in zip(answers, cases.values(), strict=True):
        assert answer.startswith(wanted), answer
    assert trace == []


def test_costs_prefer_what_fits(driver: lab.Driver) -> None:
    def cost(name: str, **sizes: int) -> float:
        (answer,) = driver.ask(command("cost", name, **sizes))
        return float(answer)

    assert 0 < cost("plain") < cost("plain", seqlen_q=4096, seqlen_k=4096, nhead_q=32)
    # One row and many keys: parts keep more than one compute unit busy.
    long = {"seqlen_q": 1, "seqlen_k": 1 << 16}
    assert cost("split", **long, num_splits=16) < cost("split", **long)
