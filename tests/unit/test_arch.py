"""Arch facts: names, targets, LDS budgets, consistency of the table."""

from __future__ import annotations

import pytest

from ckdisp.codegen.arch import arch, arch_names, arches, parse_target
from ckdisp.codegen.declare import native_level, resolve_archs
from ckdisp.codegen.errors import InvalidKey

CPU = ("generic", "x86-64-v3", "x86-64-v4", "x86-64-v4-bf16", "x86-64-v4-amx")


def test_names_cover_the_gpus_and_the_cpu_levels():
    gpus = ("gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1200", "gfx1201")
    assert arch_names() == (*gpus, *CPU, "sm_90a")


@pytest.mark.parametrize("name", arch_names())
def test_every_arch_has_waves_and_warp_tiles(name):
    facts = arch(name)
    assert facts.name == name
    assert facts.waves and all(min(wave) >= 1 for wave in facts.waves)
    assert facts.warp_tiles["fp16_fp16_fp32"]
    assert facts.to_dict()["name"] == name
    assert facts.is_gpu == name.startswith(("gfx", "sm_"))
    assert facts.device_kind == (
        "hip" if name.startswith("gfx") else "cuda" if facts.is_gpu else ""
    )


def test_lds_budgets_per_pipeline_and_arch():
    assert arch("gfx942").lds_budget("compv3") == 65536
    assert arch("gfx942").lds_budget("compv4") == 32768
    assert arch("gfx950").lds_budget("mem") == 163840
    assert arch("gfx950").lds_budget("preshufflev2") == 81920


def test_fp8_has_one_encoding_on_each_arch_that_multiplies_it():
    encodings = {name: facts.fp8 for name, facts in arches().items() if facts.fp8}
    assert encodings == {
        "gfx90a": "fnuz",
        "gfx942": "fnuz",
        "gfx950": "ocp",
        "gfx1200": "ocp",
        "gfx1201": "ocp",
        "sm_90a": "ocp",
    }
    for name, facts in arches().items():
        if facts.is_gpu:
            assert bool(facts.fp8) == ("fp8_fp8_fp32" in facts.warp_tiles), name


def test_target_features_are_parsed():
    assert parse_target("gfx942:sramecc+:xnack-") == ("gfx942", {"sramecc": True, "xnack": False})
    assert arch("gfx942:sramecc+:xnack-").name == "gfx942"


@pytest.mark.parametrize(
    "target", ["gfx942:xnack", "gfx942:foo+", "gfx942:xnack+:xnack-", "gfx942:"]
)
def test_bad_target_features_are_refused(target):
    with pytest.raises(InvalidKey, match="write each feature once"):
        arch(target)


@pytest.mark.parametrize("name", ["generic", "gfx1100", "gfx1201"])
def test_some_archs_take_no_features(name):
    for feature in ("xnack+", "sramecc-"):
        with pytest.raises(InvalidKey, match=f"{name} takes no target features; write '{name}'"):
            arch(f"{name}:{feature}")


def test_an_unknown_arch_names_the_nearest_and_the_known_ones():
    with pytest.raises(
        InvalidKey, match=r"unknown arch 'gfx943' \(did you mean 'gfx9.*known: gfx908"
    ):
        arch("gfx943")


def test_cpu_levels_imply_the_smaller_ones():
    for name in CPU:
        for implied in arch(name).implies:
            assert set(arch(implied).features) < set(arch(name).features)


def test_resolve_archs():
    assert resolve_archs("cpu") == CPU
    assert resolve_archs(["gfx942", "gfx942:xnack-", "cpu"]) == ("gfx942", *CPU)
    assert resolve_archs("native") == (native_level(),)
    for bad in ([], 3, [None]):
        with pytest.raises(InvalidKey):
            resolve_archs(bad)


def test_native_level_follows_the_environment(monkeypatch):
    monkeypatch.setenv("CKDISP_CPU_LEVEL", "x86-64-v3")
    assert resolve_archs("native") == ("x86-64-v3",)
    monkeypatch.setenv("CKDISP_CPU_LEVEL", "x86-64-v5")
    with pytest.raises(InvalidKey, match="CKDISP_CPU_LEVEL"):
        native_level()
    monkeypatch.delenv("CKDISP_CPU_LEVEL")
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert native_level() == "generic"


def test_preshuffle_tiles_belong_to_known_pairs():
    for facts in arches().values():
        assert set(facts.preshuffle_warp_tiles) <= set(facts.warp_tiles)
