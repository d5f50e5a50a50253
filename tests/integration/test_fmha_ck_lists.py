"""The curated attention kernels are those that CK Tile's own generator builds, one by one."""

from __future__ import annotations

import re

import pytest
from ck_blobs import blob_name, blobs

from ckdisp import KernelSet
from ckdisp.codegen.enums import families

RECEIPTS = (0, 2, 4, 100, 200, 600)

# What CK lists and we do not build: (families, archs, names, the rule that refuses it and why).
LEFT_OUT = (
    (
        ("fmha.fwd", "fmha.splitkv", "fmha.splitkv_combine", "fmha.pagedkv", "fmha.appendkv"),
        ("gfx90a",),
        r"_fp8",
        "dtype_arch: CK has one list for all of gfx9, but gfx90a multiplies no fp8",
    ),
    (
        ("fmha.batch_prefill",),
        ("gfx90a", "gfx942", "gfx950"),
        r"_batch_b",
        "prefill_mode: batch prefill is for sequences of many lengths",
    ),
    (
        ("fmha.batch_prefill",),
        ("gfx1201",),
        r"",
        "pipeline_arch: CK lists it for every target, but its loads exist on CDNA only",
    ),
    (
        ("fmha.fwd",),
        ("gfx90a", "gfx942", "gfx950"),
        r"_d(96|192)_\w+_qr_async_v",
        "headers_async_barrier: waves overwrite keys that others read, in steps of these heads",
    ),
)
# What we build in place of the last: the same in the pipeline qr.
INSTEAD = r"fmha_fwd_d(96|192)_b?fp?16_\w+_qr_v\w+_(nbias|alibi)_"
# What we build and CK does not list, by family and receipt.
ADDED = {
    ("fmha.splitkv", 4): (
        "CK compares the dtype with the one text 'fp16, bf16', so that its list is empty; the "
        "receipt is meant to have both"
    ),
}


def expected(family, arch, receipt):
    """The names that CK lists and we build."""
    patterns = [p for fs, archs, p, _ in LEFT_OUT if family in fs and arch in archs]
    names = blobs(family, arch, receipt)
    return {name for name in names if not any(re.search(p, name) for p in patterns)}


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950", "gfx1201"])
@pytest.mark.parametrize("receipt", RECEIPTS)
def test_curated_kernels_are_those_of_cks_generator(arch, receipt):
    for family in families("fmha"):
        names = expected(family, arch, receipt)
        keys = KernelSet.sweep(*(family, arch), receipt=receipt, allow_empty=True, companions=False)
        ours = [blob_name(key) for key in keys]
        assert len(set(ours)) == len(ours), family
        if (family, receipt) in ADDED:
            assert not names, ADDED[family, receipt]
            assert ours
        else:
            assert names <= set(ours), family
            added = set(ours) - names
            assert all(re.match(INSTEAD, name) for name in added), family
            assert not added or (family == "fmha.fwd" and not arch.startswith("gfx12"))


@pytest.mark.parametrize("entry", LEFT_OUT, ids=[entry[3].partition(":")[0] for entry in LEFT_OUT])
def test_what_is_left_out_is_listed_by_ck(entry):
    families_, archs, pattern, _ = entry
    for family in families_:
        for arch in archs:
            assert any(re.search(pattern, name) for name in blobs(family, arch, 0)), family
