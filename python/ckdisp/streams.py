"""Streams and events of devices: what orders the work of calls on GPUs."""

from __future__ import annotations

import threading
import weakref
from types import TracebackType

from . import _core
from .codegen.errors import InvalidArgument
from .gpu import DeviceLike, device_of

# hipStreamPerThread: one handle that means another stream in each thread.
_PER_THREAD = 2


class Stream:
    """A queue of work on one device, beside the default stream, which it does not wait for.

    ``with stream:`` makes it the current stream of this thread: calls on arrays of the device
    (:class:`DeviceArray`) run on it, and so do copies. An array that one stream has used waits for
    that before another uses it, so that results are right whatever the streams.

    Raises :class:`DeviceError` when the device is not here.
    """

    __slots__ = ("__weakref__", "_core", "_device", "_handle")

    def __init__(self, device: DeviceLike = 0) -> None:
        self._device = device_of(device).number
        self._core: _core.Stream | None = _core.Stream(self._device)
        self._handle = self._core.handle
        _made[self._device, self._handle] = self

    @property
    def handle(self) -> int:
        """A ``hipStream_t``; 0 is the default stream."""
        return self._handle

    @property
    def device(self) -> _core.Device:
        return device_of(self._device)

    def synchronize(self) -> None:
        """Wait for all work put here so far; raises :class:`DeviceError` if some of it failed."""
        _core.synchronize_stream(self._handle, self._device)

    def record(self, event: Event | None = None) -> Event:
        """An event, a new one if none is given, behind the work that the stream holds now."""
        event = Event(self._device) if event is None else event
        event.record(self)
        return event

    def wait(self, other: Event | Stream) -> None:
        """Later work here comes after an event, or after all that another stream holds now."""
        if isinstance(other, Stream):
            other = other.record()
        if self._core is None:
            raise InvalidArgument(
                "the default stream cannot be told to wait; use Event.synchronize"
            )
        self._core.wait(other._core)

    def __enter__(self) -> Stream:
        _entered().append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _entered().pop()

    def __repr__(self) -> str:
        return f"<Stream {self._handle:#x} on {self.device}>"


class Event:
    """A point in the work of a stream, with its time.

    Raises :class:`DeviceError` when the device is not here.
    """

    __slots__ = ("_core", "_device", "_recorded")

    def __init__(self, device: DeviceLike = 0) -> None:
        self._device = device_of(device).number
        self._core = _core.Event(self._device)
        self._recorded = False

    def record(self, stream: Stream | None = None) -> None:
        """Stand behind the work that ``stream``, else the current one, holds now."""
        stream = current_stream(self._device) if stream is None else stream
        if stream._device != self._device:
            raise InvalidArgument(
                f"the event is of device {self._device} and the stream of device {stream._device}; "
                "make the event for the stream's device"
            )
        self._core.record(stream.handle)
        self._recorded = True

    def synchronize(self) -> None:
        """Wait for the work before the event; raises :class:`DeviceError` if some of it failed."""
        self._core.synchronize()

    @property
    def done(self) -> bool:
        """Whether the work before the event is done."""
        return self._core.done()

    def elapsed_time(self, stop: Event) -> float:
        """Milliseconds from this event to ``stop``, both recorded; waits for ``stop``."""
        if not (self._recorded and stop._recorded):
            raise InvalidArgument("an event was not recorded; call record() on both first")
        stop.synchronize()
        return _core.Event.milliseconds(self._core, stop._core)


def current_stream(device: DeviceLike = 0) -> Stream:
    """The stream of the innermost ``with stream:`` for the device, else its default stream."""
    index = device_of(device).number
    for stream in reversed(_entered()):
        if stream._device == index:
            return stream
    return stream_of(0, index)


def stream_of(handle: int, device: int) -> Stream:
    """The stream with a handle: one made here, the default stream, or one made elsewhere."""
    stream: Stream | None = _made.get((device, handle))
    if stream is None:
        stream = Stream.__new__(Stream)
        stream._core, stream._device, stream._handle = None, device, handle
    return stream


def order(earlier: Stream, later: Stream) -> None:
    """Let later work of ``later`` come after all that ``earlier`` holds now."""
    if earlier._handle == later._handle != _PER_THREAD:
        return
    if earlier._core is None and earlier._handle != 0:
        # Made elsewhere: it may be gone, but its device is not.
        _core.synchronize(earlier._device)
    else:
        _core.order_streams(earlier._handle, later._handle, earlier._device)


_made: weakref.WeakValueDictionary[tuple[int, int], Stream] = weakref.WeakValueDictionary()
_local = threading.local()


def _entered() -> list[Stream]:
    """Streams of the ``with`` blocks that this thread is in."""
    if not hasattr(_local, "entered"):
        _local.entered = []
    entered: list[Stream] = _local.entered
    return entered


__all__ = ["Event", "Stream", "current_stream"]
