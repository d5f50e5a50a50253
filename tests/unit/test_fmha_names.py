"""Lists of an earlier enumerator: what we have of them, what a rule refuses, and what we add."""

from __future__ import annotations

from collections import Counter, defaultdict

import fmha_names
import pytest

from ckdisp import KernelSet
from ckdisp.codegen.rules import check_all

# Why some listed configurations are not kernels, by the rule that refuses them.
REFUSED = {
    "async_step": "tiles of qr_async that multiply more of K than they load",
    "head_dims": "backward tiles of 96 numbers listed for a V of 128",
    "bwd_lds": "a tile of 192 keys without transposed reads, on 64 KiB of LDS",
    "bwd_trload_arch": "tiles that read LDS transposed, listed for every arch",
    "head_loops": "one step along the head dimension, where the pipelines assert two (v3: one)",
    "head_step": "steps of 96 along 128 numbers",
    "value_loops": "fewer keys in a tile than in a step along V (v3: more)",
    "key_load": "steps of K that the lanes of 8 or 16 waves cannot share",
    "value_load": "steps of V that the lanes of 16 waves cannot share",
    "trload_tile": "a rule that the enumerator has, but does not apply to all of its tiles",
    "tile_waves": "tiles of 192 keys and more queries than waves",
    "trload_waits": "128 numbers of 32 rows of V, read transposed: more loads than are counted",
    "v3_block": "v3 in 16 waves",
    "warp_tile": "warp tiles of CDNA on RDNA",
    "pipeline_arch": "asynchronous loads on RDNA",
    "matrix_arch": "kernels for gfx1100, for which CK's headers do not compile",
}
# What the full space has and the lists lack: values of fields that no list has.
ADDED = {
    "simplified_mask": "one form of mask, which serves every kind",
    "mask": "triangles that end at the last key",
    "vlayout": "V stored by columns",
    "padding": "forms of padding that the lists couple to pipelines and families",
    "pipeline": "qs, qr_nwarp_sshuffle, and qr without a bias",
    "tile": "steps along V that follow no table, other tiles of append-KV and backward sums",
    "wave": "two warp tiles for each wave, waves along the keys",
    "warp": "warp tiles of any listed shape in every family",
    "block_per_cu": "other numbers of blocks per compute unit",
    "sink": "sinks, which receipt 2 leaves out",
    "skip_min_seqlen_q": "skipping, which receipt 2 leaves out",
    "bias": "elementwise biases, which receipt 2 leaves out",
    "lse": "LSE of paged kernels",
    "use_trload": "tiles that read LDS transposed, marked as such",
    "max_seq_len_q": "kernels of a short Q, marked as such",
    "hdim_v": "backward tiles of 96 numbers for a V of 96",
}
ENTRIES = fmha_names.slices()
IDS = [f"{entry['variant']}-{entry['arch']}" for entry in ENTRIES]


@pytest.mark.parametrize("entry", ENTRIES, ids=IDS)
def test_listed_configurations_are_in_the_space_or_refused_by_name(entry):
    keys = list(fmha_names.keys(entry))
    assert len(keys) == entry["count"]
    left = defaultdict(list)
    for key, rejections in zip(keys, check_all(keys), strict=True):
        if rejections:
            assert {r.rule for r in rejections} & set(REFUSED), rejections
        else:
            left[key.family].append(key)
    for family, found in left.items():
        where = {"dtype": ["fp16"]}
        space = KernelSet.sweep(family, entry["arch"], tiles="all", where=where, companions=False)
        assert KernelSet(found) - space == KernelSet(), family


def test_every_reason_of_refusal_occurs():
    rules = Counter(
        rejection.rule
        for entry in ENTRIES
        if entry["variant"] != "pagedkv"  # of the same tiles as splitkv
        for rejections in check_all(list(fmha_names.keys(entry)))
        for rejection in rejections[:1]
    )
    assert set(rules) == set(REFUSED)


@pytest.mark.parametrize("variant", sorted({entry["variant"] for entry in ENTRIES}))
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_what_we_add_differs_in_a_listed_way(variant, arch):
    (entry,) = (e for e in ENTRIES if (e["variant"], e["arch"]) == (variant, arch))
    listed = set(fmha_names.keys(entry))
    fields = list(next(iter(listed)).to_dict())
    for family in {key.family for key in listed}:
        known = {f: {getattr(k, f) for k in listed if k.family == family} for f in fields}
        where = {"dtype": ["fp16"], "hdim_q": sorted(known["hdim_q"])}
        space = KernelSet.sweep(family, arch, tiles="all", where=where, companions=False)
        added = [key for key in space.sample(1000) if key not in listed]
        new = {f for key in added for f in fields if getattr(key, f) not in known[f]}
        assert new <= set(ADDED), new - set(ADDED)
