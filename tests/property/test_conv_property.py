"""Laws of grouped convolution, on random sizes: the reference against PyTorch and itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckdisp.reference import conv_bwd_data, conv_bwd_weight, conv_fwd

torch = pytest.importorskip("torch", reason="the reference is compared with PyTorch's convolution")


@dataclass(frozen=True)
class Case:
    """One convolution."""

    x: np.ndarray
    w: np.ndarray
    how: dict

    @property
    def y(self):
        return conv_fwd(self.x, self.w, **self.how)

    def gradient(self, seed=5):
        return np.random.default_rng(seed).standard_normal(self.y.shape)


@st.composite
def cases(draw):
    rank = draw(st.integers(1, 3))
    groups = draw(st.integers(1, 3))
    channels, filters = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    size = st.integers(1, 3)
    taps = [draw(size) for _ in range(rank)]
    dilation = [draw(size) for _ in range(rank)]
    stride = [draw(size) for _ in range(rank)]
    pads = [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in range(rank)]
    spans = [d * (t - 1) + 1 for d, t in zip(dilation, taps, strict=True)]
    spatial = [
        max(1, span - low - high) + draw(st.integers(0, 4))
        for span, (low, high) in zip(spans, pads, strict=True)
    ]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    return Case(
        rng.standard_normal((draw(st.integers(0, 3)), groups * channels, *spatial)),
        rng.standard_normal((groups * filters, channels, *taps)),
        {"stride": stride, "padding": pads, "dilation": dilation, "groups": groups},
    )


def with_torch(case, dy):
    """Output and gradients by PyTorch, which pads symmetrically: the input is padded before."""
    x = torch.tensor(case.x, requires_grad=True)
    w = torch.tensor(case.w, requires_grad=True)
    pads = [p for pair in reversed(case.how["padding"]) for p in pair]
    convolve = (torch.conv1d, torch.conv2d, torch.conv3d)[x.ndim - 3]
    options = {name: case.how[name] for name in ("stride", "dilation", "groups")}
    y = convolve(torch.nn.functional.pad(x, pads), w, **options)
    y.backward(torch.tensor(dy))
    return y.detach().numpy(), x.grad.numpy(), w.grad.numpy()


@settings(deadline=None)
@given(cases())
def test_the_reference_is_pytorchs_convolution(case):
    dy = case.gradient()
    y, dx, dw = with_torch(case, dy)
    close = {"rtol": 1e-10, "atol": 1e-10}
    np.testing.assert_allclose(case.y, y, **close)
    ours = conv_bwd_data(dy, case.w, input_shape=case.x.shape, **case.how)
    np.testing.assert_allclose(ours, dx, **close)
    ours = conv_bwd_weight(case.x, dy, weight_shape=case.w.shape, **case.how)
    np.testing.assert_allclose(ours, dw, **close)


@settings(deadline=None)
@given(cases())
def test_the_gradients_are_adjoint(case):
    """<dy, conv(x, w)> = <bwd_data(dy, w), x> = <bwd_weight(x, dy), w>."""
    dy = case.gradient()
    product = np.vdot(dy, case.y)
    dx = conv_bwd_data(dy, case.w, input_shape=case.x.shape, **case.how)
    dw = conv_bwd_weight(case.x, dy, weight_shape=case.w.shape, **case.how)
    assert np.vdot(dx, case.x) == pytest.approx(product, rel=1e-9, abs=1e-9)
    assert np.vdot(dw, case.w) == pytest.approx(product, rel=1e-9, abs=1e-9)
