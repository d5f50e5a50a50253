"""Inspecting what the AMD compiler really makes; its own remarks give the expected figures."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import sys
from pathlib import Path

import amd
import pytest

import ckdisp
from ckdisp.code_objects import InspectError, KernelReport, check_object, disassembly

pytestmark = pytest.mark.xdist_group("inspect_amd")  # the fixtures are made once

ARCHES = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    amd.toolchain()
    return tmp_path_factory.mktemp("inspect")


@pytest.fixture(scope="module")
def plain(folder: Path) -> Path:
    return amd.compile_kernels(folder / "k.co", "gfx942", flags=("--no-gpu-bundle-output",))


def compile_text(file: Path, text: str, arch: str, *flags: str) -> Path:
    source = file.with_suffix(".hip")
    source.write_text(text)
    command = [*amd.toolchain().command, f"--offload-arch={arch}", "-nogpuinc", "-nogpulib", "-O3"]
    command += ["--offload-device-only", "--no-gpu-bundle-output", *flags, str(source), "-o"]
    done = subprocess.run([*command, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return file


def by_name(reports: list[KernelReport], name: str) -> KernelReport:
    return next(report for report in reports if report.name == name)


def test_a_code_object(plain: Path) -> None:
    reports = ckdisp.inspect(plain)
    multiply, copy = by_name(reports, "multiply"), by_name(reports, "copy")
    assert multiply.arch == copy.arch == "gfx942"
    assert multiply.matrix == {"v_mfma_f32_32x32x8_f16": 1} and copy.matrix == {}
    assert (multiply.block_size, copy.block_size) == (256, 1024)
    assert multiply.argument_bytes == 24 and multiply.vgpr >= 16
    assert copy.instructions is not None and 0 < copy.instructions * 4 <= copy.code_bytes
    assert not multiply.scratch_bytes and not multiply.vgpr_spills


def test_every_form_gives_the_same_figures(folder: Path, plain: Path) -> None:
    """Bundles, compressed bundles, objects, archives and libraries hold the same kernels."""
    forms = [
        amd.compile_kernels(folder / "bundle.co", "gfx942", "gfx1100"),
        amd.compile_kernels(
            folder / "packed.co", "gfx942", "gfx1100", flags=["--offload-compress"]
        ),
    ]
    for flag in ((), ("--offload-compress",)):
        output = folder / f"host{len(flag)}.o"
        command = [*amd.toolchain().command, "--offload-arch=gfx942", "--offload-arch=gfx1100"]
        command += ["-nogpuinc", "-nogpulib", "-O2", "-fPIC", *flag]
        subprocess.run([*command, "-c", plain.with_suffix(".hip"), "-o", output], check=True)
        forms.append(output)
    hosts = [form for form in forms if form.suffix == ".o"]
    library = folder / "libboth.so"
    link = ["-shared", "-nostdlib", "-Wl,-z,muldefs", "-Wl,--unresolved-symbols=ignore-all"]
    subprocess.run(
        [f"{amd.toolchain().llvm_bin}/clang", "-fuse-ld=lld", *link, *hosts, "-o", library],
        check=True,
    )
    static = folder / "libboth.a"
    subprocess.run([amd.toolchain().tool("llvm-ar"), "rcs", static, *hosts], check=True)

    def figures(report: KernelReport) -> tuple[object, ...]:
        return (report.name, report.vgpr, report.sgpr, report.instructions, str(report.matrix))

    expected = {figures(report) for report in ckdisp.inspect(plain)}
    for form in [*forms, library, static]:
        reports = ckdisp.inspect(form)
        count = 8 if form in (library, static) else 4
        assert len(reports) == count, form
        assert {figures(r) for r in reports if r.arch == "gfx942"} == expected, form
        assert {r.arch for r in reports} == {"gfx942", "gfx1100"}


REGISTERS = """
#define GLOBAL extern "C" __attribute__((global, amdgpu_flat_work_group_size(256, 256)))
template <int N> __attribute__((device)) void use(float* data, int i) {
  float values[N];
#pragma unroll
  for (int j = 0; j < N; j++) values[j] = data[i + 64 * j];
  __builtin_amdgcn_s_barrier();
#pragma unroll
  for (int j = 0; j < N; j++) data[i * 3 + 7 * j] = values[j] * values[(j + 1) % N];
}
#define KERNEL(N, L) GLOBAL void kernel_##N##_##L(float* data) { \\
  __attribute__((shared)) static float local[L + 1]; \\
  int i = __builtin_amdgcn_workitem_id_x(); \\
  if (L) { local[i] = data[i]; __builtin_amdgcn_s_barrier(); data[i] = local[(i * 7) % L]; } \\
  use<N>(data, i); }
KERNEL(8, 0) KERNEL(60, 0) KERNEL(90, 0) KERNEL(150, 0)
KERNEL(8, 2000) KERNEL(8, 4100) KERNEL(8, 9000)
"""


@pytest.mark.parametrize("arch", ARCHES)
def test_occupancy_is_what_the_compiler_says(folder: Path, arch: str) -> None:
    """The compiler writes registers, scratch and occupancy of each kernel into its assembly."""
    code = compile_text(folder / f"{arch}.co", REGISTERS, arch, "-c", "-save-temps=obj")
    (assembly,) = folder.glob(f"{arch}-hip-*.s")
    text = assembly.read_text()
    said = re.findall(
        r"^(kernel_\w+):.*?; ScratchSize: (\d+).*?; LDSByteSize: (\d+).*?; Occupancy: (\d+)",
        *(text, re.MULTILINE | re.DOTALL),
    )
    # It counts waves; ours come as whole blocks, which have 8 waves of 32 for the 4 SIMDs of a WGP.
    step = 2 if arch.startswith("gfx1") else 1
    expected = {n: (int(s), int(lds), int(waves) // step * step) for n, s, lds, waves in said}
    reports = ckdisp.inspect(code)
    assert len(expected) == len(reports) == 7
    found = {r.name: (r.scratch_bytes, r.lds_bytes, r.waves_per_simd) for r in reports}
    assert found == expected


def test_spills_are_reported(folder: Path) -> None:
    text = REGISTERS.replace("(256, 256)", "(1024, 1024)")
    reports = ckdisp.inspect(compile_text(folder / "spill.co", text, "gfx942", "-c"))
    spilled = by_name(reports, "kernel_150_0")
    assert spilled.vgpr_spills > 0 or spilled.agpr > 0
    assert spilled.vgpr <= 128 and spilled.waves_per_simd == 4


def test_without_a_disassembler_counts_are_unknown(
    plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disassembly.tools, "find", lambda name: None)
    report = ckdisp.inspect(plain)[0]
    assert report.matrix is None and report.instructions is None
    assert report.unknown is not None and "no llvm-objdump" in report.unknown
    monkeypatch.setattr(disassembly.tools, "find", lambda name: shutil.which("false"))
    assert "failed" in str(ckdisp.inspect(plain)[0].unknown)


def test_relocatable_device_code_is_refused(folder: Path, plain: Path) -> None:
    output = folder / "rdc.o"
    command = [*amd.toolchain().command, "--offload-arch=gfx942", "-fgpu-rdc", "-nogpuinc"]
    command += ["-nogpulib", "-c", str(plain.with_suffix(".hip")), "-o", str(output)]
    subprocess.run(command, check=True)
    with pytest.raises(InspectError, match="-fgpu-rdc"):
        ckdisp.inspect(output)


def test_the_command_on_damaged_code(folder: Path, plain: Path) -> None:
    """The disassembler gets what survived the reading of the file."""
    content = bytearray(plain.read_bytes())
    start = content.rindex(b".text\0") - 1000
    content[start : start + 400] = b"\xff" * 400
    damaged = folder / "damaged.co"
    damaged.write_bytes(bytes(content))
    done = subprocess.run(
        [sys.executable, "-m", "ckdisp", "inspect", str(damaged)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1) and "Traceback" not in done.stderr


KEY = ckdisp.make_key("gemm.standard", arch="gfx942", dtype="fp16", pipeline="compv3")
ODD, EVEN, LOOP, ATOMIC = (0, 0, 0), (0, 1, 0), (1, 10, 0), (0, 0, 1)


def variants(
    file: Path, key: ckdisp.KernelKey, *which: tuple[int, int, int], body: str = ""
) -> Path:
    """Code with stand-ins for kernels of ``key``, one matrix instruction each."""
    body = body or "c[1] = __builtin_amdgcn_mfma_f32_32x32x8f16(a[0], a[1], c[1], 0, 0, 0);"
    kind = f"ckdisp_key_{key.name}"
    text = amd.TYPES
    for loop, tail, atomic in which:
        name = f"_Z10ckdisp_runI{len(kind)}{kind}Lb{loop}ELi{tail}ELb{atomic}EEvNT_4ArgsE"
        text += f"GLOBAL void {name}(halves* a, floats* c, int n) {{ {body} }}\n"
    return compile_text(file, text, "gfx942", "-c")


def kinds(path: Path, key: ckdisp.KernelKey) -> list[str]:
    return [problem.kind for problem in check_object(path, key)]


def test_a_sound_object_has_no_problems(folder: Path) -> None:
    code = variants(folder / "sound.co", KEY, ODD, EVEN, LOOP)
    assert check_object(code, KEY) == []
    (report, *_) = ckdisp.inspect(code)
    assert report.name == report.kernel == KEY.name


def test_missing_and_unexpected_variants(folder: Path) -> None:
    code = variants(folder / "missing.co", KEY, ODD, LOOP, ATOMIC)
    texts = [str(problem) for problem in check_object(code, KEY)]
    assert texts == [
        "no kernel without hot loop, tail even, set",
        "unexpected: without hot loop, tail odd, atomic_add",
    ]
    other = dataclasses.replace(KEY, pad_m=not KEY.pad_m)
    assert [str(p) for p in check_object(code, other)] == [f"there is no kernel of {other.name}"]


def test_code_of_the_wrong_kind(folder: Path) -> None:
    empty = variants(folder / "empty.co", KEY, ODD, EVEN, LOOP, body="c[1] = c[0];")
    assert kinds(empty, KEY) == ["matrix"] * 3
    brain = dataclasses.replace(KEY, dtype_a="bf16", dtype_b="bf16")
    code = variants(folder / "brain.co", brain, ODD, EVEN, LOOP)
    problems = check_object(code, brain)
    assert {p.kind for p in problems} == {"matrix"} and len(problems) == 3
    assert "v_mfma_f32_32x32x8_f16 for bf16 x bf16" in str(problems[0])
    elsewhere = dataclasses.replace(KEY, arch="gfx90a")
    assert (
        kinds(variants(folder / "arch.co", elsewhere, ODD, EVEN, LOOP), elsewhere) == ["arch"] * 3
    )


def test_scratch_memory_is_a_problem_of_its_own(folder: Path) -> None:
    body = (
        "volatile float memory[64]; memory[n] = 1; c[2] = memory[n + 1]; "
        "c[1] = __builtin_amdgcn_mfma_f32_32x32x8f16(a[0], a[1], c[1], 0, 0, 0);"
    )
    assert kinds(variants(folder / "s.co", KEY, ODD, EVEN, LOOP, body=body), KEY) == ["scratch"] * 3


def test_registration_by_constructors_is_found(folder: Path, plain: Path) -> None:
    output = folder / "registered.o"
    command = [*amd.toolchain().command, "--offload-arch=gfx942", "-nogpuinc", "-nogpulib"]
    subprocess.run([*command, "-c", plain.with_suffix(".hip"), "-o", output], check=True)
    found = {str(p) for p in check_object(output, KEY) if p.kind == "registration"}
    assert "it refers to __hipRegisterFatBinary" in found
