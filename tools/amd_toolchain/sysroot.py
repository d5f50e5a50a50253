"""The parts of the prefix: HIP headers, device libraries, CK, commands."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from common import HERE, Failure, run
from packages import Apt

# Headers that the wheel lacks; Debian's are older, and fit.
DEBIAN_HEADERS = (
    "hip_fp16.h",
    "hip_bfloat16.h",
    "hip_complex.h",
    "amd_detail/amd_hip_fp16.h",
    "amd_detail/amd_hip_bfloat16.h",
    "amd_detail/amd_hip_complex.h",
)
_TOOLS = (
    *("clang", "clang++", "clang-offload-bundler", "amdgpu-arch", "ld.lld", "lld", "llc", "opt"),
    *("llvm-ar", "llvm-as", "llvm-dis", "llvm-mc", "llvm-nm", "llvm-objcopy", "llvm-objdump"),
    *("llvm-readelf", "llvm-readobj", "llvm-strip"),
)


def debian_headers(apt: Apt, raw: Path) -> None:
    """Take the missing headers out of Debian's package into the folder ``raw``."""
    unpacked = raw.parent / "deb"
    unpacked.mkdir()
    apt.unpack("libamdhip64-dev", unpacked)
    for name in DEBIAN_HEADERS:
        source = unpacked / "usr" / "include" / "hip" / name
        if source.exists():  # which of them exist depends on the version
            (raw / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, raw / name)
    shutil.rmtree(unpacked)
    if not (raw / "hip_fp16.h").exists():
        raise Failure("the package libamdhip64-dev has no hip/hip_fp16.h")


def hip(raw: Path, out: Path) -> None:
    """``include`` and the version files that clang and build systems look for."""
    include = out / "include"
    shutil.copytree(raw / "hip" / "include", include)
    for source in sorted((raw / "debian").rglob("*.h")):
        target = include / "hip" / source.relative_to(raw / "debian")
        if not target.exists():
            target.write_text(_modernised(source.read_text(encoding="utf-8")), encoding="utf-8")
    for name in ("ck", "ck_tile"):
        (include / name).symlink_to(Path("..", "ck", "include", name))
    version = (include / "hip" / "hip_version.h").read_text(encoding="utf-8")
    numbers = {
        part: re.search(rf"#define HIP_VERSION_{part} (\d+)", version)
        for part in ("MAJOR", "MINOR", "PATCH")
    }
    values = {part: match[1] if match else "0" for part, match in numbers.items()}
    (out / "share" / "hip").mkdir(parents=True)
    (out / "share" / "hip" / "version").write_text(
        "".join(f"HIP_VERSION_{part}={value}\n" for part, value in values.items())
    )
    (out / ".info").mkdir()
    (out / ".info" / "version").write_text(f"{values['MAJOR']}.{values['MINOR']}.0\n")


def _modernised(header: str) -> str:
    """An old header with compiler builtins for two names of the old device library."""
    half = "__builtin_amdgcn_rcph"
    header = header.replace("__llvm_amdgcn_rcp_f16", half)
    return re.sub(
        r"__llvm_amdgcn_rcp_2f16\(([^()]*)\)",
        rf"(__2f16{{{half}((\1).x), {half}((\1).y)}})",
        header,
    )


def bitcode(raw: Path, llvm: Path, out: Path) -> None:
    """``amdgcn/bitcode``: ocml and ockl in this clang's data layout, and the oclc constants."""
    folder = out / "amdgcn" / "bitcode"
    folder.mkdir(parents=True)
    empty = run(
        *(llvm / "clang", "--target=amdgcn-amd-amdhsa", "-nogpulib", "-x", "c"),
        *("-S", "-emit-llvm", "-o", "-", "-"),
        text="",
    )
    found = re.search(r"^target datalayout = .*$", empty, re.MULTILINE)
    if found is None:
        raise Failure(f"{llvm}/clang cannot compile for AMD GPUs")
    layout = found[0]

    def assemble(name: str, text: str) -> None:
        run(llvm / "llvm-as", "-", "-o", folder / f"{name}.bc", text=text)

    def constants(name: str, **values: tuple[str, int]) -> None:
        lines = [layout, 'target triple = "amdgcn-amd-amdhsa"']
        lines += [
            f"@{symbol} = linkonce_odr protected local_unnamed_addr addrspace(4) constant "
            f"{kind} {value}, align {int(kind[1:]) // 8}"
            for symbol, (kind, value) in values.items()
        ]
        assemble(name, "\n".join(lines) + "\n")

    for name in ("ocml", "ockl"):
        text = run(llvm / "llvm-dis", raw / "hip" / "lib" / f"{name}.bc", "-o", "-")
        # Another layout would make every link warn; llvm-dis has upgraded the rest.
        assemble(name, re.sub(r"^target datalayout = .*$", layout, text, flags=re.MULTILINE))
    for name, version in _isa_versions(llvm).items():
        constants(f"oclc_isa_version_{name}", __oclc_ISA_version=("i32", version))
    for version in (400, 500, 600):
        constants(f"oclc_abi_version_{version}", __oclc_ABI_version=("i32", version))
    for state, value in (("off", 0), ("on", 1)):
        constants(
            f"oclc_wavefrontsize64_{state}",
            __oclc_wavefrontsize64=("i8", value),
            __oclc_wavefrontsize_log2=("i8", 5 + value),
        )
        constants(f"oclc_daz_opt_{state}", __oclc_daz_opt=("i8", value))
        constants(f"oclc_unsafe_math_{state}", __oclc_unsafe_math_opt=("i8", value))
        constants(f"oclc_finite_only_{state}", __oclc_finite_only_opt=("i8", value))
        constants(
            f"oclc_correctly_rounded_sqrt_{state}", __oclc_correctly_rounded_sqrt32=("i8", value)
        )
    for name in ("opencl", "hip"):  # clang looks whether they exist
        constants(name)


def _isa_versions(llvm: Path) -> dict[str, int]:
    """Name of the bitcode file -> version, of each processor from gfx900 on that clang knows."""
    listed = run("sh", "-c", f"{llvm}/clang --target=amdgcn-amd-amdhsa --print-supported-cpus 2>&1")
    versions = {}
    for name in re.findall(r"^\s*gfx([0-9a-f]+|[0-9]+(?:-[0-9]+)?-generic)$", listed, re.MULTILINE):
        if name.endswith("-generic"):
            major, minor = [*map(int, name.removesuffix("-generic").split("-")), 0][:2]
            step = 0
        else:  # gfx90a is 9.0.10: the last two characters are hexadecimal digits
            major, minor, step = int(name[:-2]), int(name[-2], 16), int(name[-1], 16)
        if major >= 9:
            versions[name] = major * 1000 + minor * 100 + step
    return versions


def ck(folder: Path) -> None:
    """Complete CK's headers by the two that a CMake build of CK writes.

    Nothing in ck_tile needs one of their values, so every option stays undefined.
    """
    for name in ("config.h", "version.h"):
        target = folder / "include" / "ck" / name
        template = target.with_name(f"{name}.in")
        if target.exists() or not template.exists():
            continue
        text = template.read_text(encoding="utf-8")
        text = re.sub(r"^#cmakedefine +(\w+).*$", r"/* #undef \1 */", text, flags=re.MULTILINE)
        text = re.sub(r"@\w*(?:MAJOR|MINOR)\w*@", "1", text)
        target.write_text(re.sub(r"@\w+@", "0", text), encoding="utf-8")


def commands(llvm: Path, out: Path) -> None:
    """``bin`` and ``llvm``: the compiler driver and LLVM's tools under the names ROCm uses."""
    (out / "bin").mkdir()
    (out / "lib").mkdir()
    (out / "llvm").mkdir()
    (out / "llvm" / "bin").symlink_to(llvm)
    (out / "lib" / "llvm").symlink_to(Path("..", "llvm"))
    for name in _TOOLS:
        if (llvm / name).exists():
            (out / "bin" / name).symlink_to(llvm / name)
    for name in ("hipcc", "hipconfig"):
        script = out / "bin" / name
        script.write_text((HERE / f"{name}.py").read_text(encoding="utf-8"), encoding="utf-8")
        script.chmod(0o755)
