"""Figures of compiled kernels against those that are known, by kernel and variant."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import amd

from ckdisp.code_objects import KernelReport
from ckdisp.code_objects.check import variant_text

Figures = dict[str, dict[str, dict[str, object]]]
_GOLDEN = Path(__file__).parent / "golden"


def figures_of(reports: Iterable[KernelReport]) -> Figures:
    """The figures of the kernels of keys among ``reports``."""
    found: Figures = {}
    for report in reports:
        if report.kernel is not None:
            found.setdefault(report.kernel, {})[variant_text(report)] = _summary(report)
    return {name: dict(sorted(variants.items())) for name, variants in sorted(found.items())}


def check_figures(file: str, figures: Figures, whole: bool = True) -> None:
    """Assert that ``figures`` are those in a golden file, or write them where that is asked for.

    If not ``whole``, the file has other kernels too, which stay, and need not have all of these.
    """
    version = amd.toolchain().version
    path = _GOLDEN / file
    if os.environ.get("CKDISP_UPDATE_GOLDEN"):
        kept = {} if whole or not path.exists() else json.loads(path.read_text())["kernels"]
        made = {"compiler": version, "kernels": dict(sorted((kept | figures).items()))}
        path.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    golden = json.loads(path.read_text(encoding="utf-8"))
    known: Mapping[str, Mapping[str, Mapping[str, object]]] = golden["kernels"]
    if not whole:
        figures = {name: variants for name, variants in figures.items() if name in known}
    assert not whole or list(figures) == list(known)
    for name, variants in figures.items():
        assert list(variants) == list(known[name]), name
        for variant, found in variants.items():
            wanted = known[name][variant]
            # LDS and arguments follow from the key alone, the rest also from the compiler.
            same = ("lds", "arguments") if golden["compiler"] != version else tuple(wanted)
            assert {f: found[f] for f in same} == {f: wanted[f] for f in same}, (name, variant)


def known_kernels(file: str) -> set[str]:
    """The kernels of a golden file."""
    return set(json.loads((_GOLDEN / file).read_text(encoding="utf-8"))["kernels"])


def _summary(report: KernelReport) -> dict[str, object]:
    return {
        "vgpr": report.vgpr,
        "agpr": report.agpr,
        "sgpr": report.sgpr,
        "lds": report.lds_bytes,
        "scratch": report.scratch_bytes,
        "arguments": report.argument_bytes,
        "matrix": report.matrix,
    }
