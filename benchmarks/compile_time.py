"""CPU seconds of building CK Tile kernels, against ``hipcc -c`` of the same kernels.

``python benchmarks/compile_time.py [--arch gfx942]``. The plain side is one file for each key, as
CK's examples are written: all loop tails and the code that launches them, host and device. Both
sides compile the same kernels with the same flags, one job at a time. Needs ROCm or the toolchain
of ``make amd-toolchain``.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from ckdisp import KernelSet
from ckdisp.codegen.build import build
from ckdisp.codegen.emit.manifest import read_manifest
from ckdisp.codegen.emit.tree import make_tree
from ckdisp.codegen.generate import generate
from ckdisp.codegen.headers import own_include_dirs
from ckdisp.codegen.key import KernelKey
from ckdisp.codegen.providers import Setup
from ckdisp.codegen.rocm import HipToolchain, NotInstalled

PRESET, COUNT, SINGLE = "gemm.fp16_rcr_essential", 8, 2

_TYPES = {"fp16": "half_t", "bf16": "bf16_t", "fp32": "float", "fp8": "fp8_t", "int8": "int8_t"}
_LAYOUTS = {"r": "RowMajor", "c": "ColumnMajor"}
_PIPELINES = {"mem": "Mem", "compv3": "CompV3", "compv4": "CompV4"}
_ACTIVATIONS = {"add": "x", "relu": "x < 0 ? 0 : x", "passthrough": "x"}

_PLAIN = """\
#include <hip/hip_runtime.h>
#include <array>
#include <stdexcept>
#include "ck_tile/core.hpp"
#include "ck_tile/host/kernel_launch.hpp"
#include "ck_tile/ops/epilogue.hpp"
#include "ck_tile/ops/gemm.hpp"
using namespace ck_tile;

using A = {a};
using B = {b};
using C = {c};
using Acc = {acc};
using ALayout = tensor_layout::gemm::{layout_a};
using BLayout = tensor_layout::gemm::{layout_b};
using CLayout = tensor_layout::gemm::{layout_c};
using Ds = tuple<{ds}>;
using DsLayout = tuple<{ds_layout}>;
using Shape = TileGemmShape<sequence<{tile}>, sequence<{wave}>, sequence<{warp}>>;
using Partitioner = GemmSpatiallyLocalTilePartitioner<Shape, 8, 4>;

struct Fused {{
  template <class E, class X, class... D>
  __host__ __device__ void operator()(E& e, const X& c, const D&... d) const {{
    float x = type_convert<float>(c);
    ((x += type_convert<float>(d)), ...);
    e = type_convert<E>({activation});
  }}
}};

float run(const UniversalGemmHostArgs<1, 1, {num_d}>& args, const stream_config& stream) {{
  using Traits = TileGemmTraits<{pads}, ALayout, BLayout, CLayout>;
  using UniversalTraits = TileGemmUniversalTraits<{pads}, {two_buffers}, ALayout, BLayout, CLayout>;
  using Base = BaseGemmPipelineAgBgCr{pipeline}<GemmPipelineProblem<A, B, Acc, Shape, Traits>>;
  const index_t num_loop = Partitioner::GetLoopNum(args.K);
  float time = 0;
  const auto with = [&](auto hot_loop, auto tail) {{
    using Problem =
        UniversalGemmPipelineProblem<A, B, Acc, Shape, UniversalTraits,
                                     GemmPipelineScheduler::{scheduler}, hot_loop.value,
                                     tail.value>;
    using Pipe = GemmPipelineAgBgCr{pipeline}<Problem>;
    using Out = CShuffleEpilogue<CShuffleEpilogueProblem<
        A, B, Ds, Acc, C, DsLayout, CLayout, {elementwise}, Partitioner::MPerBlock,
        Partitioner::NPerBlock, {wave_m}, {wave_n}, {warp}, Problem::TransposeC,
        memory_operation_enum::set>>;
    using Kernel = UniversalGemmKernel<Partitioner, Pipe, Out>;
    auto kernel_args = Kernel::MakeKernelArgs(args);
    if (!Kernel::IsSupportedArgument(kernel_args)) throw std::runtime_error("not supported");
    const dim3 grid = Kernel::GridSize(args.M, args.N, args.k_batch);
    time = launch_kernel(stream, make_kernel<{block_per_cu}>(Kernel{{}}, grid, Kernel::BlockSize(),
                                                             0, kernel_args));
    return time;
  }};
  Base::TailHandler(with, Base::BlockHasHotloop(num_loop), Base::GetBlockLoopTailNum(num_loop));
  return time;
}}
"""


def plain_text(key: KernelKey) -> str:
    """One file for ``key``, in the manner of CK's GEMM examples."""

    def numbers(values: Sequence[int]) -> str:
        return ", ".join(map(str, values))

    layouts = [_LAYOUTS[letter] for letter in key.layout]
    return _PLAIN.format(
        a=_TYPES[key.dtype_a],
        b=_TYPES[key.dtype_b],
        c=_TYPES[key.dtype_c],
        acc=_TYPES[key.dtype_acc],
        layout_a=layouts[0],
        layout_b=layouts[1],
        layout_c=layouts[2],
        ds=", ".join([_TYPES[key.dtype_d]] * key.num_d),
        ds_layout=", ".join(["CLayout"] * key.num_d),
        num_d=key.num_d,
        tile=numbers(key.tile),
        wave=numbers(key.wave),
        warp=numbers(key.warp),
        wave_m=key.wave[0],
        wave_n=key.wave[1],
        pads=", ".join("true" if p else "false" for p in (key.pad_m, key.pad_n, key.pad_k)),
        two_buffers="true" if key.pipeline == "compv4" else "false",
        pipeline=_PIPELINES[key.pipeline],
        scheduler=key.scheduler.capitalize(),
        activation=_ACTIVATIONS[key.elementwise],
        elementwise="element_wise::PassThrough" if key.elementwise == "passthrough" else "Fused",
        block_per_cu=key.block_per_cu,
    )


def cpu_seconds(action: Callable[[], object]) -> float:
    """What the processes that ``action`` starts and waits for use."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    action()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def plain_seconds(key: KernelKey, hip: HipToolchain, folder: Path) -> float:
    """CPU seconds of ``hipcc -c`` on the file of ``key``, with the flags of ckdisp."""
    setup = Setup(None, tuple(map(str, own_include_dirs())), hip=hip)
    flags = make_tree("plain", [(key.name, key)], setup).steps[-1].rule.flags
    flags = tuple(f for f in flags if f != "--offload-host-only")
    source = folder / "plain.hip"
    source.write_text(plain_text(key))
    command = [*hip.command, *flags, f"-I{hip.ck_include}", "-c", str(source)]
    command += ["-o", str(folder / "plain.o")]
    return cpu_seconds(lambda: subprocess.run(command, check=True))


def our_seconds(
    keys: Sequence[KernelKey], hip: HipToolchain, folder: Path, group: str | None = None
) -> tuple[float, float]:
    """CPU seconds of precompiling headers, and of the rest up to the library."""
    generate(keys, folder, "ninja", hip=hip, group=group)
    manifest = read_manifest(folder)
    assert manifest is not None
    headers = [path for path in manifest["built"] if path.endswith(".pch")]
    first = cpu_seconds(lambda: build(folder, jobs=1, targets=headers))
    return first, cpu_seconds(lambda: build(folder, jobs=1))


def show(what: str, ours: float, plain: float, target: str = "") -> None:
    print(f"{what:44} {ours:8.1f} {plain:8.1f} {ours / plain:6.2f}  {target}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", default="gfx942")
    arch = parser.parse_args().arch
    try:
        hip = HipToolchain.find()
    except NotInstalled as error:
        print(f"skipped: {error}")
        return
    keys = list(KernelSet.preset(PRESET, arch)[:COUNT])
    single = keys[SINGLE]
    print(f"{arch}, {hip.version}, {os.cpu_count()} processors; CPU seconds")
    print(f"{'':44} {'ckdisp':>8} {'plain':>8} {'ratio':>6}  target")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain = {key.name: plain_seconds(key, hip, folder) for key in keys}
        one = plain[single.name]
        headers, rest = our_seconds([single], hip, folder / "single")
        show("1 key, headers precompiled before", rest, one, "0.65")
        show("1 key, headers precompiled now", headers + rest, one)
        every = sum(plain.values())
        for group in ("tile", None):
            headers, rest = our_seconds(keys, hip, folder / f"eight_{group}", group)
            text = f"{len(keys)} keys, {f'group={group}' if group else 'a unit for each key'}"
            show(f"{text}, headers precompiled now", headers + rest, every, "0.40" if group else "")
            show(f"{text}, headers precompiled before", rest, every)


if __name__ == "__main__":
    main()
