"""What the bindings need to know about array frameworks, for the cases that are rare.

The extension reads memory itself; it comes here for element types it has not met and for outputs
of frameworks other than NumPy.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .codegen.enums import DTYPE
from .codegen.errors import InvalidArgument, InvalidKey, suggest

NUMPY = {"fp32": "float32", "fp16": "float16", "int8": "int8", "int32": "int32"}
ML_DTYPES = {"bf16": "bfloat16", "fp8": "float8_e4m3fn", "bf8": "float8_e5m2"}
FNUZ = {"fp8": "float8_e4m3fnuz", "bf8": "float8_e5m2fnuz"}  # on gfx90a and gfx942
_NAMES = {v: k for names in (NUMPY, ML_DTYPES, FNUZ) for k, v in names.items()}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of an element type: ``"bf16"`` is that of ``ml_dtypes.bfloat16``.

    Raises :class:`InvalidArgument` when ``ml_dtypes`` is needed and not installed.
    """
    DTYPE.code(name, "dtype")
    if name in NUMPY:
        return np.dtype(NUMPY[name])
    try:
        import ml_dtypes
    except ImportError:
        raise InvalidArgument(
            f"NumPy arrays of {name} need the package ml_dtypes; install it with "
            "`pip install ml_dtypes`, or ask for out_dtype='fp32'"
        ) from None
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, ML_DTYPES[name]))
    return dtype


def extension_dtype(dtype: np.dtype[Any]) -> str | None:
    """The element type of a dtype of ``ml_dtypes``; None for every other dtype."""
    ml_dtypes = sys.modules.get("ml_dtypes")
    for name, attribute in ML_DTYPES.items():
        if ml_dtypes is not None and dtype.type is getattr(ml_dtypes, attribute):
            return name
    return None


def dtype_name(value: Any) -> str:
    """The element type that ``value`` names: ``"fp16"``, ``np.float16``, ``torch.float16``."""
    if isinstance(value, str) and value in DTYPE:
        return value
    text = value if isinstance(value, str) else str(value)
    name = _NAMES.get(text.rpartition(".")[2])
    if name is None:
        try:
            name = _NAMES.get(np.dtype(value).name)
        except TypeError:
            name = None
    if name is None:
        raise InvalidKey(
            f"unknown dtype {value!r}{suggest(text, DTYPE.values)}; known: "
            f"{', '.join(DTYPE.values)}, and the dtypes of NumPy, ml_dtypes and PyTorch for them"
        )
    return name


def check_no_gradient(name: str) -> None:
    """Refuse a PyTorch tensor that requires a gradient while gradients are recorded."""
    import torch

    if torch.is_grad_enabled():
        raise InvalidArgument(
            f"{name} requires a gradient, which would be lost; pass {name}.detach(), or call "
            "under torch.no_grad()"
        )


def why_unreadable(tensor: Any, name: str) -> str:
    """Why a PyTorch tensor is not plain memory, and what to pass; empty for one that is.

    The text holds for every call: kernels read numbers at an address, by sizes and strides.
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(tensor, torch.Tensor):
        return ""
    if tensor.is_quantized:
        return f"{name} is quantised ({tensor.dtype}); pass {name}.dequantize()"
    if tensor.is_nested:
        return (
            f"{name} is a nested tensor; pass its parts one by one, or padded to one shape; "
            "attention takes sequences one behind the other with cu_seqlens_q and cu_seqlens_k"
        )
    if tensor.layout is not torch.strided:
        return f"{name} is no dense tensor ({tensor.layout}); pass {name}.to_dense()"
    if tensor.device.type == "meta":
        return f"{name} is on the device meta, without memory; pass a tensor of the CPU"
    return ""


def empty_like_kind(
    like: Any, shape: tuple[int, ...], dtype: str, on_device: bool, fnuz: bool
) -> Any:
    """An uninitialised dense tensor of the framework of ``like``.

    It is on the CPU, or ``on_device`` where ``like`` is; ``fnuz`` is the encoding of fp8 there.
    """
    kind: type = type(like)
    if _is_ours(like):
        return _ours().empty(shape, FNUZ.get(dtype, dtype) if fnuz else dtype, like.device)
    element = FNUZ[dtype] if fnuz and dtype in FNUZ else (NUMPY | ML_DTYPES)[dtype]
    if not on_device:
        return _empty(kind, element)(shape, device="cpu")
    try:
        return _empty(kind, element)(shape, device=like.device)
    except (AttributeError, TypeError) as error:
        raise InvalidArgument(
            f"cannot make a result of type {kind.__qualname__} on its device ({error}); pass out="
        ) from None


@functools.cache
def _empty(kind: type, element: str) -> Callable[..., Any]:
    framework = _module_of(kind)
    return functools.partial(framework.empty, dtype=getattr(framework, element))


def channels_second(tensor: Any) -> Any:
    """A view of (N, *spatial, C) as (N, C, *spatial)."""
    order = (0, tensor.ndim - 1, *range(1, tensor.ndim - 1))
    return tensor.permute(order) if hasattr(tensor, "permute") else tensor.transpose(order)


def as_bytes(tensor: Any) -> Any:
    """A view of an int8 tensor as uint8."""
    if isinstance(tensor, np.ndarray) or _is_ours(tensor):
        return tensor.view(np.uint8)
    return tensor.view(_module_of(type(tensor)).uint8)


def copy_of(tensor: Any) -> Any:
    """A dense copy of a tensor, of the same framework."""
    if _is_ours(tensor):
        return tensor.copy()
    return tensor.clone().contiguous() if hasattr(tensor, "clone") else np.array(tensor, order="C")


def framework_stream(tensor: Any, index: int) -> int:
    """The handle of the stream that PyTorch or CuPy works on, or that of ckdisp's own arrays.

    It is the default stream of others.
    ``index`` is the device's in its runtime.
    """
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and isinstance(tensor, torch.Tensor):
        return int(torch.cuda.current_stream(index).cuda_stream)
    if cupy is not None and isinstance(tensor, cupy.ndarray):
        return int(cupy.cuda.get_current_stream(index).ptr)
    if _is_ours(tensor):
        return _ours().current_stream(tensor.device).handle  # type: ignore[no-any-return]
    return 0


def convert_like(like: Any, array: np.ndarray[Any, Any]) -> Any:
    """``array`` as a tensor of the framework of ``like``, without a copy where it can be."""
    framework = _framework(like)
    try:
        return framework.from_dlpack(array)
    except (BufferError, RuntimeError, TypeError, ValueError):
        return framework.asarray(array)  # an element type that NumPy does not export


def _ours() -> Any:
    """The module of ckdisp's own arrays in device memory; None while nobody has used one."""
    return sys.modules.get("ckdisp.device_array")


def _is_ours(tensor: Any) -> bool:
    module = _ours()
    return module is not None and isinstance(tensor, module.DeviceArray)


def _framework(like: Any) -> Any:
    namespace = getattr(like, "__array_namespace__", None)
    return _module_of(type(like)) if namespace is None else namespace()


def _module_of(kind: type) -> Any:
    """The framework that a tensor type belongs to, by where the type was defined."""
    for base in kind.__mro__:  # the type may be a user's own subclass
        module = sys.modules.get(base.__module__.partition(".")[0])
        if hasattr(module, "from_dlpack"):
            return module
    raise InvalidArgument(
        f"cannot make a result of type {kind.__qualname__}: its module has no from_dlpack; "
        "pass out=, or NumPy arrays"
    )
