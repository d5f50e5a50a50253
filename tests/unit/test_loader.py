"""Kernel libraries that load, and all those that must be refused before they are mapped."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from naive_kernels import compile_cpp, compile_library

import ckdisp
from ckdisp.codegen.version import ABI_VERSION

pytestmark = pytest.mark.xdist_group("naive")


def test_loads(naive_library: Path) -> None:
    registry = ckdisp.Registry.load(naive_library)
    kernel = registry["naive_fp32_fp32_rrr_add_d1c"]
    assert registry.name == "naive"
    assert kernel.library.path == str(naive_library.resolve())
    assert kernel.library.build_info == '{"made": "by hand"}'
    assert (kernel.op, kernel.family, kernel.arch) == ("gemm", "gemm.multi_d", "generic")
    assert kernel.key.layout_d == "c"
    assert kernel.field("tile") == "1x1x1"


def test_loading_again_gives_the_same_kernels(naive_library: Path) -> None:
    link = naive_library.with_name("link.so")
    link.symlink_to(naive_library)
    assert list(ckdisp.Registry.load(naive_library)) == list(ckdisp.Registry.load(link))


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ckdisp.LibraryError, match=r"no\.so' does not exist.*ckdisp build"):
        ckdisp.Registry.load(tmp_path / "no.so")


def test_folder(tmp_path: Path) -> None:
    with pytest.raises(ckdisp.LibraryError, match="is not a file"):
        ckdisp.Registry.load(tmp_path)


def test_unreadable_path(naive_library: Path) -> None:
    with pytest.raises(ckdisp.LibraryError, match="cannot be read: Not a directory"):
        ckdisp.Registry.load(naive_library / "inside.so")


def test_text_file(tmp_path: Path) -> None:
    path = tmp_path / "text.so"
    path.write_text("not a library, but long enough to hold a header of an ELF file, or so")
    with pytest.raises(ckdisp.LibraryError, match="no ELF header"):
        ckdisp.Registry.load(path)


@pytest.mark.parametrize("share", [0.0, 0.0005, 0.003, 0.1, 0.5, 0.9, 0.999])
def test_truncated_file(naive_library: Path, tmp_path: Path, share: float) -> None:
    data = naive_library.read_bytes()
    path = tmp_path / "short.so"
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ckdisp.LibraryError, match=r"is truncated|no ELF header"):
        ckdisp.Registry.load(path)


def test_another_machine(naive_library: Path, tmp_path: Path) -> None:
    data = bytearray(naive_library.read_bytes())
    data[18:20] = (0x5A5A).to_bytes(2, "little")
    path = tmp_path / "other.so"
    path.write_bytes(data)
    with pytest.raises(ckdisp.LibraryError, match="another machine"):
        ckdisp.Registry.load(path)


def test_another_kind_of_elf_file(tmp_path: Path) -> None:
    source = tmp_path / "f.cpp"
    source.write_text("int f() { return 1; }\n")
    path = compile_cpp(tmp_path, "f.o", [source], "-c")
    with pytest.raises(ckdisp.LibraryError, match="another kind of ELF file"):
        ckdisp.Registry.load(path)


def test_library_without_kernels(tmp_path: Path) -> None:
    source = tmp_path / "f.cpp"
    source.write_text("int f() { return 1; }\n")
    path = compile_cpp(tmp_path, "f.so", [source], "-shared", "-fPIC")
    with pytest.raises(ckdisp.LibraryError, match=r"exports no ckdisp_kernel_library\(\)"):
        ckdisp.Registry.load(path)


def test_library_that_misses_a_symbol(tmp_path: Path) -> None:
    source = tmp_path / "f.cpp"
    source.write_text("int missing_one(); int f() { return missing_one(); }\n")
    path = compile_cpp(tmp_path, "f.so", [source], "-shared", "-fPIC")
    with pytest.raises(ckdisp.LibraryError, match=r"cannot be loaded: .*missing_one"):
        ckdisp.Registry.load(path)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("-DNAIVE_ABI=99", f"binary interface 99, this ckdisp has {ABI_VERSION}; rebuild"),
        ("-DNAIVE_SCHEMA=1", "another schema of kernel keys"),
        ("-DNAIVE_MAGIC=77", "magic 0x4d"),
    ],
)
def test_another_version(tmp_path: Path, option: str, text: str) -> None:
    path = compile_library(tmp_path, "libnaive.so", option)
    with pytest.raises(ckdisp.LibraryError, match=text):
        ckdisp.Registry.load(path)


def test_a_replaced_file_is_loaded_anew(naive_library: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(naive_library, tmp_path / "lib.so"))
    before = list(ckdisp.Registry.load(path))
    new = Path(shutil.copy(naive_library, tmp_path / "new.so"))
    new.rename(path)
    after = list(ckdisp.Registry.load(path))
    assert [k.name for k in after] == [k.name for k in before]
    assert not set(after) & set(before)


def test_a_file_overwritten_in_place_is_refused(naive_library: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(naive_library, tmp_path / "lib.so"))
    ckdisp.Registry.load(path)
    os.utime(path, ns=(0, 0))
    with pytest.raises(ckdisp.LibraryError, match="overwritten in place"):
        ckdisp.Registry.load(path)


def test_pipe_without_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.so")
    with pytest.raises(ckdisp.LibraryError, match="is not a file"):
        ckdisp.Registry.load(tmp_path / "pipe.so")
