"""Rules of attention keys: each is broken alone by some key, for the reason that it gives."""

from __future__ import annotations

import pytest
from rule_laws import breaks_alone, hold

from ckdisp import InvalidKey, KernelSet, make_key
from ckdisp.codegen.enums import families
from ckdisp.codegen.ops.fmha import rules
from ckdisp.codegen.ops.fmha.columns import SCOPES
from ckdisp.codegen.ops.fmha.families import FORWARD, GRADIENT
from ckdisp.codegen.ops.fmha.feature_rules import RULES as FEATURES
from ckdisp.codegen.ops.fmha.feature_rules import missing_features
from ckdisp.codegen.rules import check_all


def gpu(family, arch="gfx942", **fields):
    return make_key(f"fmha.{family}", arch=arch, **fields)


def changed(key, **fields):
    """``key`` with other values and nothing completed."""
    return type(key).from_dict({**key.to_dict(), **fields})


def fwd(**fields):
    return changed(gpu("fwd"), **fields)


def qr(**fields):
    return changed(gpu("fwd", pipeline="qr", bias="bias"), **fields)


def v3(**fields):
    return changed(gpu("fwd", "gfx950", pipeline="v3"), **fields)


def trload(**fields):
    return changed(gpu("fwd", "gfx950", pipeline="qr_async_trload"), **fields)


def gradient(**fields):
    return changed(gpu("bwd_dq_dk_dv"), **fields)


def prefill(**fields):
    return changed(gpu("batch_prefill"), **fields)


def cpu(family="fwd", **fields):
    return changed(make_key(f"fmha.{family}", arch="x86-64-v3"), **fields)


ALONE = [
    (
        changed(gpu("fwd", "gfx1201"), arch="gfx1100"),
        "matrix_arch",
        "its headers do not compile fmha.fwd there",
    ),
    (fwd(dtype="mxfp8"), "dtype_kernels", "there are no attention kernels of mxfp8"),
    (fwd(dtype="fp8fp16"), "dtype_kernels", "use fp32, fp16, bf16, fp8"),
    (
        changed(gpu("appendkv"), dtype="fp32"),
        "dtype_family",
        "fmha.appendkv has no kernels of fp32",
    ),
    (cpu("bwd_dq_dk_dv", dtype="fp8"), "cpu_dtype", "has no kernels of fp8"),
    (fwd(arch="gfx908"), "arch_kernels", "no attention kernels for gfx908"),
    (fwd(provider="cpu"), "provider", "gfx942 is served by provider ck_tile"),
    (fwd(pipeline="qr_pagedkv"), "pipeline_family", "fmha.fwd has no pipeline qr_pagedkv"),
    (v3(arch="gfx942"), "pipeline_arch", "gfx942 cannot run pipeline v3"),
    (gpu("fwd", "gfx1201", dtype="fp32"), "dtype_arch", "archs that have: gfx90a, gfx942, gfx950"),
    (fwd(hdim_q=104), "head_dims", "no kernels of fp16 with head dimensions 104 and 128"),
    (fwd(rope="interleaved"), "no_rope", "fmha.fwd has no rope: it must be none"),
    (fwd(dbias=True), "no_dbias", "families that have it: fmha.bwd_dq_dk_dv"),
    (fwd(page_size=16), "no_page_size", "it must be 0, not 16"),
    (gradient(logits=True), "no_logits", "has no logits in CK Tile's headers, only on CPU levels"),
    (gradient(sink=True), "no_sink", "has no sink in CK Tile's headers, only on CPU levels"),
    (fwd(mode="any"), "call_decides", "a GPU kernel cannot leave mode to a call"),
    (fwd(mask="top_left", simplified_mask=True), "simplified_mask", "has no simplified form"),
    (qr(logits=True), "soft_cap_bias", "excludes bias bias"),
    (qr(mode="group", padding=(1, 0, 1, 1)), "group_padding", "needs padding of sq and sk"),
    (fwd(qscale="pertensor"), "qscale_dtype", "fp16 is not quantised"),
    (gpu("fwd", dtype="fp8bf16", qscale="kv_blockscale"), "qscale_family", "it has no, pertensor"),
    (gpu("fwd", dtype="fp8", lse=True), "fp8_training", "fp8 kernels have no lse"),
    (fwd(dropout=True, store_randval=True), "forward_randval", "stores random numbers on demand"),
    (changed(gpu("splitkv"), lse=False), "splitkv_lse", "stores LSE always"),
    (changed(gpu("splitkv"), simplified_mask=False), "split_mask", "use simplified_mask true"),
    (gpu("splitkv", dtype="fp8", paged_kv=True), "fp8_pages", "use fmha.pagedkv"),
    (gpu("appendkv", dtype="fp8", rope="half_rotated"), "fp8_rope", "use rope none"),
    (changed(gpu("appendkv"), mode="group"), "append_mode", "mode batch only"),
    (changed(gpu("pagedkv"), paged_kv=False), "always_paged", "always reads pages"),
    (prefill(mode="batch"), "prefill_mode", "exists in mode group, not batch"),
    (prefill(kv_lookup_table="none"), "prefill_pages", "kv_lookup_table (vllm, sglang)"),
    (prefill(page_size=24), "page_size", "page_size 24 is not a power of two"),
    (prefill(kv_memory_layout="vectorized"), "single_keys", "page_size 1 needs"),
    (gradient(dbias=True), "dbias_bias", "bias is no, not bias"),
    (gradient(store_randval=True), "randval_dropout", "without dropout"),
    (gradient(dropout=True), "dropout_warp", "16, the side of a warp tile"),
    (gradient(padding=(0, 0, 2, 0)), "padding", "pads d and dv, by 0, 1 or 8"),
    (qr(padding=(8, 0, 0, 0)), "padding", "by 0 or 1"),
    (changed(gpu("splitkv_combine"), tile=(16,)), "combine_tile", "takes 32 of the 128"),
    (changed(gpu("bwd_dot_do_o"), tile=(96,)), "dot_tile", "96 queries is not whole waves"),
    (changed(gpu("bwd_convert_dq"), tile=(64, 128)), "convert_tile", "0 if not deterministic"),
    (changed(gpu("bwd_convert_dq"), block_per_cu=9), "block_count", "at most 8 blocks"),
    (changed(gpu("appendkv"), tile=(32, 64, 128, 128)), "append_rows", "takes 64 rows"),
    (fwd(block_per_cu=9), "occupancy", "9 block(s) of 4 waves of 64 threads"),
    (fwd(padding=(1, 1, 0, 1)), "async_padding", "qr_async pads sq, d and dv always"),
    (fwd(use_trload=True), "trload_flag", "use_trload must be false with pipeline qr_async"),
    (trload(logits=True), "trload_features", "qr_async_trload has no logits"),
    (trload(padding=(0, 0, 0, 1)), "trload_padding", "pads both head dimensions or nothing"),
    (trload(vlayout="c"), "row_major_v", "reads V row by row"),
    (v3(sink=True), "v3_features", "sink True"),
    (v3(dtype="fp8", warp=(32, 32, 32) * 2), "v3_dtype", "v3 takes fp16 and bf16, not fp8"),
    (v3(padding=(1, 1, 1, 1)), "v3_padding", "v3 pads sq and sk"),
    (v3(num_wave_groups=1), "wave_groups", "has 2 group(s) of waves, not 1"),
    (cpu(hdim_q=64), "cpu_hdim_q", "CPU kernels take any head dimension"),
    (cpu(lse=False), "cpu_lse", "lse must be true in fmha.fwd on x86-64-v3: a call decides"),
    (cpu("bwd_dq_dk_dv", sink=False), "cpu_sink", "must be true in fmha.bwd_dq_dk_dv"),
    (cpu("bwd_dot_do_o", sink=True), "cpu_sink", "the family does not have it"),
    (cpu(tile=(64,)), "cpu_tile", "queries, at most 1024, and keys"),
    (cpu(padding=(1, 1, 1, 0)), "cpu_padding", "CPU kernels take any size"),
]


@pytest.mark.parametrize(("key", "rule", "words"), ALONE, ids=[row[1] for row in ALONE])
def test_a_key_breaks_one_rule_for_a_reason(key, rule, words):
    breaks_alone(key, rule, words)


# Tiles, of which a change breaks what belongs together.
TILES = [
    (fwd(tile=(128, 128, 32)), "tile_numbers", "has 6 numbers, all positive"),
    (fwd(tile=(2048, 128, 32, 128, 32, 128)), "tile_range", "at most 1024"),
    (fwd(wave=(4, 1, 1)), "stage_numbers", "has 2 stage(s) of matrix instructions"),
    (fwd(warp=(32, 32, 8) * 2), "warp_tile", "gfx942 has no warp tile 32x32x8 for fp16"),
    (changed(fwd(), arch="gfx1201"), "warp_tile", "it has 16x16x16"),
    (fwd(tile=(96, 128, 32, 128, 32, 128)), "tile_waves", "96 by 4x32"),
    (fwd(tile=(128, 128, 32, 64, 32, 128)), "value_tile", "64 numbers of V, hdim_v is 128"),
    (fwd(tile=(128, 128, 32, 128, 32, 192)), "head_tile", "192 numbers of Q, hdim_q is 128"),
    (fwd(tile=(128, 128, 96, 128, 96, 128)), "head_step", "steps of 96 do not divide the 128"),
    (fwd(tile=(64, 128, 32, 128, 32, 128)), "cdna_tile", "128 queries and keys, not 64 and 128"),
    (qr(tile=(128, 64, 32, 128, 32, 128)), "cdna_tile", "has 128 keys and does not step by 64"),
    (qr(tile=(128, 128, 128, 128, 32, 128)), "head_loops", "pipeline qr takes at least two"),
    (fwd(tile=(128, 128, 32, 128, 48, 128)), "value_loops", "in steps of 48 along V"),
    (fwd(wave=(4, 1, 1, 2, 1, 1)), "stage_waves", "4 waves multiply Q K^T and 2 P V"),
    (fwd(wave=(2, 2, 1) * 2), "wave_shape", "pipeline qr_async lays them along M only"),
    (fwd(tile=(128, 128, 64, 128, 32, 128)), "async_step", "loads 32 numbers of K"),
    (
        prefill(tile=(32, 64, 32, 128, 64, 128), wave=(1, 1, 1) * 2),
        "prefill_values",
        "do not divide a vector of 16 bytes",
    ),
    (v3(tile=(128, 32, 128, 128, 32, 128)), "v3_block", "v3 takes 256 queries in 8 waves"),
    (trload(tile=(128, 128, 32, 128, 32, 128)), "trload_tile", "with 128 keys"),
    (
        trload(tile=(128, 192, 64, 64, 32, 64), hdim_q=64, hdim_v=64),
        "trload_waits",
        "more loads of a lane than it can count",
    ),
    (
        changed(
            gpu("splitkv", pipeline="qr_nwarp_sshuffle"),
            tile=(16, 32, 32, 128, 32, 192),
            hdim_q=192,
            hdim_v=128,
        ),
        "query_load",
        "16 queries by 192 numbers of fp16",
    ),
    (
        changed(gpu("splitkv"), tile=(64, 384, 16, 192, 16, 256), hdim_q=192, hdim_v=192),
        "value_load",
        "16 keys by 192 numbers of V",
    ),
    (
        gradient(
            arch="gfx950",
            use_trload=True,
            tile=(32, 128, 96, 32, 96, 32, 32, 96, 96),
            hdim_q=96,
            hdim_v=96,
        ),
        "bwd_trload_load",
        "lines of 128 bytes",
    ),
    (gradient(tile=(16, 128, 128, 32, 128, 16, 32, 128, 128)), "bwd_steps", "its 16 queries"),
    (gradient(wave=(1, 4, 1, 2, 1, 1, 1, 4, 1)), "bwd_waves", "the stages have 4, 2, 4 waves"),
    (gradient(tile=(16, 192, 128, 16, 128, 16, 32, 128, 128)), "bwd_lds", "192 keys"),
    (gradient(hdim_v=64), "bwd_heads", "the head dimensions are 128 and 64"),
    (gradient(use_trload=True), "bwd_trload_arch", "use_trload is for gfx950"),
    (gradient(max_seq_len_q=32), "short_queries", "0, or the 16 queries of a tile"),
    (changed(gpu("appendkv"), hdim_v=64), "append_tile", "which are equal"),
    (gpu("appendkv", hdim=192, tile_2=192, tile_3=192), "append_load", "do not divide the lanes"),
    (changed(gpu("bwd_dot_do_o"), hdim_v=64), "one_head_dim", "not 128 and 64"),
    (fwd(hdim_q=100), "head_dim_multiple", "both are multiples of 8"),
]


@pytest.mark.parametrize(("key", "rule", "words"), TILES, ids=[row[1] for row in TILES])
def test_tiles_break_rules_for_a_reason(key, rule, words):
    found = {rejection.rule: rejection.reason for rejection in key.check()}
    assert rule in found, found
    assert words in found[rule]


def test_the_laws_of_rules_hold():
    keys = [row[0] for row in ALONE + TILES]
    hold(rules.RULES, keys)
    names = [rule.name for rule in rules.RULES]
    assert len(set(names)) == len(names)
    assert set(SCOPES) <= set(names)


def test_every_family_has_defaults_that_are_valid_wherever_it_exists():
    for family in families("fmha"):
        for arch in ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1200", "gfx1201", "generic"):
            multiplies = family in (*FORWARD, GRADIENT)
            prefill = family == "fmha.batch_prefill"
            if (arch == "gfx1100" and multiplies) or (prefill and arch.startswith("gfx1")):
                with pytest.raises(InvalidKey, match="archs that have: gfx90a, gfx942, gfx950"):
                    make_key(family, arch=arch)
            else:
                assert make_key(family, arch=arch).check() == []


def test_curated_kernels_are_legal_and_in_the_full_space():
    for arch in ("gfx942", "gfx950", "gfx1201"):
        for family in families("fmha"):
            curated = KernelSet.sweep(family, arch, allow_empty=True).sample(200)
            everything = KernelSet.sweep(family, arch, tiles="all", allow_empty=True)
            assert not curated - everything
            assert not any(check_all(list(curated)))


def test_who_names_a_mask_gets_kinds_that_are_not_built_by_default():
    where = {"dtype": ["fp16"], "hdim_q": [128], "mask": ["no", "top_left"]}
    keys = KernelSet.sweep("fmha.fwd", "gfx950", receipt="ck_default", where=where)
    assert {(k.mask, k.simplified_mask) for k in keys} == {("no", True), ("top_left", False)}


def test_headers_may_lack_what_a_key_needs():
    everything = {rule.feature for rule in FEATURES}
    ours = everything - {
        "fmha_sink",
        "fmha_block_scales",
        "fmha_prefill_pages",
        "fmha_v3_soft_cap",
    }
    for key, rule in (
        (fwd(sink=True), "headers_sink"),
        (gpu("fwd", dtype="fp8", qscale="blockscale"), "headers_block_scales"),
        (prefill(page_size=16), "headers_prefill_pages"),
        (v3(logits=True), "headers_v3_soft_cap"),
    ):
        assert [r.rule for r in missing_features(key, ours)] == [rule]
        assert missing_features(key, everything) == []
    assert missing_features(prefill(), ours) == []
    assert [r.rule for r in missing_features(trload(), {"fmha"})] == ["headers_trload"]
    assert [r.rule for r in missing_features(v3(), {"fmha"})] == ["headers_v3"]
    assert [r.rule for r in missing_features(fwd(), set())] == ["headers_fmha"]
