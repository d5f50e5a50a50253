"""The named sets: where they exist, what they hold, and the prebuilt set of the wheel."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from ckdisp.cli.app import app
from ckdisp.codegen.arch import arch, arch_names
from ckdisp.codegen.declare import preset_names, preset_table
from ckdisp.codegen.enums import families
from ckdisp.codegen.errors import InvalidKey
from ckdisp.codegen.kernel_set import KernelSet
from ckdisp.codegen.rules import check_all

FP16 = ["compute", "memory", "latency", "multi_d", "preshuffle", "all", "essential"]
NAMES = [
    *(f"gemm.fp16_rcr_{kind}" for kind in FP16),
    *("gemm.bf16_rcr_essential", "gemm.int8_rcr_essential", "gemm.fp8_rcr_essential"),
    *("gemm.mixed_precision", "gemm.cpu_prebuilt"),
    *(f"conv.{dtype}_nhwgc_essential" for dtype in ("fp16", "bf16", "fp32")),
    *("conv.fp16_ndhwgc_essential", "conv.narrow_nhwgc_essential", "conv.fp16_nhwgc_search"),
    *("conv.cpu_prebuilt", "fmha.cpu_prebuilt"),
]
CPU = [name for name in arch_names() if not arch(name).is_gpu]


def test_the_table_of_presets():
    assert list(preset_table()) == NAMES
    assert all(preset.doc for preset in preset_table().values())


@pytest.mark.parametrize("name", arch_names())
def test_presets_that_exist_are_valid_and_distinct(name):
    for preset in preset_names(name):
        ks = KernelSet.preset(preset, name)
        keys = list(ks)
        assert keys and check_all(keys) == [[] for _ in keys]
        assert len(set(ks.names())) == len(ks)
        assert {k.arch for k in keys} == {name}


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("gfx908", {"preshuffle", "int8_rcr_essential", "fp8_rcr_essential", "cpu_prebuilt"}),
        ("gfx90a", {"int8_rcr_essential", "fp8_rcr_essential", "cpu_prebuilt"}),
        ("gfx942", {"cpu_prebuilt"}),
        ("gfx950", {"cpu_prebuilt"}),
        ("gfx1100", {"preshuffle", "fp8_rcr_essential", "cpu_prebuilt"}),
        ("gfx1201", {"cpu_prebuilt"}),
        ("x86-64-v4", {"preshuffle"}),
    ],
)
def test_presets_exist_where_they_make_sense(name, missing):
    gemm = {n for n in NAMES if n.startswith("gemm.")}
    absent = gemm - set(preset_names(name))
    assert {n.removeprefix("gemm.").removeprefix("fp16_rcr_") for n in absent} == missing


def test_all_holds_the_others():
    everything = KernelSet.preset("gemm.fp16_rcr_all", "gfx942")
    for kind in FP16:
        part = KernelSet.preset(f"gemm.fp16_rcr_{kind}", "gfx942")
        assert len(part - everything) == 0, kind


def test_what_presets_hold():
    compute = KernelSet.preset("gemm.fp16_rcr_compute", "gfx942")
    assert {(k.family, k.dtype_a, k.layout) for k in compute} == {("gemm.standard", "fp16", "rcr")}
    multi = KernelSet.preset("gemm.fp16_rcr_multi_d", "gfx942")
    assert {k.family for k in multi} == {"gemm.multi_d"} and {k.num_d for k in multi} == {0, 1, 2}
    shuffled = KernelSet.preset("gemm.fp16_rcr_preshuffle", "gfx942")
    assert {k.pipeline for k in shuffled} == {"preshufflev2"}
    mixed = KernelSet.preset("gemm.mixed_precision", "gfx942")
    assert all(k.dtype_c != k.dtype_a for k in mixed)


def test_an_unknown_preset_names_the_nearest():
    with pytest.raises(InvalidKey, match=r"did you mean 'gemm.fp16_rcr_essential'.*known: gemm"):
        KernelSet.preset("gemm.fp16_rcr_esential", "gfx942")


def test_a_preset_that_makes_no_sense_lists_those_that_do():
    with pytest.raises(
        InvalidKey, match=r"no kernels on gfx908; presets there: gemm.fp16_rcr_comp"
    ):
        KernelSet.preset("gemm.fp8_rcr_essential", "gfx908")
    with pytest.raises(InvalidKey, match="served by provider ck_tile, not 'cpu'"):
        KernelSet.preset("gemm.fp16_rcr_all", "gfx942", provider="cpu")
    with pytest.raises(InvalidKey, match=r"not 'ck_tile'$"):  # not: did you mean 'ck_tile'?
        KernelSet.preset("gemm.fp16_rcr_all", "generic", provider="ck_tile")


def test_what_presets_of_convolutions_hold():
    for dtype, layout in (("fp16", "nhwgc"), ("bf16", "nhwgc"), ("fp16", "ndhwgc")):
        for name in ("gfx942", "gfx1201", "x86-64-v4"):
            found = list(KernelSet.preset(f"conv.{dtype}_{layout}_essential", name))
            assert {k.family for k in found} == {"conv.fwd", "conv.bwd_data", "conv.bwd_weight"}
            assert {(*k.multiplied, k.layout) for k in found} == {(dtype, dtype, layout)}
    narrow = KernelSet.preset("conv.narrow_nhwgc_essential", "gfx950")
    assert {(k.family, k.dtype_in) for k in narrow} == {
        ("conv.fwd", dtype) for dtype in ("int8", "fp8", "bf8")
    }
    assert "conv.fp16_nhwgc_search" not in preset_names("generic")


@pytest.mark.parametrize("name", CPU)
def test_the_prebuilt_set_is_small_and_broad(name):
    ks = list(KernelSet.preset("gemm.cpu_prebuilt", name))
    assert len(ks) <= 28
    plain = {(k.dtype_a, k.layout) for k in ks if k.family == "gemm.standard"}
    for dtype in ("fp32", "fp16", "bf16"):
        assert {layout for d, layout in plain if d == dtype} == {"rcr", "rrr", "crr", "ccr"}
    assert {"int8", "fp8", "bf8"} <= {d for d, _ in plain}
    assert {k.elementwise for k in ks if k.family == "gemm.multi_d"} == {"add", "relu", "gelu"}


@pytest.mark.parametrize("name", CPU)
def test_the_prebuilt_set_has_every_family_of_attention(name):
    ks = list(KernelSet.preset("fmha.cpu_prebuilt", name))
    assert {k.family for k in ks} == set(families("fmha"))
    both = {"fp32", "bf16"}
    for family in ("fmha.fwd", "fmha.bwd_dot_do_o", "fmha.bwd_dq_dk_dv"):
        assert {k.dtype for k in ks if k.family == family} == both
    # One of each: no call has to choose.
    assert len({(k.family, k.dtype) for k in ks}) == len(ks) <= 12


def test_several_archs():
    ks = KernelSet.preset("gemm.cpu_prebuilt", "cpu")
    assert list(dict.fromkeys(k.arch for k in ks)) == CPU


def test_the_command_line_takes_a_whole_preset_or_its_kernels_of_one_family() -> None:
    arguments = ["list", "--preset", "gemm.fp16_rcr_essential", "--arch", "gfx942"]
    whole = CliRunner().invoke(app, arguments).stdout.split()
    assert whole == list(KernelSet.preset("gemm.fp16_rcr_essential", "gfx942").names())
    standard = CliRunner().invoke(app, [*arguments, "gemm.standard"]).stdout.split()
    assert standard == [name for name in whole if name.startswith("gemm_standard_")]
    assert 0 < len(standard) < len(whole)


def test_the_command_line_suggests_the_full_name_of_a_preset() -> None:
    result = CliRunner().invoke(app, ["list", "--preset", "fp16_rcr_essential"])
    assert result.exit_code == 2
    assert "did you mean 'gemm.fp16_rcr_essential'?" in result.stderr
