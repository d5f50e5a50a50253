"""What is wrong with the code of a kernel, going by its figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ck_tile_lab import fmha_symbol, pages_symbol
from fmha_keys import fmha_key

from ckdisp.code_objects import KernelReport, check_object
from ckdisp.code_objects.names import variant
from ckdisp.codegen.key import KernelKey
from ckdisp.codegen.make import make_key


def small_key(arch: str, types: tuple[str, str]) -> KernelKey:
    tile = {"tile": (64, 64, 64), "wave": (2, 2, 1), "warp": (16, 16, 16)}
    options = {"pipeline": "compv5", "scheduler": "intrawave", "num_wave_groups": 2}
    return make_key(
        "gemm.standard", arch=arch, dtype_a=types[0], dtype_b=types[1], **tile, **options
    )


def report_of(key: KernelKey, **figures: object) -> KernelReport:
    """The report of the one variant that the key has; what is not given is 0."""
    values = dict.fromkeys(KernelReport.__dataclass_fields__, 0)
    variant = {"hot_loop": True, "tail": "empty", "memory": "set"}
    return KernelReport(**{**values, **variant, "kernel": key.name, "arch": key.arch, **figures})


@pytest.mark.parametrize(
    ("arch", "types", "opcode", "right"),
    [
        ("gfx942", ("fp16", "fp16"), "v_mfma_f32_32x32x8_f16", True),
        ("gfx942", ("fp16", "fp16"), "v_mfma_f32_32x32x8_bf16", False),
        ("gfx90a", ("bf16", "bf16"), "v_mfma_f32_32x32x8bf16_1k", True),
        ("gfx90a", ("fp16", "fp16"), "v_mfma_f32_16x16x16f16", True),
        ("gfx942", ("fp16", "fp16"), "v_mfma_f32_4x4x4_16b_f16", True),
        ("gfx942", ("fp16", "fp16"), "v_mfma_f32_4x4x4_16b_bf16", False),
        ("gfx942", ("bf16", "bf16"), "v_mfma_f32_4x4x4_16b_bf16", True),
        ("gfx90a", ("bf16", "bf16"), "v_mfma_f32_4x4x4bf16_1k", True),
        ("gfx942", ("fp32", "fp32"), "v_mfma_f32_16x16x4_f32", True),
        ("gfx942", ("fp16", "fp16"), "v_mfma_f32_16x16x4_f32", False),
        ("gfx942", ("fp8", "bf8"), "v_mfma_f32_32x32x16_fp8_bf8", True),
        ("gfx942", ("fp8", "bf8"), "v_mfma_f32_32x32x16_fp8_fp8", False),
        ("gfx950", ("bf8", "fp8"), "v_mfma_f32_32x32x64_f8f6f4", True),
        ("gfx90a", ("fp8", "fp8"), "v_mfma_f32_32x32x2f32", True),
        ("gfx942", ("fp8", "fp8"), "v_mfma_f32_32x32x2f32", False),
        ("gfx942", ("int8", "int8"), "v_mfma_i32_32x32x16_i8", True),
        ("gfx1100", ("int8", "int8"), "v_wmma_i32_16x16x16_iu8", True),
        ("gfx1201", ("bf8", "bf8"), "v_wmma_f32_16x16x16_bf8_bf8", True),
    ],
)
def test_matrix_instructions(
    arch: str,
    types: tuple[str, str],
    opcode: str,
    right: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = small_key(arch, types)
    report = report_of(key, matrix={opcode: 4})
    monkeypatch.setattr("ckdisp.code_objects.check.inspect", lambda path: [report])
    file = tmp_path / "kernel.o"
    file.touch()
    kinds = [problem.kind for problem in check_object(file, key)]
    assert kinds == ([] if right else ["matrix"])


@pytest.mark.parametrize(
    ("figures", "texts"),
    [
        ({"sgpr_spills": 30}, []),  # they stay in registers
        ({"vgpr_spills": 1}, ["loop+empty: 1 VGPRs spilled"]),
        ({"scratch_bytes": 64}, ["loop+empty: 64 bytes of scratch memory"]),
    ],
)
def test_what_leaves_the_registers(
    figures: dict[str, int], texts: list[str], tmp_path: Path
) -> None:
    key = small_key("gfx942", ("fp16", "fp16"))
    report = report_of(key, matrix={"v_mfma_f32_16x16x16_f16": 4}, **figures)
    file = tmp_path / "kernel.o"
    file.touch()
    assert [problem.text for problem in check_object(file, key, [report])] == texts


def _attention(key: KernelKey, *variants: int, opcode: str | None = None) -> list[KernelReport]:
    matrix = {opcode: 4} if opcode else {}
    return [report_of(key, hot_loop=None, tail=str(i), matrix=matrix) for i in variants]


@pytest.mark.parametrize(
    ("family", "changes", "count"),
    [
        ("fwd", {}, 1),
        ("splitkv", {}, 2),
        ("splitkv", {"mode": "group"}, 1),
        ("splitkv", {"hdim": 128}, 4),
        ("splitkv", {"hdim": 128, "bias": "alibi"}, 2),
        ("splitkv", {"hdim": 128, "mode": "group"}, 2),
        ("splitkv_combine", {}, 5),
        ("bwd_dot_do_o", {}, 1),
    ],
)
def test_variants_of_attention(
    family: str, changes: dict[str, Any], count: int, tmp_path: Path
) -> None:
    key = fmha_key(family, "gfx942", **changes)
    opcode = "v_mfma_f32_16x16x16_f16" if key.warp[0] else None
    file = tmp_path / "kernel.o"
    file.touch()
    found = _attention(key, *range(count), opcode=opcode)
    assert check_object(file, key, found) == []
    fewer = check_object(file, key, found[1:])
    assert [p.kind for p in fewer] == ["missing"]
    more = _attention(key, *range(count + 1), opcode=opcode)
    (problem,) = check_object(file, key, more)
    assert problem.text == f"unexpected: variant {count}"


@pytest.mark.parametrize(
    ("dtype", "opcode", "right"),
    [
        ("fp8bf16", "v_mfma_f32_32x32x16_fp8_fp8", True),
        ("fp8bf16", "v_mfma_f32_32x32x8_bf16", False),
        ("bf8", "v_mfma_f32_32x32x16_bf8_bf8", True),
        ("fp32", "v_mfma_f32_16x16x4_f32", True),
    ],
)
def test_matrix_instructions_of_attention(
    dtype: str, opcode: str, right: bool, tmp_path: Path
) -> None:
    key = fmha_key("fwd", "gfx942", dtype=dtype)
    file = tmp_path / "kernel.o"
    file.touch()
    kinds = [p.kind for p in check_object(file, key, _attention(key, 0, opcode=opcode))]
    assert kinds == ([] if right else ["matrix"])


def test_names_of_attention_kernels() -> None:
    key = fmha_key("splitkv", "gfx942")
    found = variant(fmha_symbol(key, 3))
    assert found is not None
    assert (found.key, found.hot_loop, found.tail, found.memory) == (key.name, None, "3", "set")


def test_the_kernel_that_copies_a_list_of_pages_is_looked_for(tmp_path: Path) -> None:
    key = fmha_key("batch_prefill", "gfx942")
    copy = variant(pages_symbol(key))
    assert copy is not None
    assert (copy.key, copy.hot_loop, copy.tail, copy.memory) == (key.name, None, None, "pages")
    file = tmp_path / "kernel.o"
    file.touch()
    main = _attention(key, 0, opcode="v_mfma_f32_32x32x8_f16")
    (problem,) = check_object(file, key, main)
    assert problem.text == "no kernel that copies the list of pages"
    # It multiplies nothing.
    pages = report_of(key, hot_loop=None, tail=None, memory="pages", matrix={})
    assert check_object(file, key, [*main, pages]) == []
