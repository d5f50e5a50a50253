"""Arrays in the memory of a GPU, for those who have NumPy and no framework."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import EllipsisType
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from . import _core
from .codegen.errors import InvalidArgument
from .elements import Element, element_of, element_of_code
from .gpu import DeviceLike, device_of
from .streams import Stream, current_stream, order, stream_of

_CPU = 1  # kDLCPU
_TYPES = {"hip": 10, "cuda": 2}  # kDLROCM, kDLCUDA
_HOSTS = (_CPU, 3, 11)  # and pinned memory

Index = SupportsIndex | slice | EllipsisType | None


class _Storage:
    """Memory that arrays share, and the stream whose work was the last to use it."""

    __slots__ = ("address", "device", "owner", "stream")

    def __init__(self, owner: Any, address: int, device: int, stream: Stream) -> None:
        self.owner = owner
        self.address = address
        self.device = device
        self.stream = stream

    def use_on(self, stream: Stream) -> None:
        """Later work of ``stream`` may use the memory."""
        order(self.stream, stream)
        self.stream = stream


class DeviceArray:
    """An array in the memory of a GPU; :func:`to_device`, :func:`empty`, :func:`zeros` make one.

    Dispatchers take and return it, frameworks read it through DLPack. Indexing by numbers and
    slices, ``T``, :meth:`transpose`, :meth:`reshape` and :meth:`view` give views that share its
    memory. ``shape`` and ``strides`` (in bytes) are NumPy's. The memory is freed with the last
    array that shares it, after waiting for work that uses it.
    """

    __slots__ = ("__weakref__", "_address", "_element", "_shape", "_storage", "_strides")
    __array_priority__ = 1000

    def __init__(
        self,
        storage: _Storage,
        address: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        element: Element,
    ) -> None:
        self._storage = storage
        self._address = address
        self._shape = shape
        self._strides = strides
        self._element = element

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next, for each dimension."""
        return self._strides

    @property
    def ndim(self) -> int:
        return len(self._shape)

    @property
    def size(self) -> int:
        return _count(self._shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's; unsigned integers for bf16 and fp8 where ml_dtypes is not installed."""
        return self._element.dtype

    @property
    def dtype_name(self) -> str:
        """The element type, also without ml_dtypes: ``"bfloat16"``, ``"float8_e4m3fn"``."""
        return self._element.name

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def device(self) -> _core.Device:
        return device_of(self._storage.device)

    @property
    def address(self) -> int:
        """Of the first element, in the memory of the device."""
        return self._address

    @property
    def T(self) -> DeviceArray:
        return self.transpose()

    def transpose(self, *axes: Any) -> DeviceArray:
        """A view with permuted dimensions, as in NumPy."""
        return self._derived(lambda form: form.transpose(*axes))

    def swapaxes(self, first: int, second: int) -> DeviceArray:
        return self._derived(lambda form: form.swapaxes(first, second))

    def reshape(self, *shape: Any) -> DeviceArray:
        """A view of another shape; :class:`InvalidArgument` where that would need a copy."""
        wanted = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        sizes = _resolve_sizes(tuple(int(n) for n in wanted), self.size)
        if not self._is_contiguous():
            raise InvalidArgument(
                f"an array of shape {self._shape} and strides {self._strides} is not contiguous; "
                "call .copy() before .reshape()"
            )
        strides = _dense(sizes, self.itemsize)
        return DeviceArray(self._storage, self._address, sizes, strides, self._element)

    def view(self, dtype: DTypeLike | str) -> DeviceArray:
        """The same bytes as elements of another type of the same size."""
        element = element_of(dtype, self.device.arch)
        if element.dtype.itemsize != self.itemsize:
            raise InvalidArgument(
                f"{self.dtype_name} has {self.itemsize} bytes and {element.name} has "
                f"{element.dtype.itemsize}; a view keeps the size of elements"
            )
        return DeviceArray(self._storage, self._address, self._shape, self._strides, element)

    def __getitem__(self, index: Index | tuple[Index, ...]) -> DeviceArray:
        key = index if isinstance(index, tuple) else (index,)
        for part in key:
            whole = part is None or part is Ellipsis or isinstance(part, slice)
            if not whole and (isinstance(part, bool) or not isinstance(part, int | np.integer)):
                raise InvalidArgument(
                    f"an array in device memory is not indexed by {type(part).__name__}; use "
                    "numbers and slices, or index .numpy()"
                )
        # With an ellipsis NumPy makes a view, and never reads an element.
        full = key if any(part is Ellipsis for part in key) else (*key, Ellipsis)
        return self._derived(lambda form: form[full])

    def __setitem__(self, index: Index | tuple[Index, ...], value: Any) -> None:
        target = self[index]
        if not isinstance(value, DeviceArray):
            value = np.broadcast_to(np.asarray(value, self.dtype), target._shape)
        target.copy_from(value)

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of an array without dimensions")
        return self._shape[0]

    def numpy(self) -> NDArray[Any]:
        """A copy in the CPU's memory; waits for the work that wrote the array."""
        stream = self._current()
        low, high = self._span()
        raw = np.empty(high - low, np.uint8)
        if raw.size:
            source = self._address + low
            _core.copy_out(_address(raw), source, raw.size, stream.handle, self._storage.device)
        if not raw.size:
            return np.empty(self._shape, self.dtype)
        found: NDArray[Any] = np.ndarray(self._shape, self.dtype, raw.data, -low, self._strides)
        return found if raw.size == self.nbytes else found.copy(order="K")

    def copy_from(self, source: ArrayLike | DeviceArray) -> None:
        """Overwrite all elements with those of an array of the same shape and element type.

        Returns when the source may change, be it in the CPU's memory or on a device.
        """
        if not isinstance(source, DeviceArray):
            source, element = _host_array(source)
        else:
            element = source._element
        if element.name != self.dtype_name and source.dtype != self.dtype:
            raise InvalidArgument(
                f"the source holds {element.name} and the array {self.dtype_name}; convert it with "
                ".astype() first"
            )
        if source.shape != self._shape:
            raise InvalidArgument(f"the source has shape {source.shape}, the array {self._shape}")
        axes = _memory_order(self._strides)
        if isinstance(source, DeviceArray):
            if self._take_from(source):
                return
            source = source.numpy()
        target = self.transpose(axes)
        host = np.ascontiguousarray(source.transpose(axes))
        stream = self._current()
        for to, start, count in _runs(target._shape, target._strides, self.itemsize):
            data = _address(host) + start
            _core.copy_in(self._address + to, data, count, stream.handle, self._storage.device)

    def _take_from(self, source: DeviceArray) -> bool:
        """Copy within the device, where both arrays lie in memory alike and without gaps."""
        low, high = self._span()
        dense = high - low == self.nbytes and self._strides == source._strides
        if not dense or source._storage.device != self._storage.device:
            return False
        stream = self._current()
        source._storage.use_on(stream)
        addresses = (self._address + low, source._address + low)
        _core.copy_within(*addresses, self.nbytes, stream.handle, self._storage.device)
        return True

    def copy(self) -> DeviceArray:
        """A contiguous (row-major) copy on the same device."""
        made = empty(self._shape, self.dtype_name, self._storage.device)
        made.copy_from(self)
        return made

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("an array in device memory cannot be a NumPy array without a copy")
        return self.numpy() if dtype is None else self.numpy().astype(dtype, copy=False)

    def __dlpack_device__(self) -> tuple[int, int]:
        device = self.device
        return (_TYPES[device.kind], device.index)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule of DLPack; work on ``stream`` may use the array.

        ``stream`` is the handle of a stream of the device, None for the default one; -1 leaves
        waiting to the caller. ``dl_device=(1, 0)`` asks for a copy in the CPU's memory.
        """
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            if dl_device[0] != _CPU or copy is False:
                raise BufferError(f"the array is on {self.device}; copy it to where it is needed")
            return self.numpy().__dlpack__(max_version=max_version)
        if copy:
            return self.copy().__dlpack__(stream=stream, max_version=max_version)
        if stream != -1:
            self._storage.use_on(stream_of(stream or 0, self._storage.device))
        if any(step % self.itemsize for step in self._strides):
            raise BufferError("the strides are not whole elements, which DLPack cannot say")
        steps = [step // self.itemsize for step in self._strides]
        kind = (self._element.code, self.itemsize * 8)
        where = self.__dlpack_device__()
        return _core.export_view(self, self._address, self._shape, steps, kind, where, max_version)

    def __repr__(self) -> str:
        return f"<DeviceArray {self._shape} of {self.dtype_name} on {self.device}>"

    def _current(self) -> Stream:
        """The current stream, on which the array may be used."""
        stream = current_stream(self._storage.device)
        self._storage.use_on(stream)
        return stream

    def _derived(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> DeviceArray:
        """The view that ``change`` makes of a NumPy array of the same form.

        That array has no memory behind it: ``change`` must not touch an element.
        """
        one = np.empty(1, f"V{self.itemsize}")
        form = change(np.lib.stride_tricks.as_strided(one, self._shape, self._strides))
        address = self._address + _address(form) - _address(one)
        return DeviceArray(self._storage, address, form.shape, form.strides, self._element)

    def _span(self) -> tuple[int, int]:
        """The first byte and the one behind the last, from the address."""
        if not self.size:
            return 0, 0
        ends = [(n - 1) * step for n, step in zip(self._shape, self._strides, strict=True)]
        return sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends) + self.itemsize

    def _is_contiguous(self) -> bool:
        dense = _dense(self._shape, self.itemsize)
        pairs = zip(self._shape, self._strides, dense, strict=True)
        return self.size == 0 or all(n == 1 or step == want for n, step, want in pairs)


def empty(
    shape: int | Sequence[int], dtype: DTypeLike | str = "float32", device: DeviceLike = 0
) -> DeviceArray:
    """An uninitialised row-major array in the memory of ``device`` (``"hip:0"``, an index).

    ``dtype`` is NumPy's or that of ml_dtypes, by name too, or a key's (``"bf16"``; ``"fp8"`` in the
    encoding of the device). Raises :class:`InvalidArgument` for a bad argument and
    :class:`DeviceError` where there is no such device, or too little memory.
    """
    sizes = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
    if any(n < 0 for n in sizes):
        raise InvalidArgument(f"shape is {sizes}; sizes are 0 or more")
    found = device_of(device)
    element = element_of(dtype, found.arch)
    return _allocate(sizes, _dense(sizes, element.dtype.itemsize), element, found.number)


def zeros(
    shape: int | Sequence[int], dtype: DTypeLike | str = "float32", device: DeviceLike = 0
) -> DeviceArray:
    """An array of zeros; arguments and errors as for :func:`empty`."""
    made = empty(shape, dtype, device)
    if made.nbytes:
        stream = made._current()
        _core.fill_zero(made._address, made.nbytes, stream.handle, made._storage.device)
    return made


def to_device(
    array: Any, device: DeviceLike = 0, *, dtype: DTypeLike | str | None = None
) -> DeviceArray:
    """``array`` in the memory of ``device`` (``"hip:0"``, an index, a :class:`Device`).

    ``array`` is anything NumPy makes an array of, a tensor that supports DLPack, or a
    :class:`DeviceArray`, which is returned as it is where it is on the device. Dimensions keep
    their order in memory, so that a transposed array stays transposed; gaps between rows go.
    ``dtype`` says what the bytes are, for bf16 and fp8 numbers in an array of integers; nothing is
    converted. Errors are as for :func:`empty`.
    """
    found = device_of(device)
    if isinstance(array, DeviceArray):
        if dtype is None and array._storage.device == found.number:
            return array
        host, element = array.numpy(), array._element
    else:
        host, element = _host_array(array)
    if dtype is not None:
        element = element_of(dtype, found.arch)
        if element.dtype.itemsize != host.itemsize:
            raise InvalidArgument(
                f"dtype is {element.name}, and the array holds {host.dtype}, of another size; "
                "convert it with .astype() first"
            )
        host = host.view(f"u{host.itemsize}").view(element.dtype)
    axes = _memory_order(host.strides)
    inverse = tuple(int(axis) for axis in np.argsort(axes))
    sizes = tuple(host.shape[axis] for axis in axes)
    dense = _dense(sizes, host.itemsize)
    strides = tuple(dense[axis] for axis in inverse)
    made = _allocate(host.shape, strides, element, found.number)
    made.copy_from(host)
    return made


def from_dlpack(tensor: Any) -> DeviceArray:
    """A view of another framework's tensor in the memory of a GPU.

    It is ready for the current stream (:func:`current_stream`). Raises :class:`InvalidArgument` for
    what is no such tensor.
    """
    where = getattr(tensor, "__dlpack_device__", lambda: None)()
    if where is None:
        raise InvalidArgument(f"{type(tensor).__name__} does not support DLPack")
    kind = next((kind for kind, number in _TYPES.items() if number == where[0]), None)
    if kind is None:
        raise InvalidArgument("the tensor is not in the memory of a GPU; use to_device()")
    device = device_of(f"{kind}:{where[1]}").number
    stream = current_stream(device)
    capsule = tensor.__dlpack__(stream=stream.handle)
    address, shape, steps, (code, bits), _ = _core.import_view(capsule)
    element = element_of_code(code, bits)
    strides = tuple(step * element.dtype.itemsize for step in steps)
    storage = _Storage((tensor, capsule), address, device, stream)
    return DeviceArray(storage, address, tuple(shape), strides, element)


def synchronize(device: DeviceLike = 0) -> None:
    """Wait for all work of a device; raises :class:`DeviceError` if some of it failed."""
    _core.synchronize(device_of(device).index)


def _allocate(
    shape: tuple[int, ...], strides: tuple[int, ...], element: Element, device: int
) -> DeviceArray:
    """An array over memory of exactly the bytes that it spans; strides are not negative."""
    size = element.dtype.itemsize
    ends = ((n - 1) * step for n, step in zip(shape, strides, strict=True))
    memory = _core.Memory(sum(ends) + size if _count(shape) else 0, device)
    storage = _Storage(memory, memory.address, device, current_stream(device))
    return DeviceArray(storage, memory.address, shape, strides, element)


class _Bytes:
    """Host memory that another framework's tensor shows, as NumPy can read it."""

    def __init__(self, tensor: Any) -> None:
        capsule = tensor.__dlpack__()
        address, shape, steps, (code, bits), device = _core.import_view(capsule)
        if device[0] not in _HOSTS:
            raise InvalidArgument("the tensor is in a device's memory; use from_dlpack()")
        self.capsule = capsule
        self.element = element_of_code(code, bits)
        size = bits // 8
        self.__array_interface__ = {
            "shape": tuple(shape),
            "strides": tuple(step * size for step in steps),
            "typestr": f"<u{size}" if size < 16 else "<c16",
            "data": (address, False),
            "version": 3,
        }


def _host_array(array: Any) -> tuple[NDArray[Any], Element]:
    """A NumPy array of the elements, and their type."""
    if not isinstance(array, np.ndarray) and hasattr(array, "__dlpack__"):
        shown = _Bytes(array)
        return np.asarray(shown).view(shown.element.dtype), shown.element
    host = np.asarray(array)
    return host, element_of(host.dtype)


def _address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _count(shape: Iterable[int]) -> int:
    count = 1
    for n in shape:
        count *= n
    return count


def _dense(shape: Sequence[int], size: int) -> tuple[int, ...]:
    """Strides of a row-major array."""
    strides = []
    for n in reversed(shape):
        strides.append(size)
        size *= max(n, 1)
    return tuple(reversed(strides))


def _resolve_sizes(shape: tuple[int, ...], count: int) -> tuple[int, ...]:
    """A shape of ``count`` elements whose -1, if there is one, is replaced."""
    if shape.count(-1) == 1:
        rest = _count(n for n in shape if n != -1)
        shape = tuple((count // rest if rest else 0) if n == -1 else n for n in shape)
    if min(shape, default=0) < 0 or _count(shape) != count:
        raise InvalidArgument(f"{count} elements cannot have the shape {shape}")
    return shape


def _memory_order(strides: Sequence[int]) -> tuple[int, ...]:
    """Dimensions from the outermost to the innermost in memory."""
    return tuple(sorted(range(len(strides)), key=lambda axis: (-abs(strides[axis]), axis)))


def _runs(
    shape: Sequence[int], strides: Sequence[int], size: int
) -> Iterable[tuple[int, int, int]]:
    """Pieces without gaps of a strided array whose values lie row-major in another one.

    Each is (place in the strided array, place in the other, bytes), in bytes.
    """
    if not _count(shape):
        return
    outer, run = len(shape), size
    while outer and (strides[outer - 1] == run or shape[outer - 1] == 1):
        outer -= 1
        run *= shape[outer]
    for number, index in enumerate(np.ndindex(*shape[:outer])):
        place = sum(i * step for i, step in zip(index, strides[:outer], strict=True))
        yield place, number * run, run


__all__ = ["DeviceArray", "empty", "from_dlpack", "synchronize", "to_device", "zeros"]
