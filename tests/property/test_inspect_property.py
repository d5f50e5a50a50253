"""Damaged files with AMD code give an InspectError or sound figures; never a crash or a hang."""

from __future__ import annotations

from pathlib import Path

import pytest
from amd_files import archive, bundle, code_object, compress, host_object, kernel
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ckdisp
from ckdisp.code_objects import InspectError

_CODE = code_object(kernel(), kernel(name="_ZN7ck_tile6kentryILi1EEEvv", vgpr_count=255))
_BUNDLE = bundle(gfx942=_CODE, gfx1100=code_object(kernel(), target="gfx1100"))
FILES = {
    "code": _CODE,
    "bundle": _BUNDLE,
    "compressed": compress(_BUNDLE, 3),
    "object": host_object(_BUNDLE, compress(_BUNDLE, 2)),
    "archive": archive(one=host_object(_BUNDLE), two=host_object()),
}
_SETTINGS = settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def survives(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    try:
        reports = ckdisp.inspect(file, disassemble=False)
    except InspectError as error:
        assert str(file) in str(error)
    else:
        for report in reports:
            report.to_dict()


@pytest.mark.parametrize("form", FILES)
@_SETTINGS
@given(data=st.data())
def test_truncated(tmp_path: Path, form: str, data: st.DataObject) -> None:
    content = FILES[form]
    survives(tmp_path / "file", content[: data.draw(st.integers(0, len(content) - 1))])


@pytest.mark.parametrize("form", FILES)
@_SETTINGS
@given(data=st.data())
def test_flipped_bits(tmp_path: Path, form: str, data: st.DataObject) -> None:
    content = bytearray(FILES[form])
    positions = st.integers(0, 8 * len(content) - 1)
    for bit in data.draw(st.lists(positions, min_size=1, max_size=4)):
        content[bit // 8] ^= 1 << bit % 8
    survives(tmp_path / "file", bytes(content))


@pytest.mark.parametrize("form", FILES)
@_SETTINGS
@given(data=st.data())
def test_overwritten_words(tmp_path: Path, form: str, data: st.DataObject) -> None:
    """Whole words of all ones or large numbers, as sizes and offsets."""
    content = bytearray(FILES[form])
    at = data.draw(st.integers(0, len(content) // 4 - 2)) * 4
    word = data.draw(st.sampled_from([2**64 - 1, 2**63, 2**32 - 1, len(content), 1]))
    content[at : at + 8] = word.to_bytes(8, "little")
    survives(tmp_path / "file", bytes(content))
