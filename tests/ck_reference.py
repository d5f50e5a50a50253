"""Device code of CK's own examples at the parameters of a key, and how ours compares."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import amd
from ck_tile_lab import DEVICE_PASS, compile_hip, write_headers, write_units

from ckdisp.code_objects import KernelReport, inspect
from ckdisp.codegen.arch import arch
from ckdisp.codegen.key import KernelKey

INSTRUCTION_TOLERANCE = 0.01

_PIPELINES = {
    "mem": "MEMORY",
    "compv3": "COMPUTE_V3",
    "compv4": "COMPUTE_V4",
    "compv5": "COMPUTE_V5",
    "compv6": "COMPUTE_V6",
    "preshufflev2": "PRESHUFFLE_V2",
}
_TYPES = {
    "fp32": "float",
    "fp16": "ck_tile::half_t",
    "bf16": "ck_tile::bf16_t",
    "fp8": "ck_tile::fp8_t",
    "bf8": "ck_tile::bf8_t",
    "int8": "ck_tile::int8_t",
    "int32": "ck_tile::int32_t",
}
_SOURCE = """\
#include "ck_tile/host.hpp"
#include "ck_tile/ops/epilogue.hpp"
#include "ck_tile/ops/gemm.hpp"

// The examples' main programs define it.
template <class Layout>
constexpr auto is_row_major(Layout) {{
  return ck_tile::bool_constant<
      std::is_same_v<Layout, ck_tile::tensor_layout::gemm::RowMajor>>{{}};
}}

// It names every kernel a second time, with which the first would share functions that are then
// called and not inlined.
#define MaxOccupancyGridSize(stream) GridSize(args.M, args.N, args.k_batch)
#include "{header}"
#undef MaxOccupancyGridSize

struct Config : GemmConfigBase {{
  static constexpr ck_tile::index_t M_Tile = {tile[0]}, N_Tile = {tile[1]}, K_Tile = {tile[2]};
  static constexpr ck_tile::index_t M_Warp = {wave[0]}, N_Warp = {wave[1]}, K_Warp = {wave[2]};
  static constexpr ck_tile::index_t M_Warp_Tile = {warp[0]}, N_Warp_Tile = {warp[1]},
                                    K_Warp_Tile = {warp[2]};
  static constexpr bool kPadM = {pad_m}, kPadN = {pad_n}, kPadK = {pad_k};
  static constexpr bool DoubleSmemBuffer = {double};
  static constexpr auto Pipeline = ck_tile::GemmPipeline::{pipeline};
  static constexpr auto Scheduler = ck_tile::GemmPipelineScheduler::{scheduler};
  static constexpr bool Preshuffle = {preshuffle}, TiledMMAPermuteN = {permute};
  static constexpr int kBlockPerCu = {blocks};
}};
using Row = ck_tile::tensor_layout::gemm::RowMajor;
using Col = ck_tile::tensor_layout::gemm::ColumnMajor;
template float {invoker}::gemm<Config, {types[0]}, {types[1]}, ck_tile::tuple<>, {types[2]},
    {types[3]}, {layouts[0]}, {layouts[1]}, ck_tile::tuple<>, Row, {persistent},
    ck_tile::element_wise::PassThrough>(const ck_tile::GemmHostArgs&,
                                        const ck_tile::stream_config&);
"""
_CONV_SOURCE = """\
#include "ck_tile/host.hpp"
#include "grouped_convolution_utils.hpp"

// The examples also make kernels that add atomically, for directions that cannot; they would have
// an influence on the others.
{additions}
#include "{header}"

struct Config : ConvConfigBase {{
  static constexpr ck_tile::index_t M_Tile = {tile[0]}, N_Tile = {tile[1]}, K_Tile = {tile[2]};
  static constexpr ck_tile::index_t M_Warp = {wave[0]}, N_Warp = {wave[1]}, K_Warp = {wave[2]};
  static constexpr ck_tile::index_t M_Warp_Tile = {warp[0]}, N_Warp_Tile = {warp[1]},
                                    K_Warp_Tile = {warp[2]};
  static constexpr ck_tile::index_t VectorSizeA = {vector[0]}, VectorSizeB = {vector[1]},
                                    VectorSizeC = {vector[2]};
  static constexpr bool DoubleSmemBuffer = {double};
  static constexpr auto Pipeline = ck_tile::GemmPipeline::{pipeline};
  static constexpr auto Scheduler = ck_tile::GemmPipelineScheduler::{scheduler};
  static constexpr ck_tile::index_t NumGroupsToMerge = {merged};
  static constexpr int kBlockPerCu = {blocks};
}};
namespace layout = ck_tile::tensor_layout::convolution;
template float {invoker}::{function}<{rank}, Config, {types}, layout::{layouts[0]},
    layout::{layouts[1]}, layout::{layouts[2]}>(const {arguments}&, const ck_tile::stream_config&);
"""
# Direction -> the header of CK's example, its class and function, the arguments of that.
_DIRECTIONS = {
    "conv.fwd": (
        "grouped_convolution_forward_invoker.hpp",
        "GroupedConvolutionForwardInvoker",
        "grouped_conv_fwd",
        "ck_tile::GroupedConvFwdHostArgs<>",
    ),
    "conv.bwd_data": (
        "grouped_convolution_backward_data_invoker.hpp",
        "GroupedConvolutionBackwardDataInvoker",
        "grouped_conv_bwd_data",
        "ck_tile::GroupedConvBwdDataHostArgs",
    ),
    "conv.bwd_weight": (
        "grouped_convolution_backward_weight_invoker.hpp",
        "GroupedConvolutionBackwardWeightInvoker",
        "grouped_conv_bwd_weight",
        "ck_tile::GroupedConvBwdWeightHostArgs",
    ),
}
_CONV_LAYOUTS = {
    "nwgc": ("NWGC", "GKXC", "NWGK"),
    "nhwgc": ("NHWGC", "GKYXC", "NHWGK"),
    "ndhwgc": ("NDHWGC", "GKZYXC", "NDHWGK"),
}
_VARIANT = re.compile(
    r"GemmPipelineScheduler\)\d, (true|false), \(ck_tile::TailNumber\)(\d+).*"
    r"memory_operation_enum\)(\d)"
)
_OURS = re.compile(r"Lb([01])ELi(\d+)ELb([01])E")

# Hot loop, tail, whether parts are added atomically.
Variant = tuple[bool, int, bool]


_EXAMPLES = {"gemm": "03_gemm", "conv": "20_grouped_convolution"}


def examples(op: str) -> Path:
    """The folder of CK's examples of an op, which only source distributions have."""
    headers = Path(amd.toolchain().ck_include, "ck_tile").resolve()
    folder = headers.parent.parent / "example" / "ck_tile" / _EXAMPLES[op]
    if not folder.exists():
        amd.missing(f"the CK headers come without CK's examples: no {folder}")
    return folder


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _gemm_text(key: KernelKey) -> str:
    preshuffle = key.family == "gemm.preshuffle"
    repeat = key.tile[1] // (key.wave[1] * key.warp[1])
    permute = preshuffle and key.warp[1] == 16 and repeat % 2 == 0
    return _SOURCE.format(
        header="gemm_weight_preshuffle_invoker.hpp" if preshuffle else "universal_gemm_invoker.hpp",
        invoker="WeightPreshuffleInvoker" if preshuffle else "UniversalInvoker",
        tile=key.tile,
        wave=key.wave,
        warp=key.warp,
        **{name: _flag(getattr(key, name)) for name in ("pad_m", "pad_n", "pad_k", "persistent")},
        double=_flag(key.pipeline in ("compv4", "preshufflev2")),
        pipeline=_PIPELINES[key.pipeline],
        scheduler=key.scheduler.capitalize(),
        preshuffle=_flag(preshuffle),
        # CK's example sets it for 32-lane waves too, and then shuffles B in another way.
        permute=_flag(permute and arch(key.arch).wave_size == 64),
        blocks=key.block_per_cu,
        types=[_TYPES[t] for t in (key.dtype_a, key.dtype_b, key.dtype_acc, key.dtype_c)],
        layouts=["Row" if letter == "r" else "Col" for letter in key.layout[:2]],
    )


def _conv_text(key: KernelKey) -> str:
    header, invoker, function, arguments = _DIRECTIONS[key.family]
    types = (key.dtype_in, key.dtype_wei, key.dtype_acc, key.dtype_out)
    return _CONV_SOURCE.format(
        header=header,
        additions="" if key.split_k else "#define MemoryOpAtomicAdd MemoryOpSet",
        invoker=invoker,
        function=function,
        arguments=arguments,
        tile=key.tile,
        wave=key.wave,
        warp=key.warp,
        vector=key.vector,
        double=_flag(key.double_buffer),
        pipeline=_PIPELINES[key.pipeline],
        scheduler=key.scheduler.capitalize(),
        merged=key.groups_to_merge,
        blocks=key.block_per_cu,
        rank=len(key.layout) - 3,
        types=", ".join(_TYPES[t] for t in types),
        layouts=_CONV_LAYOUTS[key.layout],
    )


def _demangled(symbols: list[str]) -> list[str]:
    command = [amd.toolchain().tool("llvm-cxxfilt")]
    done = subprocess.run(
        command, input="\n".join(symbols), capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def _reference_variants(code: Path) -> Iterator[tuple[Variant, KernelReport]]:
    reports = inspect(code)
    for text, report in zip(_demangled([r.symbol for r in reports]), reports, strict=True):
        if found := _VARIANT.search(text):
            yield (found[1] == "true", int(found[2]), found[3] == "1"), report


def _our_variants(code: Path) -> Iterator[tuple[Variant, KernelReport]]:
    for report in inspect(code):
        if found := _OURS.search(report.symbol):
            yield (found[1] == "1", int(found[2]), found[3] == "1"), report


def differences(ours: KernelReport, reference: KernelReport) -> list[str]:
    """How our kernel differs from CK's; empty when both are the same code."""
    names = ("vgpr", "agpr", "lds_bytes", "scratch_bytes", "block_size", "matrix")
    found = [
        f"{name} is {getattr(ours, name)}, CK's is {getattr(reference, name)}"
        for name in names
        if getattr(ours, name) != getattr(reference, name)
    ]
    if _granted(ours) != _granted(reference):
        found.append(f"sgpr is {ours.sgpr}, CK's is {reference.sgpr}")
    count, wanted = ours.instructions or 0, reference.instructions or 0
    if count == 0 or abs(count - wanted) > INSTRUCTION_TOLERANCE * wanted:
        found.append(f"{count} instructions, CK has {wanted}")
    return found


def _granted(report: KernelReport) -> int:
    """Scalar registers as a wave gets them, by 16."""
    return -(-report.sgpr // 16)


@dataclass(frozen=True)
class Comparison:
    """One variant of a key. ``differences`` is empty when both are the same code."""

    variant: Variant
    ours: KernelReport
    reference: KernelReport

    @property
    def differences(self) -> list[str]:
        return differences(self.ours, self.reference)


def compare(key: KernelKey, folder: Path) -> list[Comparison]:
    """Compiles ``key`` and CK's example; every variant that we have."""
    write_headers(folder)
    (unit,) = write_units(folder, [key])
    text = _gemm_text(key) if key.op == "gemm" else _conv_text(key)
    (folder / "reference.hip").write_text(text)
    ours = dict(_our_variants(compile_hip(folder, unit, key.arch, DEVICE_PASS)))
    reference = dict(
        _reference_variants(
            compile_hip(folder, "reference.hip", key.arch, DEVICE_PASS, examples(key.op))
        )
    )
    assert ours and ours.keys() <= reference.keys(), (sorted(ours), sorted(reference))
    return [Comparison(v, found, reference[v]) for v, found in sorted(ours.items())]
