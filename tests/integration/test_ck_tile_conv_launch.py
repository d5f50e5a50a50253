"""The host side of CK Tile convolutions on emulated devices: arguments, launches, checks, stages.

The code objects are stand-ins that have every kernel by name; that real ones have them too, and
take arguments of the size that is passed, the last tests show.
"""

from __future__ import annotations

import struct
from pathlib import Path

import ck_tile_lab as lab
import pytest
from ck_tile_lab import EVEN, FULL, ODD

from ckdisp.code_objects import check_object, inspect
from ckdisp.codegen.make import make_key

pytestmark = pytest.mark.xdist_group("ck_tile_conv")  # the fixtures are made once

SMALL = {"tile": (64, 64, 64), "wave": (2, 2, 1), "warp": (32, 32, 16), "pipeline": "compv3"}
SMALL_32 = {"tile": (64, 64, 64), "wave": (4, 2, 1), "warp": (16, 16, 16), "pipeline": "compv3"}
FWD = {**SMALL, "arch": "gfx942", "vector": (2, 4, 4)}
DATA = {**SMALL, "arch": "gfx942", "vector": (2, 8, 4)}
WEIGHT = {**SMALL, "arch": "gfx942", "vector": (8, 8, 4), "two_stage": False}

KEYS = {
    "fwd": make_key("conv.fwd", **FWD),
    "large": make_key("conv.fwd", **FWD, split_image=True),
    "fwd1": make_key("conv.fwd", **FWD, layout="nwgc", dtype="bf16", epilogue="default"),
    "fwd3": make_key("conv.fwd", **FWD, layout="ndhwgc", split_image=True),
    "pointwise": make_key("conv.fwd", **FWD, specialization="filter1x1_stride1_pad0"),
    "pad0": make_key("conv.fwd", **FWD, specialization="filter1x1_pad0", layout="nwgc"),
    "three": make_key(
        "conv.fwd", **(FWD | {"vector": (1, 1, 2)}), specialization="filter3x3"
    ),
    "merged": make_key("conv.fwd", **(FWD | {"vector": (2, 2, 1)}), groups_to_merge=2),
    "fwd32": make_key("conv.fwd", **SMALL_32, arch="gfx1201", vector=(2, 2, 4)),
    "data": make_key("conv.bwd_data", **DATA),
    "data3": make_key("conv.bwd_data", **DATA, layout="ndhwgc", dtype="bf16"),
    "weight": make_key("conv.bwd_weight", **WEIGHT, split_k=True),
    "weight1": make_key("conv.bwd_weight", **WEIGHT, layout="nwgc"),
    "stages": make_key("conv.bwd_weight", **{**WEIGHT, "two_stage": True}, split_k=True),
    "merged_weight": make_key("conv.bwd_weight", **WEIGHT, groups_to_merge=2),
}  # fmt: skip


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> lab.Driver:
    return lab.build_driver(tmp_path_factory.mktemp("ck_tile_conv"), "conv", list(KEYS.values()))


def _three(sizes: tuple[int, ...], missing: int) -> str:
    return " ".join(map(str, (*(missing,) * (3 - len(sizes)), *sizes)))


def problem(
    n: int = 2,
    g: int = 1,
    c: int = 16,
    k: int = 16,
    size: tuple[int, ...] = (8, 8),
    filter_: tuple[int, ...] = (3, 3),
    stride: int = 1,
    dilation: int = 1,
    pad: int = 0,
    parts: int = 1,
) -> str:
    """A problem for the driver; channels are those of one group."""
    rank = len(size)
    strides, dilations, pads = ((value,) * rank for value in (stride, dilation, pad))
    sizes = (_three(x, 1) for x in (size, filter_, strides, dilations))
    both = " ".join([_three(pads, 0)] * 2)
    return f"{n} {g} {c} {k} {' '.join(sizes)} {both} {parts}"


def call(name: str, of: str, device: int = 0, at: int = 0x10000, verb: str = "run") -> str:
    return f"{verb} {KEYS[name].name} {of} {device} {at} {1 << 20}"


def supports(name: str, of: str) -> str:
    return f"supports {KEYS[name].name} {of}"


def test_blocks_have_the_lanes_of_the_arch(driver: lab.Driver) -> None:
    answers = driver.ask(*(f"facts {key.name}" for key in KEYS.values()))
    for answer, key in zip(answers, KEYS.values(), strict=True):
        waves = key.wave[0] * key.wave[1] * key.wave[2]
        lanes = 32 if key.arch == "gfx1201" else 64
        assert answer.rsplit(" ", 1)[0] == f"{waves * lanes} {key.arch} ck_tile"


@pytest.mark.parametrize("name", KEYS)
def test_arguments_make_the_convolution(driver: lab.Driver, name: str) -> None:
    """The kernel's arguments, followed on the host, compute what a plain loop does."""
    (answer,) = driver.ask(f"try {KEYS[name].name} 40")
    computed, wrong, refused, unnamed = map(int, answer.split()[:4])
    assert wrong == 0, answer
    assert computed >= 15 and refused >= 1, answer
    assert unnamed == 0, answer  # CK's check alone knew why not


def test_reasons(driver: lab.Driver) -> None:
    cases = {
        supports("fwd", problem()): "ok",
        supports("fwd", problem(n=0)): "ok",
        supports("fwd", problem(c=3)): "channels: there are 3 input channels in a group, not a",
        supports("fwd", problem(c=6)): "channels: there are 6 input channels in a group, not a",
        supports("fwd", problem(k=6)): "channels: there are 6 output channels in a group",
        supports("fwd", problem(parts=2)): "split_k: k_batch is 2, and conv.fwd kernels cannot",
        supports("fwd", problem(g=70000, c=4, k=4, size=(1, 1), filter_=(1, 1))): "shape: the num",
        supports("fwd", problem(n=1, c=64, k=64, size=(8192, 8192))): "shape: an image of 42949",
        supports("pointwise", problem(filter_=(1, 1))): "ok",
        supports("pointwise", problem()): "specialization: the kernel is for filter1x1_stride1_pa",
        supports("pointwise", problem(filter_=(1, 1), stride=2)): "specialization: the kernel is",
        supports("pointwise", problem(filter_=(1, 1), pad=1)): "specialization: the kernel is for",
        supports("pad0", problem(size=(9,), filter_=(1,), stride=2)): "ok",
        supports("pad0", problem(size=(9,), filter_=(1,), pad=1)): "specialization: the kernel is",
        supports("three", problem(c=1)): "ok",
        supports("three", problem(c=2)): "specialization: the kernel is for filter3x3, which CK",
        supports("three", problem(c=1, filter_=(3, 1))): "specialization: the kernel is for filt",
        supports("merged", problem(g=4)): "ok",
        supports("merged", problem(g=3)): "specialization: there are 3 groups, not a multiple of",
        supports("data", problem(parts=2)): "split_k: k_batch is 2, and conv.bwd_data kernels",
        supports("data", problem(c=4)): "channels: there are 4 input channels in a group, not a",
        supports("data", problem(size=(99, 99), filter_=(12, 12), stride=12)): "shape: the number",
        supports("data", problem(size=(99, 99), filter_=(11, 11), stride=12)): "ok",
        supports("weight", problem(parts=4)): "ok",
        supports("weight", problem(parts=0)): "split_k: k_batch is 0, it must be between 1 and",
        supports("weight", problem(n=0)): "shape: there are no images",
        supports("weight", problem(n=64, c=64, k=64, size=(512, 512))): "shape: images of",
        supports("weight1", problem(size=(9,), filter_=(3,), parts=2)): "split_k: k_batch is 2, t",
    }
    for answer, (command, wanted) in zip(driver.ask(*cases), cases.items(), strict=True):
        assert answer.startswith(wanted), (command, answer)


def test_the_variant_follows_from_k(driver: lab.Driver, tmp_path: Path) -> None:
    """K is all taps of all channels; forward kernels take it in steps of 64."""
    loops = (1, 2, 3, 4, 5)
    commands = [call("fwd", problem(c=64, filter_=(1, n))) for n in loops]
    answers, trace = driver.run(tmp_path / "trace", *commands)
    assert answers == ["ok"] * len(loops)
    wanted = [(n > 2, FULL if n > 2 else ODD if n % 2 else EVEN) for n in loops]
    assert [launch["function"] for launch in lab.launches(trace)] == [
        lab.variant_symbol(KEYS["fwd"], hot, tail, False) for hot, tail in wanted
    ]


def test_grid_and_block(driver: lab.Driver, tmp_path: Path) -> None:
    answers, trace = driver.run(
        tmp_path / "trace",
        # 5 x 64 output pixels and 144 channels: 5 x 3 tiles of 64 x 64
        call("fwd", problem(n=5, g=3, k=144, size=(10, 10))),
        # 80 output channels, 9 taps of 16 channels: 2 x 3 tiles
        call("weight", problem(g=3, k=80, parts=4)),
    )
    assert answers == ["ok", "ok"]
    fwd, weight = lab.launches(trace)
    assert (fwd["grid"], fwd["block"], fwd["lds"]) == ([15, 3, 1], [256, 1, 1], 0)
    assert (weight["grid"], weight["block"]) == ([6, 3, 4], [256, 1, 1])


def test_blocks_of_waves_with_32_lanes(driver: lab.Driver, tmp_path: Path) -> None:
    command = call("fwd32", problem(n=5, g=3, k=144, size=(10, 10)))
    answers, trace = driver.run(tmp_path / "trace", command, devices="gfx1201")
    assert answers == ["ok"]
    (launch,) = lab.launches(trace)
    assert (launch["grid"], launch["block"]) == ([15, 3, 1], [256, 1, 1])


def test_merged_groups_share_blocks(driver: lab.Driver, tmp_path: Path) -> None:
    answers, trace = driver.run(
        tmp_path / "trace",
        call("merged", problem(n=1, g=8, size=(10, 10))),
        call("merged_weight", problem(g=8, k=8, c=8, filter_=(1, 1))),
    )
    assert answers == ["ok", "ok"]
    # 2 x 64 rows and 2 x 16 columns; 2 x 8 rows and 2 x 8 columns
    assert [launch["grid"] for launch in lab.launches(trace)] == [[2, 4, 1], [1, 4, 1]]


def test_gemms_of_a_data_gradient_have_their_own_tails(driver: lab.Driver, tmp_path: Path) -> None:
    """With stride 2, pixels have 4, 2, 2 or 1 of 9 taps: K is 256, 128, 128 or 64."""
    (facts,) = driver.ask(f"facts {KEYS['data'].name}")
    size = int(facts.split()[-1])
    answers, trace = driver.run(
        tmp_path / "trace", call("data", problem(g=2, k=64, size=(9, 9), stride=2, pad=1))
    )
    assert answers == ["ok"]
    zeroing = trace[0]
    assert zeroing["memset"] and zeroing["width"] * zeroing["height"] == 2 * 2 * 16 * 81 * 2
    found = lab.launches(trace)
    assert [launch["function"] for launch in found] == [
        lab.variant_symbol(KEYS["data"], hot, tail, False)
        for hot, tail in ((True, FULL), (False, EVEN), (False, ODD))
    ]
    # Each GEMM has 2 x 6 x 6 rows, those of pixels outside among them: two tiles.
    assert [launch["grid"] for launch in found] == [[2, 2, 1], [4, 2, 1], [2, 2, 1]]
    assert [len(launch["args"]) // 2 for launch in found] == [size] * 3


def test_a_data_gradient_without_stride_writes_every_pixel(
    driver: lab.Driver, tmp_path: Path
) -> None:
    answers, trace = driver.run(tmp_path / "trace", call("data", problem(pad=1, dilation=2)))
    assert answers == ["ok"] and len(lab.launches(trace)) == 1
    assert not [entry for entry in trace if "memset" in entry]


def test_parts_add_to_zeroed_weights(driver: lab.Driver, tmp_path: Path) -> None:
    whole, parts = problem(g=2), problem(g=2, parts=3)
    answers, trace = driver.run(tmp_path / "trace", call("weight", whole), call("weight", parts))
    assert answers == ["ok", "ok"]
    kinds = [next(iter(entry)) for entry in trace]
    assert kinds == ["module", "function", "memset", "function"]
    assert trace[2]["width"] * trace[2]["height"] == 2 * 16 * 16 * 9 * 2
    assert [launch["function"][-45:].count("Lb1E") for launch in lab.launches(trace)] == [0, 1]


def test_two_stages_sum_in_the_workspace(driver: lab.Driver, tmp_path: Path) -> None:
    of, count = problem(g=2, parts=3), 2 * 16 * 16 * 9
    answers, trace = driver.run(
        tmp_path / "trace",
        f"workspace {KEYS['stages'].name} {of}",
        f"workspace {KEYS['weight'].name} {of}",
        call("stages", of),
        call("stages", problem(g=2)),
    )
    assert answers == [str(count * 4), "0", "ok", "ok"]
    assert [next(iter(e)) for e in trace if "module" not in e] == ["memset", *["function"] * 4]
    memset = next(entry for entry in trace if "memset" in entry)
    assert memset["width"] * memset["height"] == count * 4
    summing, converting, _, again = lab.launches(trace)
    assert summing["grid"][2] == 3
    for launch in (converting, again):
        assert launch["function"] == lab.convert_symbol(KEYS["stages"])
        # Blocks of 256 lanes with 4 elements each.
        assert (launch["grid"], launch["block"]) == ([5, 1, 1], [256, 1, 1])
        sums, weights, elements = struct.unpack("<3Q", bytes.fromhex(launch["args"]))
        assert (sums, elements) == (weights + (1 << 20), count)
    first = struct.unpack_from("<Q", bytes.fromhex(converting["args"]))
    assert first == (int(memset["memset"], 16),)


@pytest.mark.parametrize("groups", [1, 8])
def test_images_are_split_where_offsets_end(
    driver: lab.Driver, tmp_path: Path, groups: int
) -> None:
    n, pixels, channels = 1536, 224, 64
    of = problem(n=n, g=groups, c=channels // groups, k=8, size=(pixels, pixels), pad=1)
    answers, trace = driver.run(tmp_path / "trace", call("fwd", of))
    assert answers == ["ok"]
    (launch,) = lab.launches(trace)
    layers = launch["grid"][2]
    image = pixels * pixels * channels * 2
    assert n % layers == 0 and n // layers * image < 1 << 31
    # CK takes elements for four bytes, and then halves their number again.
    assert layers <= 4 * (n * image // (1 << 31) + 1)


def test_large_images_are_split_into_rows(driver: lab.Driver, tmp_path: Path) -> None:
    """Images of 4 GiB, read and written: rows of output in parts, each with its own pointers."""
    size, channels = 8192, 32
    of = problem(n=2, c=channels, k=channels, size=(size, size), pad=1)
    assert driver.ask(supports("fwd", of))[0].startswith("shape: an image of")
    answers, trace = driver.run(tmp_path / "trace", call("large", of))
    assert answers == ["ok"]
    found = lab.launches(trace)
    assert len(found) % 2 == 0 and all(launch["grid"][1:] == [1, 1] for launch in found)
    # All tiles of 64 pixels are there; a row has whole tiles.
    assert sum(launch["grid"][0] for launch in found) == 2 * size * size // 64
    row = size * channels * 2
    done, ends = 0, []
    for launch in found:
        args = bytes.fromhex(launch["args"])
        rows = launch["grid"][0] * 64 // size
        assert (rows + 2) * row < 1 << 31
        at = 0x10000 + max(done % size - 1, 0) * row + done // size * size * row
        assert args.count(struct.pack("<Q", at)) >= 1
        done += rows
        ends.append(done)
    assert size in ends and done == 2 * size


def test_empty_problems_launch_nothing(driver: lab.Driver, tmp_path: Path) -> None:
    empty = problem(n=0, stride=2)
    answers, trace = driver.run(tmp_path / "trace", call("fwd", empty), call("data", empty))
    assert answers == ["ok", "ok"] and trace == []


def test_refusals_at_run(driver: lab.Driver, tmp_path: Path) -> None:
    cases = {
        call("fwd", problem(), at=0x10002): "alignment: the input is at 0x10002",
        call("data", problem(), at=0x10002): "alignment: the output is at 0x12002",
        call("data", problem(), at=0x10008): "alignment: the weights is at 0x11008",
        call("weight", problem(), at=0): "alignment: the input is at",
        # What a later stage would refuse, the first one does: the result is not zeroed for nothing.
        call("data", problem(stride=2), at=0x10008): "prepare: alignment: the weights is at 0x11",
        call("weight", problem(parts=2), at=0x10002): "prepare: alignment: the output is at 0x12",
        call("stages", problem(parts=2), at=0x10002): "prepare: alignment: the output is at 0x12",
        call("fwd", problem(), device=-1): "device: -1",
        call("fwd", problem(), device=64): "device: 64",
    }
    answers, trace = driver.run(tmp_path / "trace", *cases)
    for answer, wanted in zip(answers, cases.values(), strict=True):
        assert answer.startswith(wanted), answer
    assert trace == []


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        ("hipMemsetAsync", 1, "prepare: failed: zeroing the result"),
        ("hipModuleLoadData", 209, "failed: loading the code object"),
        ("hipModuleLaunchKernel", 98, "failed: launching the kernel"),
    ],
)
def test_failures_are_told_and_the_next_call_works(
    driver: lab.Driver, tmp_path: Path, function: str, error: int, words: str
) -> None:
    command = call("stages", problem(parts=2))
    answers, _ = driver.run(
        tmp_path / "trace", command, command, CKDISP_STUB_FAIL=f"{function}:{error}@1"
    )
    assert answers[0].startswith(f"{words} ({function}) failed with hipError"), answers
    assert answers[1] == "ok"


def test_threads_load_the_module_once(driver: lab.Driver, tmp_path: Path) -> None:
    command = call("stages", problem(parts=2), verb="threads")
    answers, trace = driver.run(tmp_path / "trace", command)
    assert answers[0].split() == ["ok"] * 8
    assert len(lab.launches(trace)) == 16
    assert len([entry for entry in trace if "module" in entry]) == 1


def test_costs_prefer_what_fits(driver: lab.Driver) -> None:
    def cost(name: str, of: str) -> float:
        (answer,) = driver.ask(f"cost {KEYS[name].name} {of}")
        return float(answer)

    few, many = problem(), problem(n=64, c=256, k=256, size=(56, 56))
    for name in ("fwd", "data", "weight"):
        assert 0 < cost(name, few) < cost(name, many)
    # One tile of weights and many pixels: parts keep more than one compute unit busy.
    deep = {"n": 64, "size": (56, 56), "filter_": (1, 1)}
    assert cost("weight", problem(**deep, parts=16)) < cost("weight", problem(**deep))
    assert cost("stages", few) > cost("weight", few)


@pytest.mark.parametrize("name", ["data", "stages"])
def test_real_code_takes_what_is_launched(driver: lab.Driver, tmp_path: Path, name: str) -> None:
    key = KEYS[name]
    lab.write_headers(tmp_path)
    (source,) = lab.write_units(tmp_path, [key])
    code = lab.compile_hip(tmp_path, source, key.arch, lab.DEVICE_PASS)
    assert check_object(code, key) == []
    (facts,) = driver.ask(f"facts {key.name}")
    size = int(facts.split()[-1])
    reports = [report for report in inspect(code) if report.kernel == key.name]
    of_stage = {report.memory == "convert": report.argument_bytes for report in reports}
    assert of_stage == ({False: size, True: 24} if key.two_stage else {False: size})
    assert {report.block_size for report in reports} == {256}
