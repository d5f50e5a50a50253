"""
The C++ runtime of ckdisp. Use the classes of the package, which wrap these.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from .codegen.key import KernelKey

abi_version: int
max_d: int

def schema_hash() -> str:
    """16 hex digits over every enumeration and key field."""

def enums() -> dict[str, tuple[str, ...]]:
    """Name of every C++ enumeration -> its values by code."""

def arches() -> list[dict[str, object]]:
    """The arch table as compiled in."""

def key_fields() -> dict[str, list[str]]:
    """Op -> the fields of its key, in order."""

def host_arches() -> list[str]:
    """
    Architectures that run here, best first; CKDISP_CPU_LEVEL lowers the first.
    """

def default_num_threads() -> int:
    """
    Threads of CPU kernels unless told: CKDISP_NUM_THREADS, OMP_NUM_THREADS, CPUs.
    """

class Library:
    """A loaded kernel library."""

    @staticmethod
    def load(path: str) -> Library: ...
    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def build_info(self) -> str:
        """JSON text."""

    def kernels(self) -> list[Kernel]: ...

class Kernel:
    """One kernel of a loaded library."""

    @property
    def name(self) -> str: ...
    @property
    def op(self) -> str: ...
    @property
    def family(self) -> str: ...
    @property
    def arch(self) -> str: ...
    @property
    def provider(self) -> str: ...
    @property
    def library(self) -> Library: ...
    @property
    def key(self) -> KernelKey:
        """The kernel key."""

    def field(self, name: str) -> str | None:
        """A key field as text, or None when the key has no such field."""

    def __repr__(self) -> str: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...

class Registry:
    """The kernels a program knows."""

    def __init__(self, name: str = "kernels") -> None: ...
    def add_library(self, library: Library, priority: str = "normal") -> None: ...
    def add(self, kernel: Kernel, priority: str = "normal") -> None: ...
    def merge(self, other: Registry) -> None: ...
    def remove(self, name: str) -> bool: ...
    def clear(self) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def generation(self) -> int: ...
    def __len__(self) -> int: ...
    def find(self, name: str) -> Kernel | None: ...
    def priority(self, name: str) -> str | None: ...
    def kernels(self, fields: Sequence[tuple[str, str]] = ...) -> list[Kernel]: ...
    def filter(self, accept: Callable[[Kernel], bool]) -> Registry: ...
    def to_json(self) -> str: ...

class GemmProblem:
    """What one GEMM call computes, without data."""

    def __init__(
        self,
        m: int,
        n: int,
        k: int,
        *,
        dtype: object = "fp32",
        dtype_a: object = None,
        dtype_b: object = None,
        dtype_c: object = None,
        dtype_acc: object = None,
        layout: str = "rcr",
        lda: int | None = None,
        ldb: int | None = None,
        ldc: int | None = None,
        elementwise: str = "passthrough",
        num_d: int = 0,
        dtype_d: object = None,
        layout_d: str = "r",
        ldd: Sequence[int] | None = None,
        k_batch: int = 1,
        shuffled_b: bool = False,
    ) -> None: ...
    @staticmethod
    def from_tensors(
        a: object,
        b: object,
        *,
        d: object = (),
        epilogue: str = "passthrough",
        out: object = None,
        out_dtype: object = None,
        k_batch: int = 1,
    ) -> GemmProblem:
        """The problem that gemm() solves for these tensors, whatever kernels exist."""

    @property
    def m(self) -> int: ...
    @property
    def n(self) -> int: ...
    @property
    def k(self) -> int: ...
    @property
    def flops(self) -> float:
        """2 m n k."""

    @property
    def bytes(self) -> float:
        """Of A, B, C and every D."""

    def to_dict(self) -> dict[str, object]: ...
    def __repr__(self) -> str: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...

class Candidate:
    """What a dispatcher thinks of one kernel."""

    @property
    def kernel(self) -> Kernel: ...
    @property
    def supported(self) -> bool: ...
    @property
    def reason(self) -> str:
        """Name out of the catalogue of reasons; "none" when supported."""

    @property
    def text(self) -> str:
        """Why not, in words."""

    @property
    def cost(self) -> float:
        """Only the order matters."""

    @property
    def rank(self) -> int:
        """Place in the preference, from 0; -1 when not supported."""

    @property
    def chosen(self) -> bool:
        """Whether select() and plan() take it: none is where they raise."""

    @property
    def k_batch(self) -> int:
        """Parts that the sums of a GEMM or convolution are split into; else 0."""

class Stage:
    """One step of a plan."""

    @property
    def kernel(self) -> Kernel: ...
    @property
    def kind(self) -> Literal["prepare", "kernel", "convert"]:
        """
        'prepare' must happen before each run and is no part of the kernel's time.
        """

    @property
    def workspace_offset(self) -> int: ...
    @property
    def workspace_bytes(self) -> int: ...
    @property
    def num_splits(self) -> int:
        """
        Parts of the sums that stages of an attention hand on; else the k_batch of the problem, or
        the one that was chosen.
        """

class Plan:
    """The ordered steps that solve a problem."""

    @property
    def stages(self) -> list[Stage]: ...
    @property
    def workspace_bytes(self) -> int: ...
    def __str__(self) -> str: ...

class GroupedConvProblem:
    """What one grouped convolution computes, without data."""

    def __init__(
        self,
        direction: str,
        input_shape: Sequence[int],
        weight_shape: Sequence[int],
        *,
        dtype: object = "fp32",
        dtype_in: object = None,
        dtype_wei: object = None,
        dtype_out: object = None,
        dtype_acc: object = None,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | Sequence[tuple[int, int]] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        k_batch: int = 0,
    ) -> None:
        """
        direction is 'fwd', 'bwd_data' or 'bwd_weight'; shapes are those of PyTorch.
        """

    @property
    def family(self) -> str: ...
    @property
    def input_shape(self) -> tuple[int, ...]: ...
    @property
    def weight_shape(self) -> tuple[int, ...]: ...
    @property
    def output_shape(self) -> tuple[int, ...]: ...
    @property
    def flops(self) -> float:
        """
        2 N K (C / groups) times the output pixels and the taps, those in the padding too.
        """

    @property
    def bytes(self) -> float:
        """Of input, weights and output."""

    def to_dict(self) -> dict[str, object]: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __repr__(self) -> str: ...

class FmhaProblem:
    """What one attention computes, without data."""

    def __init__(self, family: str, **options: object) -> None: ...
    @property
    def family(self) -> str: ...
    @property
    def flops(self) -> float:
        """Of the GEMMs, and of the pairs of query and key that the mask leaves."""

    @property
    def bytes(self) -> float:
        """Of the tensors that are read and written, each once."""

    def to_dict(self) -> dict[str, object]: ...
    def __repr__(self) -> str: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...

class Device:
    """A GPU that HIP or CUDA shows to this process."""

    @property
    def index(self) -> int:
        """That of its runtime."""

    @property
    def kind(self) -> str:
        """Whose runtime shows it: 'hip' or 'cuda'."""

    @property
    def number(self) -> int:
        """What calls take: the index, plus 128 for CUDA."""

    @property
    def name(self) -> str: ...
    @property
    def arch(self) -> str:
        """Such as 'gfx942' or 'sm_90a'."""

    @property
    def target(self) -> str:
        """The arch with its features: 'gfx942:sramecc+:xnack-'."""

    @property
    def compute_units(self) -> int: ...
    @property
    def wave_size(self) -> int: ...
    @property
    def memory_bytes(self) -> int: ...
    def __index__(self) -> int: ...
    def __repr__(self) -> str: ...

def devices() -> list[Device]: ...
def why_no_devices() -> str: ...
def free_device_workspaces() -> None: ...
def device(number: int) -> Device: ...

class Memory:
    """Memory of one device, freed with the object."""

    def __init__(self, bytes: int, device: int) -> None: ...
    @property
    def address(self) -> int:
        """0 where there are no bytes."""

class Event:
    """A point in a stream's work, with its time."""

    def __init__(self, device: int) -> None: ...
    def record(self, stream: int) -> None: ...
    def synchronize(self) -> None: ...
    def done(self) -> bool: ...
    @staticmethod
    def milliseconds(start: Event, stop: Event) -> float: ...

class Stream:
    """A queue of work on one device."""

    def __init__(self, device: int) -> None: ...
    @property
    def handle(self) -> int: ...
    def wait(self, event: Event) -> None:
        """Later work comes after the event."""

def copy_in(to: int, host: int, bytes: int, stream: int, device: int) -> None: ...
def copy_out(host: int, source: int, bytes: int, stream: int, device: int) -> None: ...
def copy_within(to: int, source: int, bytes: int, stream: int, device: int) -> None:
    """Puts the copy on the stream."""

def fill_zero(memory: int, bytes: int, stream: int, device: int) -> None:
    """Puts a memset on the stream."""

def synchronize(device: int) -> None: ...
def synchronize_stream(stream: int, device: int) -> None: ...
def order_streams(earlier: int, later: int, device: int) -> None:
    """Later work of the stream `later` comes after all that `earlier` holds now."""

def export_view(
    owner: object,
    address: int,
    shape: Sequence[int],
    strides: Sequence[int],
    type: tuple[int, int],
    device: tuple[int, int],
    max_version: tuple[int, int] | None,
) -> Any:
    """A capsule of DLPack that keeps `owner` alive."""

def import_view(
    capsule: object,
) -> tuple[int, list[int], list[int], tuple[int, int], tuple[int, int]]:
    """What a capsule of DLPack says: address, shape, strides in elements, (code, bits), (device
    type, index). The memory is valid while the capsule lives."""

Problem = GemmProblem | GroupedConvProblem | FmhaProblem

class Dispatcher:
    """Picks a kernel for a problem and runs it."""

    def __init__(
        self,
        registry: Registry,
        strategy: object = "heuristic",
        num_threads: int = 0,
        arches: Sequence[str] = ...,
    ) -> None: ...
    @property
    def num_threads(self) -> int: ...
    @property
    def arches(self) -> list[str]: ...
    def select(self, problem: Problem, device: int = -1) -> Kernel: ...
    def explain(self, problem: Problem, device: int = -1) -> list[Candidate]: ...
    def plan(self, problem: Problem, device: int = -1) -> Plan: ...
    def gemm(
        self,
        a: object,
        b: object,
        d: object,
        epilogue: object,
        out: object,
        out_dtype: object,
        scale: object,
        clamp: object,
        k_batch: object,
        kernel: object,
        stream: object,
    ) -> Any: ...
    def fmha(self, family: str, options: dict[str, Any]) -> Any: ...
    def conv_fwd(
        self,
        x: object,
        w: object,
        stride: object,
        padding: object,
        dilation: object,
        groups: object,
        out: object,
        out_dtype: object,
        kernel: object,
        stream: object,
    ) -> Any: ...
    def conv_bwd_data(
        self,
        first: object,
        second: object,
        shape: object,
        stride: object,
        padding: object,
        dilation: object,
        groups: object,
        out: object,
        out_dtype: object,
        k_batch: object,
        kernel: object,
        stream: object,
    ) -> Any: ...
    def conv_bwd_weight(
        self,
        first: object,
        second: object,
        shape: object,
        stride: object,
        padding: object,
        dilation: object,
        groups: object,
        out: object,
        out_dtype: object,
        k_batch: object,
        kernel: object,
        stream: object,
    ) -> Any: ...

def set_leak_warnings(on: bool) -> None:
    """Whether objects that live when the process ends are told of on stderr."""

class FmhaCall:
    """An attention call that can be run again."""

    def __init__(self, dispatcher: Dispatcher, family: str, options: dict[str, Any]) -> None: ...
    @property
    def problem(self) -> FmhaProblem: ...
    @property
    def plan(self) -> Plan: ...
    def run(self) -> Any:
        """Computes the results anew, in the same memory, and returns them."""

    def time(self) -> list[float]:
        """Runs it; the seconds that each stage of the plan took."""

def gemm_problem(
    dispatcher: Dispatcher | None,
    a: object,
    b: object,
    d: object,
    epilogue: object,
    out: object,
    out_dtype: object,
    k_batch: object,
) -> GemmProblem: ...
