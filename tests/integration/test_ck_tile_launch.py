"""The host side of CK Tile kernels on emulated devices: arguments, launches, checks, failures.

The code objects are stand-ins that have every kernel by name; that real ones have them too, the
last test shows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import ck_tile_lab as lab
import pytest
from ck_tile_lab import EMPTY, EVEN, FULL, ODD, ONE, THREE, TWO

from ckdisp.code_objects import inspect
from ckdisp.codegen.make import make_key

pytestmark = pytest.mark.xdist_group("ck_tile_gemm")  # the fixtures are made once

NO_PADS = {"pad_m": False, "pad_n": False, "pad_k": False}
SMALL = {"tile": (64, 64, 64), "wave": (2, 2, 1), "warp": (16, 16, 32)}
SMALL_32 = {"tile": (64, 64, 64), "wave": (4, 2, 1), "warp": (16, 16, 16)}

KEYS = {
    "v3": make_key("gemm.standard", arch="gfx942", **SMALL, pipeline="compv3", split_k=True),
    "v4": make_key("gemm.standard", arch="gfx942", **SMALL, pipeline="compv4", **NO_PADS),
    "v5": make_key(
        "gemm.standard", arch="gfx942", tile=(64, 64, 64), wave=(1, 1, 2), warp=(32, 32, 16),
        pipeline="compv5", num_wave_groups=2,
    ),
    "v6": make_key("gemm.standard", arch="gfx942", **SMALL, pipeline="compv6", **NO_PADS),
    "mem": make_key(
        "gemm.standard", arch="gfx942", dtype="bf16", tile=(128, 32, 64), wave=(4, 1, 1),
        warp=(32, 32, 8), pipeline="mem", scheduler="interwave", layout="rrr", **NO_PADS,
    ),
    "persistent": make_key(
        "gemm.standard", arch="gfx942", **SMALL, pipeline="compv3", layout="crr",
        persistent=True, split_k=True,
    ),
    "shuffled": make_key("gemm.preshuffle", arch="gfx942", **NO_PADS),
    "clamp": make_key(
        "gemm.multi_d", arch="gfx942", **SMALL, pipeline="compv3", elementwise="clamp", num_d=2
    ),
    "w32": make_key("gemm.standard", arch="gfx1201", **SMALL_32, pipeline="compv3", layout="ccr"),
    "direct": make_key(
        "gemm.multi_d", arch="gfx1201", **SMALL_32, pipeline="mem", scheduler="intrawave",
        elementwise="gelu", num_d=0, epilogue="default",
    ),
}  # fmt: skip


def problem(
    m: int, n: int, k: int, lda: int = 0, ldb: int = 0, ldc: int = 0, ldd: int = 0, parts: int = 1
) -> str:
    """A problem for the driver; leading dimensions are by default those of dense rcr matrices."""
    return f"{m} {n} {k} {lda or k} {ldb or k} {ldc or n} {ldd} {parts}"


def call(
    name: str, of: str, device: int = 0, scale: float = 1, clamp: str = "-1 1", at: int = 0x10000
) -> str:
    return f"run {KEYS[name].name} {of} {device} {scale} {clamp} {at:x}"


def supports(name: str, of: str) -> str:
    return f"supports {KEYS[name].name} {of}"


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> lab.Driver:
    return lab.build_driver(tmp_path_factory.mktemp("ck_tile"), "gemm", list(KEYS.values()))


def test_blocks_have_the_lanes_of_the_arch(driver: lab.Driver) -> None:
    answers = driver.ask(*(f"facts {key.name}" for key in KEYS.values()))
    for answer, key in zip(answers, KEYS.values(), strict=True):
        waves = key.wave[0] * key.wave[1] * key.wave[2]
        lanes = 32 if key.arch == "gfx1201" else 64
        assert answer == f"{waves * lanes} {key.arch} ck_tile"


def test_tails_are_those_that_ck_picks(driver: lab.Driver) -> None:
    assert driver.ask(*(f"tails {key.name}" for key in KEYS.values())) == ["0"] * len(KEYS)


def test_checks_agree_with_ck(driver: lab.Driver) -> None:
    answers = driver.ask(*(f"compare {key.name}" for key in KEYS.values()))
    for answer, key in zip(answers, KEYS.values(), strict=True):
        both, neither, unnamed, too_strict = map(int, answer.split())
        assert both > 20 and neither > 20, (key.name, answer)
        assert unnamed == 0 and too_strict == 0, (key.name, answer)


def test_reasons(driver: lab.Driver) -> None:
    cases = {
        supports("v3", problem(64, 64, 64)): "ok",
        supports("v3", problem(1, 8, 8)): "ok",
        supports("v3", problem(0, 64, 64)): "ok",
        supports("v3", problem(64, 64, 0)): "shape: K is 0",
        supports("v3", problem(-1, 64, 64)): "shape: M is -1",
        supports("v3", problem(64, 64, 68)): "alignment: K is 68, not a multiple of 8",
        supports("v3", problem(64, 60, 64)): "alignment: N is 60, not a multiple of 8",
        supports("v3", problem(64, 64, 64, lda=68)): "alignment: lda is 68",
        supports("v3", problem(64, 64, 64, lda=32)): "leading_dimension: lda is 32",
        supports("v3", problem(1, 64, 64, lda=1, ldc=1)): "ok",
        supports("v3", problem(64, 1 << 31, 64)): "shape: N is 2147483648",
        supports("v3", problem(1 << 16, 1 << 15, 64)): "shape: C spans",
        supports("v3", problem(64, 64, 512, parts=2)): "ok",
        supports("v3", problem(64, 64, 512, parts=0)): "split_k: K is to be split into 0 parts",
        supports("v3", problem(64, 64, 64, parts=4)): "split_k: K is 64, in 4 parts of 32",
        supports("v3", problem(64, 64, 320, parts=2)): "ok",
        supports("v3", problem(64, 64, 256, parts=3)): "split_k: K is 256, its parts of 96",
        supports("v4", problem(64, 64, 64, parts=2)): "split_k: K is to be split into 2 parts, the",
        supports("v4", problem(65, 64, 64)): "ok",  # behind the last row there is nothing
        supports("v4", problem(64, 72, 64)): "pad: N is 72, not a multiple of 64",
        supports("v4", problem(64, 64, 72)): "pad: K is 72, not a multiple of 64",
        supports("v4", problem(64, 64, 192)): "pad: K is 192 in 1 part(s), each of 3 tile(s)",
        supports("v4", problem(64, 64, 64)): "ok",
        supports("v6", problem(64, 64, 64)): "pad: K is 64 in 1 part(s), each of 1 tile(s)",
        supports("v6", problem(64, 64, 128)): "ok",
        supports("shuffled", problem(128, 128, 64)): "ok",
        supports("shuffled", problem(128, 128, 64, ldb=128)): "leading_dimension: ldb is 128",
        supports("clamp", problem(64, 64, 64, ldd=64)): "ok",
        supports("clamp", problem(64, 64, 64, ldd=0)): "ok",
        supports("clamp", problem(64, 64, 64, ldd=36)): "leading_dimension: ldd0 is 36",
    }
    for answer, (command, wanted) in zip(driver.ask(*cases), cases.items(), strict=True):
        assert answer.startswith(wanted), (command, answer)


def _wanted(name: str, loops: int) -> tuple[bool, int]:
    """Hot loop and tail for this many loops over K, by what CK's pipelines document."""
    if name == "v3":
        return (True, FULL) if loops > 2 else (False, ODD if loops % 2 else EVEN)
    if name == "v4":
        return loops > 2, ONE if loops == 1 else THREE if loops % 2 else TWO
    if name == "v5":
        return True, EMPTY
    if name == "shuffled":
        return True, ODD if loops % 2 else EVEN
    if name == "v6":
        return loops > 3, ODD if loops % 2 else EVEN
    raise AssertionError(name)


@pytest.mark.parametrize("name", ["v3", "v4", "v5", "v6", "shuffled"])
def test_the_variant_follows_from_k(driver: lab.Driver, tmp_path: Path, name: str) -> None:
    key = KEYS[name]
    m, n, k = key.tile
    sizes = [loops * k for loops in range(1, 9)]
    if name != "shuffled" and key.pad_k:
        sizes += [3 * k + 8]  # a fourth loop, of which little is there
    commands = [call(name, problem(2 * m, 3 * n, size)) for size in sizes]
    answers, trace = driver.run(tmp_path / "trace", *commands)
    assert answers == ["ok"] * len(sizes)
    found = lab.launches(trace)
    for size, launch in zip(sizes, found, strict=True):
        hot, tail = _wanted(name, -(-size // k))
        assert launch["function"] == lab.variant_symbol(key, hot, tail, False)
        assert launch["grid"] == [6, 1, 1]
        assert launch["block"] == [64 * key.wave[0] * key.wave[1] * key.wave[2], 1, 1]
        assert launch["lds"] == 0  # the code object says how much it needs
    assert len([entry for entry in trace if "module" in entry]) == 1


def test_arguments_are_those_of_ck_and_ours_behind(driver: lab.Driver, tmp_path: Path) -> None:
    answers, trace = driver.run(
        tmp_path / "trace",
        call("clamp", problem(128, 192, 256, lda=264, ldb=272, ldc=200, ldd=208), clamp="-2 3.5"),
    )
    assert answers == ["ok"]
    (launch,) = lab.launches(trace)
    args = bytes.fromhex(launch["args"])
    a, b, d0, d1, _ = struct.unpack_from("<5Q", args)
    assert (a, b, d0, d1) == (0x10000, 0x11000, 0x12000, 0x13000)
    assert struct.unpack_from("<9i", args, 40) == (128, 192, 256, 264, 272, 208, 208, 200, 1)
    assert struct.unpack_from("<2f", args, 80) == (-2, 3.5) and len(args) == 88


def test_c_is_zeroed_before_parts_are_added(driver: lab.Driver, tmp_path: Path) -> None:
    dense, wide = problem(128, 192, 512, parts=2), problem(128, 192, 512, ldc=200, parts=2)
    answers, trace = driver.run(tmp_path / "trace", call("v3", dense), call("v3", wide))
    assert answers == ["ok", "ok"]
    kinds = [next(iter(entry)) for entry in trace]
    assert kinds == ["memset", "module", "function", "memset", "function"]
    whole, rows = (entry for entry in trace if "memset" in entry)
    assert (whole["value"], whole["width"] * whole["height"]) == (0, 128 * 192 * 2)
    assert (rows["pitch"], rows["width"], rows["height"]) == (400, 384, 128)
    for launch in lab.launches(trace):
        # 512 in two parts of four loops each
        assert launch["function"] == lab.variant_symbol(KEYS["v3"], True, FULL, True)
        assert launch["grid"] == [6, 1, 2]


def test_nothing_is_zeroed_without_parts(driver: lab.Driver, tmp_path: Path) -> None:
    answers, trace = driver.run(tmp_path / "trace", call("v3", problem(64, 64, 64)))
    assert answers == ["ok"] and not [entry for entry in trace if "memset" in entry]


def test_persistent_kernels_fill_the_device(driver: lab.Driver, tmp_path: Path) -> None:
    answers, trace = driver.run(
        tmp_path / "trace",
        call("persistent", problem(64, 64, 64)),
        call("persistent", problem(640, 640, 512, parts=2)),
    )
    assert answers == ["ok", "ok"]
    # The stub has two blocks on each of the 304 compute units of a gfx942.
    assert [launch["grid"] for launch in lab.launches(trace)] == [[608, 1, 1]] * 2


def test_empty_problems_launch_nothing(driver: lab.Driver, tmp_path: Path) -> None:
    answers, trace = driver.run(
        tmp_path / "trace", call("v3", problem(0, 64, 64)), call("v3", problem(64, 0, 64, parts=2))
    )
    assert answers == ["ok", "ok"] and trace == []


def test_refusals_at_run(driver: lab.Driver, tmp_path: Path) -> None:
    square, split = problem(64, 64, 64), problem(64, 64, 512, parts=2)
    cases = {
        call("v3", square, scale=2): "scale: the scale is 2",
        # C must not be zeroed for what is refused.
        call("v3", split, scale=2): "prepare: scale: the scale is 2",
        call("v3", split, at=0x10008): "prepare: alignment: A is at 0x10008",
        call("v3", square, at=0x10008): "alignment: A is at 0x10008",
        call("v3", square, at=0): "alignment: A is at",
        call("v3", square, device=-1): "device: -1",
        call("v3", square, device=64): "device: 64",
    }
    answers, trace = driver.run(tmp_path / "trace", *cases)
    for answer, wanted in zip(answers, cases.values(), strict=True):
        assert answer.startswith(wanted), answer
    assert trace == []


def test_no_runtime_is_a_refusal(driver: lab.Driver) -> None:
    command = call("v3", problem(64, 64, 64))
    (answer,) = driver.ask(command, CKDISP_HIP_RUNTIME="/nowhere/libamdhip64.so")
    assert answer.startswith("device: ") and "/nowhere/libamdhip64.so" in answer


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        ("hipModuleLoadData", 209, "loading the code object"),
        ("hipModuleGetFunction", 500, "finding the kernel in its code object"),
        ("hipModuleLaunchKernel", 98, "launching the kernel"),
    ],
)
def test_failures_are_told_and_the_next_call_works(
    driver: lab.Driver, tmp_path: Path, function: str, error: int, words: str
) -> None:
    command = call("v3", problem(64, 64, 64))
    answers, _ = driver.run(
        tmp_path / "trace", command, command, CKDISP_STUB_FAIL=f"{function}:{error}@1"
    )
    assert answers[0].startswith(f"failed: {words} ({function}) failed with hipError")
    assert f"({error})" in answers[0] and answers[1] == "ok"


def test_failure_to_zero_is_told(driver: lab.Driver, tmp_path: Path) -> None:
    answers, trace = driver.run(
        tmp_path / "trace",
        call("v3", problem(64, 64, 512, parts=2)),
        CKDISP_STUB_FAIL="hipMemsetAsync:1",
    )
    assert answers[0].startswith("prepare: failed: zeroing C") and lab.launches(trace) == []


def test_code_of_another_arch_is_told(driver: lab.Driver, tmp_path: Path) -> None:
    command = call("v3", problem(64, 64, 64))
    answers, _ = driver.run(tmp_path / "trace", command, devices="gfx90a")
    assert answers[0].startswith("failed: loading the code object")


def test_threads_load_the_module_once_for_each_device(driver: lab.Driver, tmp_path: Path) -> None:
    commands = [
        call("v3", problem(64, 64, 64), device=device).replace("run", "threads", 1)
        for device in (0, 1)
    ]
    answers, trace = driver.run(tmp_path / "trace", *commands, devices="gfx942,gfx942")
    assert [answer.split() for answer in answers] == [["ok"] * 8] * 2
    assert len(lab.launches(trace)) == 16
    assert len([entry for entry in trace if "module" in entry]) == 2


def test_costs_prefer_what_fits(driver: lab.Driver) -> None:
    def cost(name: str, of: str) -> float:
        (answer,) = driver.ask(f"cost {KEYS[name].name} {of}")
        return float(answer)

    few, many = problem(64, 64, 64), problem(4096, 4096, 4096)
    assert 0 < cost("v3", few) < cost("v3", many)
    # One tile of C and a long K: parts keep more than one compute unit busy.
    deep = problem(64, 64, 65536)
    assert cost("v3", problem(64, 64, 65536, parts=16)) < cost("v3", deep)
    assert cost("v3", problem(4096, 4096, 4096, parts=2)) > cost("v3", many)


@pytest.fixture(scope="module")
def unit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("unit")
    lab.write_headers(folder)
    yield folder


def test_real_code_has_the_kernels_that_are_launched(unit: Path) -> None:
    key = KEYS["v3"]
    (source,) = lab.write_units(unit, [key])
    reports = inspect(lab.compile_hip(unit, source, key.arch, lab.DEVICE_PASS))
    found = {report.symbol.removesuffix(".kd"): report for report in reports}
    variants = ((False, ODD), (False, EVEN), (True, FULL))
    for hot, tail in variants:
        for atomic in (False, True):
            report = found[lab.variant_symbol(key, hot, tail, atomic)]
            assert report.block_size == 256 and report.matrix_instructions


def test_units_refuse_another_arch(unit: Path) -> None:
    (source,) = lab.write_units(unit, [KEYS["v3"]])
    with pytest.raises(AssertionError, match="another --offload-arch than the arch of its key"):
        lab.compile_hip(unit, source, "gfx90a", lab.DEVICE_PASS)
