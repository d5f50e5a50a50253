"""Shuffled weights: the order that the C++ header describes, in C++ and in NumPy."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import numpy as np
import pytest
from naive_kernels import compile_cpp

import ckdisp
from ckdisp.codegen.arch import arch
from ckdisp.codegen.emit.unit import unit_text
from ckdisp.codegen.make import make_key
from ckdisp.codegen.ops.gemm.key import GemmKey
from ckdisp.codegen.providers.ck_tile import CK_TILE
from ckdisp.shuffle import shuffle_b

_TILES = {
    "gfx942": ((128, 128, 64), (1, 4, 1), (16, 16, 32)),  # two repeats: neighbours
    "gfx90a": ((128, 128, 64), (1, 4, 1), (32, 32, 16)),
    "gfx950": ((64, 192, 128), (1, 4, 1), (16, 16, 64)),  # three repeats
    "gfx1100": ((64, 128, 32), (1, 4, 1), (16, 16, 16)),
    "gfx1201": ((64, 128, 64), (1, 4, 1), (16, 16, 32)),
}


def _key(name: str) -> GemmKey:
    tile, wave, warp = _TILES[name]
    key = make_key(
        "gemm.preshuffle", arch=name, tile=tile, wave=wave, warp=warp, pipeline="preshufflev2",
        scheduler="default",
    )  # fmt: skip
    assert isinstance(key, GemmKey)
    return key


def _expected(b: np.ndarray, key: GemmKey) -> np.ndarray:
    """Element by element, by the comment of the header."""
    (_, tile_n, _), (_, waves, _), (_, warp_n, warp_k) = key.tile, key.wave, key.warp
    repeats = tile_n // (waves * warp_n)
    facts = arch(key.arch)
    cdna = facts.wave_size == 64
    groups = 64 // warp_n if cdna else 1 if facts.family == "rdna3" else 2
    outer = warp_k // 16 if facts.family == "rdna4" else 1
    inner = warp_k // groups // outer
    neighbours = cdna and warp_n == 16 and repeats % 2 == 0
    k, n = b.shape
    order = [n // tile_n, repeats, waves, k // warp_k, groups, warp_n, outer, inner]
    values = []
    for tile, repeat, wave, step, group, lane, out, inside in itertools.product(*map(range, order)):
        row = ((step * outer + out) * groups + group) * inner + inside
        if neighbours:
            column = (wave * warp_n + lane) * repeats + repeat
        else:
            column = (repeat * waves + wave) * warp_n + lane
        values.append(b[row, tile * tile_n + column])
    return np.array(values, b.dtype)


@pytest.mark.parametrize("name", _TILES)
def test_numpy_has_the_documented_order(name: str) -> None:
    key = _key(name)
    k, n = 2 * _TILES[name][0][2], 2 * _TILES[name][0][1]
    b = np.arange(k * n, dtype=np.uint16).reshape(k, n)
    shuffled = shuffle_b(b, key)
    assert shuffled.shape == b.shape
    assert np.array_equal(shuffled.T.ravel(), _expected(b, key))


def test_pytorch_agrees_with_numpy() -> None:
    torch = pytest.importorskip("torch")
    key = _key("gfx942")
    b = np.arange(128 * 128, dtype=np.int16).reshape(128, 128)
    shuffled = shuffle_b(torch.from_numpy(b), key)
    assert shuffled.stride() == (1, 128)
    assert np.array_equal(shuffled.numpy(), shuffle_b(b, key))


def test_cpp_agrees_with_numpy(tmp_path: Path) -> None:
    keys = [_key(name) for name in _TILES]
    lines = ["#include <ckdisp/shuffle_b.hpp>", "#include <cstdio>", "#include <vector>"]
    for key in keys:
        text = unit_text(key, key.name, CK_TILE, key.arch)
        start, end = text.index("struct "), text.index("CKDISP_CK_TILE")
        lines.append(text[start:end])
    lines.append("""
template <class Key>
void show(std::int64_t n, std::int64_t k) {
  std::vector<std::uint16_t> b(static_cast<std::size_t>(n * (k + 8))), to(b.size());
  for (std::int64_t i = 0; i < n * k; ++i) b[i / k * (k + 8) + i % k] = i;
  const auto order = ckdisp::shuffled_b(Key::key);
  if (ckdisp::shuffle_b(order, n, k + 1, 2, b.data(), k + 8, to.data())) std::puts("odd");
  if (!ckdisp::shuffle_b(order, n, k, 2, b.data(), k + 8, to.data())) std::puts("refused");
  for (std::int64_t i = 0; i < n * k; ++i) std::printf("%d ", to[static_cast<std::size_t>(i)]);
  std::puts("");
}
int main() {""")
    for key, name in zip(keys, _TILES, strict=True):
        _, n, k = _TILES[name][0]
        lines.append(f"  show<ckdisp_key_{key.name}>({n}, {2 * k});")
    source = tmp_path / "shuffle.cpp"
    source.write_text("\n".join([*lines, "}"]))
    program = compile_cpp(tmp_path, "shuffle", [source], "-std=c++20")
    answers = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    for answer, key, name in zip(answers.splitlines(), keys, _TILES, strict=True):
        _, n, k = _TILES[name][0]
        b = np.arange(n * 2 * k).reshape(n, 2 * k).T.astype(np.uint16)
        found = np.array(answer.split(), np.uint16)
        assert np.array_equal(found, shuffle_b(b, key).T.ravel())


def test_what_cannot_be_shuffled_is_told() -> None:
    key = _key("gfx942")
    with pytest.raises(ckdisp.InvalidArgument, match=r"K is 96, .*append zeros"):
        shuffle_b(np.zeros((96, 128)), key)
    with pytest.raises(ckdisp.InvalidArgument, match="3 dimensions"):
        shuffle_b(np.zeros((1, 96, 128)), key)
    with pytest.raises(ckdisp.InvalidArgument, match="B is a list, which cannot be reordered"):
        shuffle_b([[1.0]], key)
    with pytest.raises(ckdisp.InvalidArgument, match="reads B as it is"):
        shuffle_b(np.zeros((64, 128)), make_key("gemm.standard", arch="gfx942"))
