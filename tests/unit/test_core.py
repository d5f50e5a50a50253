"""The compiled runtime and the Python schema agree; the stubs of the extension are complete."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import ckdisp
from ckdisp import _core
from ckdisp.codegen.arch import arches
from ckdisp.codegen.emit.cpp_view import all_enums, schema_hash
from ckdisp.codegen.ops import key_classes
from ckdisp.codegen.schema import fields_of
from ckdisp.codegen.version import ABI_VERSION

STUB = Path(ckdisp.__file__).with_name("_core.pyi")


def test_enumerations_agree() -> None:
    assert _core.enums() == {e.cpp: e.values for e in all_enums()}
    assert _core.schema_hash() == schema_hash()
    assert _core.abi_version == ABI_VERSION


def test_key_fields_agree() -> None:
    assert _core.key_fields() == {c.op: [f.name for f in fields_of(c)] for c in key_classes()}


def test_arch_tables_agree() -> None:
    assert _core.arches() == [
        {
            "name": a.name,
            "gpu": a.is_gpu,
            "device_kind": a.device_kind,
            "family": a.family,
            "wave_size": a.wave_size,
            "lds_bytes": a.lds_bytes,
            "vector_bytes": a.vector_bytes,
            "vector_registers": a.vector_registers,
            "features": a.features,
            "implies": tuple(n for n in arches() if n in a.implies),
        }
        for a in arches().values()
    ]


def public(names: list[str]) -> set[str]:
    special = {"__len__", "__eq__", "__hash__", "__repr__"}
    return {n for n in names if not n.startswith("_") or n in special}


def members(tree: ast.Module | ast.ClassDef) -> dict[str, ast.stmt]:
    found: dict[str, ast.stmt] = {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = node
    return found


def test_stubs_are_complete() -> None:
    stub = members(ast.parse(STUB.read_text()))
    assert isinstance(_core, ModuleType)
    assert set(stub) == public([n for n in vars(_core) if n != "__builtins__"])
    for name, node in stub.items():
        if isinstance(node, ast.ClassDef):
            actual = {n for n in vars(getattr(_core, name)) if not inspect.ismodule(n)}
            assert public(list(members(node))) == public(list(actual)), name


def test_host_arches_end_with_what_runs_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CKDISP_CPU_LEVEL", raising=False)
    here = ckdisp.host_arches()
    assert here[-1] == "generic"
    monkeypatch.setenv("CKDISP_CPU_LEVEL", "generic")
    assert ckdisp.host_arches() == ["generic"]
    monkeypatch.setenv("CKDISP_CPU_LEVEL", "gfx942")
    with pytest.raises(ckdisp.InvalidArgument, match=r"CKDISP_CPU_LEVEL='gfx942'.*generic"):
        ckdisp.host_arches()


_SMALL_STACK = """
import ctypes

class Stack(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]

room = ctypes.create_string_buffer(8192)
stack = Stack(ctypes.cast(room, ctypes.c_void_p), 0, len(room))
assert ctypes.CDLL(None).sigaltstack(ctypes.byref(stack), None) == 0
import ckdisp
print(*ckdisp.host_arches())
"""


def test_a_process_that_linux_gives_no_tiles_has_the_other_levels() -> None:
    """A signal stack that could not hold tiles forbids them."""
    found = subprocess.run([sys.executable, "-c", _SMALL_STACK], capture_output=True, text=True)
    assert found.stdout.split() == [a for a in ckdisp.host_arches() if a != "x86-64-v4-amx"]


def test_every_public_name_resolves() -> None:
    for name in ckdisp.__all__:
        assert getattr(ckdisp, name) is not None
    assert set(ckdisp.__all__) <= set(dir(ckdisp))
    with pytest.raises(AttributeError, match="no attribute 'Dispatch'"):
        _ = ckdisp.Dispatch
