"""The attention of ``ckdisp.reference``: PyTorch's, finite differences, known random numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import ckdisp
from ckdisp.reference import attention_bwd, attention_fwd
from ckdisp.reference.philox import dropout_bytes, philox4x32


def tensors(*shapes: tuple[int, ...], seed: int = 0) -> list[Any]:
    draw = np.random.default_rng(seed)
    return [draw.standard_normal(shape) for shape in shapes]


def small(heads_k: int = 2, sq: int = 5, sk: int = 7) -> list[Any]:
    return tensors((2, 4, sq, 3), (2, heads_k, sk, 3), (2, heads_k, sk, 2))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads_k", [1, 2, 4])
def test_forward_is_pytorchs(causal: bool, heads_k: int) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is what it is compared with")
    q, k, v = tensors((2, 4, 9, 8), (2, heads_k, 9, 8), (2, heads_k, 9, 5))
    wanted = torch.nn.functional.scaled_dot_product_attention(
        *map(torch.from_numpy, (q, k, v)), is_causal=causal, enable_gqa=True, scale=0.3
    )
    found = attention_fwd(q, k, v, mask="top_left" if causal else "no", scale=0.3)
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-12, atol=1e-12)


def test_a_bias_is_pytorchs() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is what it is compared with")
    q, k, v = tensors((2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 8))
    (bias,) = tensors((3, 4, 6), seed=1)
    inputs = [torch.from_numpy(x).requires_grad_() for x in (q, k, v)]
    wanted = torch.nn.functional.scaled_dot_product_attention(
        *inputs, attn_mask=torch.from_numpy(bias)
    )
    np.testing.assert_allclose(
        attention_fwd(q, k, v, bias=bias), wanted.detach().numpy(), atol=1e-12
    )
    (do,) = tensors((2, 3, 4, 8), seed=2)
    wanted.backward(torch.from_numpy(do))
    for found, tensor in zip(attention_bwd(do, q, k, v, bias=bias), inputs, strict=True):
        np.testing.assert_allclose(found, tensor.grad.numpy(), atol=1e-12)


CASES: list[Mapping[str, Any]] = [
    {},
    {"mask": "top_left"},
    {"mask": "bottom_right", "sink": 1},
    {"mask": "generic", "window": (2, 1), "scale": -0.7},
    {"mask": "top_left", "window": (1, 0)},
    {"logits_soft_cap": 0.8},
    {"logits_soft_cap": 0.8, "mask": "top_left", "window": (1, 0), "sink": 2, "scale": 1.5},
    {"alibi_slopes": np.array([0.5, 0.25, 1.0, 2.0]), "mask": "bottom_right"},
    {"dropout_p": 0.4, "seed": 2**40 + 7, "offset": 3},
    {"dropout_p": 0.2, "seed": 5, "mask": "bottom_right", "logits_soft_cap": 2.0},
]


@pytest.mark.parametrize("how", CASES, ids=str)
def test_gradients_are_finite_differences(how: Mapping[str, Any]) -> None:
    inputs = small()
    (do,) = tensors((2, 4, 5, 2), seed=1)
    gradients = attention_bwd(do, *inputs, **how)
    for which, gradient in enumerate(gradients):
        for place in [(0, 0, 0, 0), (1, 1, 4, 1), (0, 1, 2, 0), (1, 0, 3, 1)]:
            moved = []
            for step in (1e-6, -1e-6):
                shifted = [x.copy() for x in inputs]
                shifted[which][place] += step
                moved.append(np.sum(do * attention_fwd(*shifted, **how)))
            assert gradient[place] == pytest.approx((moved[0] - moved[1]) / 2e-6, abs=2e-8)


def test_the_gradient_of_the_bias() -> None:
    inputs = small()
    bias, do = tensors((2, 4, 5, 7), (2, 4, 5, 2), seed=1)
    dbias = attention_bwd(do, *inputs, bias=bias, return_dbias=True)[3]
    for place in [(0, 0, 0, 0), (1, 3, 4, 6)]:
        step = np.zeros_like(bias)
        step[place] = 1e-6
        up, down = (np.sum(do * attention_fwd(*inputs, bias=bias + s)) for s in (step, -step))
        assert dbias[place] == pytest.approx((up - down) / 2e-6, abs=2e-8)


@pytest.mark.parametrize("extra", ["alibi_slopes", "logits_soft_cap", "bias"])
def test_gradients_of_many_lengths_are_finite_differences(extra: str) -> None:
    """Sequences of no queries, no keys, and one query."""
    inputs = tensors((2, 8, 3), (1, 9, 3), (1, 9, 2), (2, 8, 4))
    (do,) = tensors((2, 8, 2), seed=1)
    values: dict[str, Any] = {"alibi_slopes": np.array([1.0, 2.0]), "logits_soft_cap": 1.2}
    how: dict[str, Any] = {"cu_seqlens_q": [0, 3, 3, 5, 8], "cu_seqlens_k": [0, 3, 5, 5, 9]}
    how |= {"mask": "bottom_right", "window": (2, 0), "sink": 1, "dropout_p": 0.3, "seed": 9}
    if extra != "bias":
        how[extra] = values[extra]

    def attention(q: Any, k: Any, v: Any, bias: Any) -> Any:
        return attention_fwd(q, k, v, **how, **({"bias": bias} if extra == "bias" else {}))

    bias = {"bias": inputs[3], "return_dbias": True} if extra == "bias" else {}
    gradients = attention_bwd(do, *inputs[:3], **how, **bias)
    for which, gradient in enumerate(gradients):
        moved = np.zeros_like(gradient)
        for place in np.ndindex(gradient.shape):
            sides = []
            for step in (1e-6, -1e-6):
                shifted = [x.copy() for x in inputs]
                shifted[which][place] += step
                sides.append(np.sum(do * attention(*shifted)))
            moved[place] = (sides[0] - sides[1]) / 2e-6
        np.testing.assert_allclose(gradient, moved, atol=3e-8)


def test_a_validator_of_results_and_sums() -> None:
    q, k, v = small(sq=5, sk=3)
    o, lse = attention_fwd(q, k, v, mask="bottom_right", return_lse=True)
    found = ckdisp.Validator().check(lse.astype(np.float32), lse)
    assert found and found.max_abs < 1e-6 and np.isneginf(lse).any()
    wrong = lse.copy()
    wrong[0, 0, 0] = -1e30
    found = ckdisp.Validator().check(wrong, lse)
    assert not found and found.mismatches == 1 and found.worst == (0, 0, 0)
    v[1, 1, 2, 0] = np.nan
    broken = attention_fwd(q, k, v, mask="bottom_right")
    found = ckdisp.Validator().check(broken, o)
    # One number of the last query of two heads: the one that sees the last key.
    assert found.mismatches == np.isnan(broken).sum() == 2 and "2 of 80 elements differ" in str(
        found
    )
    assert ckdisp.Validator().check(broken, broken)


def test_lse_is_the_logarithm_of_the_sum() -> None:
    q, k, v = small(4)
    _, lse = attention_fwd(q, k, v, return_lse=True, scale=0.5)
    wanted = np.log(np.exp(0.5 * q @ k.swapaxes(2, 3)).sum(-1))
    np.testing.assert_allclose(lse, wanted, rtol=1e-12)


def test_rows_that_see_nothing() -> None:
    q, k, v = small(sq=5, sk=3)
    o, lse = attention_fwd(q, k, v, mask="bottom_right", return_lse=True)
    assert np.all(o[:, :, :2] == 0) and np.all(lse[:, :, :2] == -np.inf)
    assert np.all(np.isfinite(lse[:, :, 2:]))
    for gradient in attention_bwd(np.ones_like(o), q, k, v, mask="bottom_right"):
        assert np.all(np.isfinite(gradient))


def test_large_scores_do_not_overflow() -> None:
    q, k, v = small()
    o = attention_fwd(1e4 * q, 1e4 * k, v)
    assert np.all(np.isfinite(o)) and np.abs(o).max() <= np.abs(v).max()


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_many_lengths_are_sequences_on_their_own(layout: str) -> None:
    starts_q, starts_k = [0, 3, 3, 4, 9], [0, 2, 6, 6, 10]
    q, k, v, do = tensors((4, 9, 3), (2, 10, 3), (2, 10, 2), (4, 9, 2))
    packed = [x.swapaxes(0, 1) if layout == "bshd" else x for x in (q, k, v, do)]
    how: dict[str, Any] = {"layout": layout, "mask": "bottom_right"}
    how |= {"cu_seqlens_q": starts_q, "cu_seqlens_k": np.array(starts_k, np.int32)}
    found = [*attention_fwd(*packed[:3], return_lse=True, **how)]
    found += attention_bwd(packed[3], *packed[:3], **how)
    if layout == "bshd":
        found = [x if i == 1 else x.swapaxes(0, 1) for i, x in enumerate(found)]
    for b in range(4):
        rows, columns = (slice(s[b], s[b + 1]) for s in (starts_q, starts_k))
        alone = (q[None, :, rows], k[None, :, columns], v[None, :, columns])
        o, lse = attention_fwd(*alone, mask="bottom_right", return_lse=True)
        gradients = attention_bwd(do[None, :, rows], *alone, mask="bottom_right")
        wanted = [o, lse, *gradients]
        for x, y, part in zip(found, wanted, (rows, rows, rows, columns, columns), strict=True):
            np.testing.assert_allclose(x[:, part], y[0], atol=1e-14)


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ([0] * 4, (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ([2**32 - 1] * 4, (2**32 - 1,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            (0xA4093822, 0x299F31D0),
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_philox_of_its_authors(counter: list[int], key: tuple[int, int], words: str) -> None:
    """The known answers that Random123 is published with."""
    found = philox4x32(np.array(counter, np.uint64), key)
    assert " ".join(f"{int(word):08x}" for word in found) == words


def test_dropout_bytes_depend_on_their_place_alone() -> None:
    whole = dropout_bytes(7, 9, 3, 20, 50)
    np.testing.assert_array_equal(dropout_bytes(7, 9, 3, 5, 33), whole[:5, :33])
    assert np.any(dropout_bytes(7, 9, 4, 20, 50) != whole)
    assert np.any(dropout_bytes(8, 9, 3, 20, 50) != whole)
    assert 100 < dropout_bytes(1, 0, 0, 64, 64).mean() < 155


def test_dropout_keeps_its_share_and_the_mean() -> None:
    q, k = np.zeros((1, 1, 400, 1)), np.zeros((1, 1, 400, 1))
    o = attention_fwd(q, k, np.ones((1, 1, 400, 1)), dropout_p=0.25, seed=3)
    assert o.mean() == pytest.approx(1, abs=0.01)
    assert np.any(attention_fwd(q, k, np.ones((1, 1, 400, 1)), dropout_p=0.25, seed=4) != o)


BAD: list[tuple[Mapping[str, Any], str]] = [
    ({"mask": "causal"}, "unknown mask 'causal'"),
    ({"mask": "generic"}, "needs window"),
    ({"window": (-2, 0)}, "window is (-2, 0)"),
    ({"window": (1,)}, "window is (1,); pass (left, right)"),
    ({"sink": -1}, "sink is -1"),
    ({"scale": math.nan}, "scale is nan"),
    ({"dropout_p": 1.0}, "dropout_p is 1.0"),
    ({"dropout_p": -0.1}, "dropout_p is -0.1"),
    ({"logits_soft_cap": -1.0}, "logits_soft_cap is -1.0"),
    ({"logits_soft_cap": 1.0, "bias": np.zeros((5, 7))}, "exclude each other"),
    ({"alibi_slopes": np.zeros(4), "bias": np.zeros((5, 7))}, "exclude each other"),
    ({"bias": np.zeros((5, 6))}, "bias has shape (5, 6), which does not broadcast"),
    ({"alibi_slopes": np.zeros(3)}, "alibi_slopes has shape (3,)"),
    ({"layout": "sbhd"}, "unknown layout 'sbhd'"),
    ({"cu_seqlens_q": [0, 5]}, "q has shape (2, 4, 5, 3); pass (heads, rows, size)"),
    ({"cu_seqlens_k": [0, 7]}, "pass both of cu_seqlens_q and cu_seqlens_k"),
]


@pytest.mark.parametrize(("how", "words"), BAD, ids=lambda value: str(value)[:40])
def test_bad_arguments(how: Mapping[str, Any], words: str) -> None:
    with pytest.raises(ckdisp.InvalidArgument) as caught:
        attention_fwd(*small(), **how)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        (((2, 4, 5), (2, 4, 5, 3), (2, 4, 5, 3)), "pass (batch, heads, rows, size)"),
        (((2, 4, 5, 3), (1, 4, 5, 3), (1, 4, 5, 3)), "must agree"),
        (((2, 4, 5, 3), (2, 4, 5, 3), (2, 4, 6, 3)), "must agree"),
        (((2, 4, 5, 3), (2, 4, 5, 4), (2, 4, 5, 3)), "head dimension 3 and k 4"),
        (((2, 4, 5, 3), (2, 3, 5, 3), (2, 3, 5, 3)), "4 heads and k 3"),
    ],
)
def test_bad_shapes(shapes: tuple[tuple[int, ...], ...], words: str) -> None:
    with pytest.raises(ckdisp.InvalidArgument) as caught:
        attention_fwd(*(np.zeros(shape) for shape in shapes))
    assert words in str(caught.value)


@pytest.mark.parametrize("starts", [[1, 3], [0, 4, 2], [0, 99], []])
def test_bad_starts(starts: list[int]) -> None:
    q, k, v = tensors((2, 4, 3), (2, 4, 3), (2, 4, 3))
    with pytest.raises(ckdisp.InvalidArgument) as caught:
        attention_fwd(q, k, v, cu_seqlens_q=starts, cu_seqlens_k=[0, 4])
    assert "cu_seqlens_q is" in str(caught.value) and "rising" in str(caught.value)


def test_a_wrong_gradient() -> None:
    with pytest.raises(ckdisp.InvalidArgument) as caught:
        attention_bwd(np.zeros((2, 4, 5, 3)), *small())
    assert "do has shape (2, 4, 5, 3), not (2, 4, 5, 2)" in str(caught.value)


def test_a_bias_of_minus_infinity_hides_keys_as_a_mask_does() -> None:
    q, k, v = small()
    (do,) = tensors((2, 4, 5, 2), seed=1)
    bias = np.where(np.arange(7) < 4, 0.0, -np.inf)[None, None, None]
    want = attention_fwd(q, k[:, :, :4], v[:, :, :4], return_lse=True)
    gradients = attention_bwd(do, q, k[:, :, :4], v[:, :, :4])
    k[:, :, 4:] = v[:, :, 5:] = np.nan
    for found, wanted in zip(attention_fwd(q, k, v, bias=bias, return_lse=True), want, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-12)
    for found, wanted in zip(attention_bwd(do, q, k, v, bias=bias), gradients, strict=True):
        hidden = found[:, :, wanted.shape[2] :]
        np.testing.assert_allclose(found[:, :, : wanted.shape[2]], wanted, atol=1e-12)
        assert not hidden.any()
