"""How many waves and blocks of a kernel fit on the hardware.

The figures and formulas are those of LLVM's AMDGPU back end, which knows the hardware as the
compiler does (``AMDGPUBaseInfo.cpp``: getVGPRAllocGranule, getTotalNumVGPRs, getMaxWavesPerEU,
getOccupancyWithNumSGPRs, getMaxWorkGroupsPerCU; ``AMDGPUUsage.rst`` for the units of LDS):

* registers: ``waves = vectors / roundup(vgpr, granule)`` for each SIMD. ``vgpr`` includes the
  accumulation registers from gfx90a on, where both come from one file; on gfx908 each file has 256.
* scalars, before gfx10 only: 10 waves up to 80 SGPRs, 9 up to 88, 8 up to 100, else 7.
* LDS: ``blocks = lds / roundup(bytes, unit)`` for each compute unit, or for each pair of them (WGP)
  when the kernel was compiled in WGP mode.
* a block of more than one wave takes a barrier: 16 for each compute unit before gfx10, 32 after.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class _Family:
    """What a SIMD and a compute unit of an arch hold, for waves of 64 (CDNA) or 32 (RDNA)."""

    vectors: int
    granule: int
    waves: int
    lds: int
    lds_unit: int = 512
    simds: int = 4
    barriers: int = 16


_CDNA1 = _Family(vectors=256, granule=4, waves=10, lds=65536)
_CDNA2 = _Family(vectors=512, granule=8, waves=8, lds=65536)
_CDNA4 = _Family(vectors=512, granule=8, waves=8, lds=163840, lds_unit=1280)
# A pair of compute units with 128 KiB of LDS; half of it in CU mode.
_RDNA = _Family(vectors=1536, granule=24, waves=16, lds=131072, barriers=32)
_RDNA_SMALL = _Family(vectors=1024, granule=16, waves=16, lds=131072, barriers=32)

_FAMILIES = {
    "gfx908": _CDNA1,
    "gfx90a": _CDNA2,
    "gfx942": _CDNA2,
    "gfx950": _CDNA4,
    "gfx1100": _RDNA,
    "gfx1101": _RDNA,
    "gfx1151": _RDNA,
    "gfx1200": _RDNA,
    "gfx1201": _RDNA,
    **dict.fromkeys(("gfx1030", "gfx1031", "gfx1032", "gfx1102", "gfx1103"), _RDNA_SMALL),
}


@dataclass(frozen=True)
class Occupancy:
    """Waves on each SIMD and blocks on each compute unit (or WGP), and what limits them."""

    waves_per_simd: int
    blocks: int
    limited_by: str


def occupancy(
    arch: str,
    *,
    vgpr: int,
    agpr: int,
    sgpr: int,
    lds_bytes: int,
    block_size: int,
    wave_size: int,
    wgp_mode: bool,
) -> Occupancy | None:
    """The occupancy of a kernel; ``None`` for an arch that is not in the table."""
    family = _FAMILIES.get(arch)
    if family is None or wave_size <= 0 or block_size <= 0:
        return None
    rdna = arch.startswith("gfx1")
    share = 1 if wgp_mode or not rdna else 2  # of a WGP
    wide = 2 if rdna and wave_size == 64 else 1  # a register of a wave of 64 takes two rows
    if arch == "gfx908":
        vgpr = max(vgpr, agpr)
    limits = {"waves": family.waves}
    rows = _rounded(vgpr, family.granule // wide)
    limits["vgpr"] = max(family.vectors // wide // rows, 1) if rows else family.waves
    if not rdna:
        limits["sgpr"] = 10 if sgpr <= 80 else 9 if sgpr <= 88 else 8 if sgpr <= 100 else 7
    waves = min(limits.values())
    limited = min(limits, key=lambda name: limits[name])

    block_waves = -(-block_size // wave_size)
    simds = family.simds // share
    blocks = waves * simds // block_waves
    if block_waves > 1 and blocks > family.barriers // share:
        blocks, limited = family.barriers // share, "barriers"
    if lds_bytes:
        fit = family.lds // share // _rounded(lds_bytes, family.lds_unit)
        if fit < blocks:
            blocks, limited = fit, "lds"
    return Occupancy(min(waves, -(-blocks * block_waves // simds)), blocks, limited)


def _rounded(value: int, unit: int) -> int:
    return -(-value // unit) * unit
