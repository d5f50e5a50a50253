"""From kernels to a loaded library: look it up, else compile what is missing and link once."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ..codegen.build import build as run_ninja
from ..codegen.check import checked_keys
from ..codegen.compilers import check_group, targets_of, warn_of_refused
from ..codegen.cuda import CudaToolchain
from ..codegen.emit.cpp_view import schema_hash
from ..codegen.emit.files import write_atomic, write_if_changed
from ..codegen.emit.tree import LIBRARY_OBJECT, Tree, make_tree
from ..codegen.emit.unit import bundle_text
from ..codegen.errors import BuildError, InvalidKey, LibraryError
from ..codegen.generate import folder_texts, unit_texts
from ..codegen.headers import missing_headers, own_include_dirs
from ..codegen.key import KernelKey
from ..codegen.providers import Setup
from ..codegen.rocm import HipToolchain
from ..codegen.seal import NotSealable, seal
from ..codegen.sizes import warning as size_warning
from ..codegen.steps import Step, is_local
from ..codegen.toolchain import Toolchain
from ..codegen.version import ABI_VERSION
from . import location
from .blame import Cached, FailedBuild, Lost, NotWhole, is_lost, unusable
from .compile import compile_on, require_outputs
from .compilers import Compilers
from .digest import digest
from .failed import keep_failed
from .headers import Headers, Listing, read_depfile
from .locks import among_threads, building
from .progress import Callback, reporting
from .store import Artefact, Staging, Store, discard
from .whole import library_fault, step_fault

# A build whose folder is removed starts again; removed each time, it is not by accident.
_ATTEMPTS = 5

T = TypeVar("T")


@dataclass(frozen=True)
class Options:
    """How to build; the meaning is in :meth:`ckdisp.KernelSet.build`."""

    jobs: int | None = None
    progress: bool | Callback | None = True
    executor: Executor | None = None
    toolchain: Toolchain | None = None
    hip: HipToolchain | None = None
    cuda: CudaToolchain | None = None
    cache_dir: str | os.PathLike[str] | None = None
    timeout: float | None = None
    group: str | None = None
    archs: Sequence[str] = ()


def build_library(kernels: Iterable[KernelKey], options: Options) -> Path:
    """The path of a library with ``kernels``, from the cache or built now."""
    root = location.cache_dir(options.cache_dir)
    try:
        return _build_library(root, kernels, options)
    except OSError as error:  # whatever the file system refuses is told as an error of ckdisp
        raise BuildError(
            f"building in the kernel cache {root} failed: {error.strerror or error}"
            f"{f' ({error.filename})' if error.filename else ''}; set {location.VARIABLE} to "
            "another folder"
        ) from error


def _build_library(root: Path, kernels: Iterable[KernelKey], options: Options) -> Path:
    check_group(options.group)
    keys = checked_keys(kernels)
    if not keys:
        raise InvalidKey("the kernel set is empty, so there is nothing to build; widen it")
    store = Store(root)
    compilers = Compilers(keys, options.toolchain, options.hip, options.cuda)
    with among_threads("compiler"):  # ask a compiler once, not once for each thread
        job = _Job(store, keys, compilers, options)
    found = job.find_library()
    if found is not None:
        return found
    if compilers.missing is not None:
        raise BuildError(
            f"{compilers.missing}\nThe kernel cache {store.root} does not hold these kernels "
            "either; it can be filled on a machine with a compiler and carried over"
        ) from compilers.missing
    with building(store.root, job.library_key):
        return job.find_library() or job.build(options)


def build_and_load(kernels: Iterable[KernelKey], options: Options, load: Callable[[Path], T]) -> T:
    """What ``load`` makes of the library that :func:`build_library` gives.

    A library that somebody deletes just then, or that cannot be loaded, is built again.
    """
    keys = list(kernels)
    dropped = False
    for left in reversed(range(_ATTEMPTS)):
        library = build_library(keys, options)
        try:
            return load(library)
        except LibraryError:
            if library.exists():
                if dropped or not _drop_library(library, options):
                    raise
                dropped = True
            elif not left:
                raise
    raise AssertionError("the last attempt returns or raises")


def _drop_library(library: Path, options: Options) -> bool:
    """Drop an entry of the cache that is of no use; false if it cannot be dropped."""
    root = location.cache_dir(options.cache_dir)
    return library.is_relative_to(root / "libraries") and discard(root, library.parent)


class _Job:
    """One kernel set on its way to a library."""

    def __init__(
        self,
        store: Store,
        keys: list[tuple[str, KernelKey]],
        compilers: Compilers,
        options: Options,
    ) -> None:
        self.store = store
        self.keys = keys
        self.compilers = compilers
        self.group = options.group
        self.may_drop = True  # cached parts that a failure is blamed on, once
        self.targets = targets_of(options.archs)
        self.view = missing_headers()
        self.common = (str(ABI_VERSION), schema_hash(), _platform(), *self.view.values())
        self.include_dirs = self._include_dirs()
        self.texts = unit_texts(keys, self.targets)
        units = self.texts.values()
        self.library_key = digest("library", *self.common, self.group or "", *units)
        self.library = f"ckdisp_jit_{self.library_key[:16]}"
        self.library_context: str | None = None
        if compilers.missing is not None:
            self.headers = Headers(self.include_dirs, {})
            return
        compilers.ask(store.root)
        self.headers = Headers(self.include_dirs, compilers.folders)
        self.tree = self._tree()
        self.contexts = {rule.name: compilers.context(rule, self.tree) for rule in self.tree.rules}
        linked = {self.contexts[rule.name] for rule in self.tree.rules if rule.makes_object}
        self.library_context = digest(*sorted(linked))

    def _include_dirs(self) -> tuple[str, ...]:
        """The folders of ckdisp's headers.

        Generated ones that are missing there lie in the cache, where a precompiled header finds
        them the next time, too.
        """
        own = tuple(map(str, own_include_dirs()))
        if not self.view:
            return own
        self._view_folder = self.store.root / "include" / digest(*self.view.values())[:16]
        return (str(self._view_folder / "include"), *own)

    def _tree(self, done: Iterable[str] = ()) -> Tree:
        compilers = self.compilers
        setup = Setup(
            compilers.cxx,
            self.include_dirs,
            hip=compilers.hip,
            cuda=compilers.cuda,
            targets=self.targets,
            group=self.group,
            accepts=compilers.accepts,
            hip_accepts=compilers.hip_accepts,
        )
        return make_tree(self.library, self.keys, setup, done=frozenset(done))

    def find_library(self) -> Path | None:
        return self.store.find("libraries", self.library_key, self.library_context, self.headers)

    def _find(self, step: Step) -> Artefact | None:
        kind, key = self._address(step)
        return self.store.artefact(kind, key, self.contexts[step.rule.name], self.headers)

    def _address(self, step: Step) -> tuple[str, str]:
        """Kind and key of what ``step`` makes."""
        if not step.rule.makes_object:
            return "headers", digest("headers", *self.common, step.rule.name)
        parts = self.tree.bundles.get(step.source)
        if parts is None:
            return "objects", digest("object", *self.common, self.texts[step.source])
        texts = (bundle_text(step.source, parts), *(self.texts[part] for part in parts))
        return "objects", digest("object", *self.common, *texts)

    def _cached(self) -> Cached:
        """Output -> artefact, of all that need not be made."""
        steps = [s for s in self.tree.steps if s.output != LIBRARY_OBJECT]
        found = {s.output: p for s in steps if s.rule.makes_object and (p := self._find(s))}
        for step in self._tree(found).open_steps():
            if not step.rule.makes_object and (part := self._find(step)):
                found[step.output] = part
        return found

    def build(self, options: Options) -> Path:
        """Build in a folder of its own; again if somebody removed it or a part was not whole."""
        warn_of_refused(self.tree, "run `ckdisp cache clear`")
        for left in reversed(range(_ATTEMPTS)):
            try:
                with self.store.staging() as staging:
                    return self._attempt(staging, options)
            except Lost:
                if not left:
                    raise
            except NotWhole:
                self.may_drop = False
        raise AssertionError("the last attempt returns or raises")

    def _attempt(self, staging: Staging, options: Options) -> Path:
        self.compilers.save()
        cached = self._cached()
        self.tree = tree = self._tree(cached)
        missing = [s for s in tree.open_steps() if s.output != LIBRARY_OBJECT]
        kernels = sum(unit.object not in cached for unit in tree.units)
        try:
            self._write(staging, tree, cached)
            with reporting(options.progress, kernels, len(tree.units) - kernels) as progress:
                self._compile(staging, tree, missing, options, staging.in_use(progress))
            self._check(staging, tree, missing)
            read = self._publish_steps(staging, missing)
            return self._publish_library(staging, tree, cached, read)
        except (BuildError, OSError) as error:
            raise self._explained(staging, tree, cached, missing, error) from None

    def _explained(
        self,
        staging: Staging,
        tree: Tree,
        cached: Cached,
        missing: Sequence[Step],
        error: BuildError | OSError,
    ) -> BuildError | OSError:
        """The error to raise for ``error``, after what is worth keeping was kept."""
        if is_lost(staging, error):
            return Lost(self.store.root)
        if isinstance(error, OSError):
            return error
        finished = _finished(staging, missing)
        faults = {s.output: f for s in finished if (f := step_fault(staging.folder / s.output, s))}
        with contextlib.suppress(OSError):
            self._publish_finished(staging, [s for s in finished if s.output not in faults])
        failed = FailedBuild(self.store, tree, cached, faults, error)
        if self.may_drop and failed.drop(self.compilers.cxx):
            return NotWhole()
        return keep_failed(self.store, staging, self.library_key, failed.reported())

    def _check(self, staging: Staging, tree: Tree, steps: Sequence[Step]) -> None:
        """:class:`Unusable` if a compiler reported success for something that is not whole."""
        for step in steps:
            if fault := step_fault(staging.folder / step.output, step):
                raise unusable(step.output, fault)
        names = [unit.name for unit in tree.units]
        if fault := library_fault(staging.folder / tree.output, names):
            raise unusable(tree.output, fault)

    def _write(self, staging: Staging, tree: Tree, cached: Cached) -> None:
        for path, text in self.view.items():
            location.make(self.store.root, (self._view_folder / path).parent)
            write_if_changed(self._view_folder / path, text)
            staging.expected.append(self._view_folder / path)
        wanted = {step.source for step in tree.open_steps()}
        included = {part for s in wanted for part in tree.bundles.get(s, ())}
        for path, text in folder_texts(tree, staging.folder, ("ninja",)).items():
            if path not in self.texts or path in wanted or path in included:
                write_atomic(staging.folder / path, text.encode())
                staging.expected.append(staging.folder / path)
        for output, part in cached.items():
            staging.take(part.path, output)

    def _compile(
        self,
        staging: Staging,
        tree: Tree,
        missing: Sequence[Step],
        options: Options,
        progress: Callback,
    ) -> None:
        if options.executor is not None and missing:
            compile_on(options.executor, staging.folder, missing, progress, options.timeout)
            # What was made lies where ninja wants it; the registration and the link are left.
            tree = self._tree({*tree.done, *(step.output for step in missing)})
            for path, text in folder_texts(tree, staging.folder, ("ninja",)).items():
                if path not in self.texts:
                    write_if_changed(staging.folder / path, text)
            progress = _silent
        run_ninja(
            staging.folder,
            jobs=options.jobs,
            progress=progress,
            timeout=options.timeout,
            keep_depfiles=True,
        )
        require_outputs(staging.folder, missing)
        with contextlib.suppress(NotSealable):
            seal(staging.folder / tree.output)
        size = (staging.folder / tree.output).stat().st_size
        if said := size_warning(f"the library of {len(tree.units)} kernels", size):
            warnings.warn(f"ckdisp: {said}", RuntimeWarning, stacklevel=2)

    def _publish_steps(self, staging: Staging, steps: Iterable[Step]) -> list[Listing]:
        """Publish what ``steps`` made; returns the headers they and the registration read."""
        read = [self.headers.listing(_depfile(staging, f"{LIBRARY_OBJECT}.d"), "cxx")]
        for step in steps:
            _, listing = self._publish_step(staging, step)
            if step.rule.makes_object:
                read.append(listing)
        return read

    def _publish_finished(self, staging: Staging, steps: Iterable[Step]) -> None:
        """Publish what was done before a failure; links to it take its place in the folder."""
        for step in steps:
            made = staging.folder / step.output
            published, _ = self._publish_step(staging, step)
            if published != made:
                with contextlib.suppress(OSError):
                    made.unlink()
                    made.symlink_to(published)

    def _publish_step(self, staging: Staging, step: Step) -> tuple[Path, Listing]:
        paths = _depfile(staging, step.depfile)
        paths += [need for need in step.rule.needs if not is_local(need)]
        listing = self.headers.listing(paths, step.rule.compiler)
        kind, key = self._address(step)
        published = self.store.publish(
            staging,
            kind,
            key,
            staging.folder / step.output,
            label=step.name,
            context=self.contexts[step.rule.name],
            headers=listing,
        )
        return published, listing

    def _publish_library(
        self, staging: Staging, tree: Tree, cached: Cached, read: list[Listing]
    ) -> Path:
        read = [*read, *(cached[o].entry.headers for o in tree.objects if o in cached)]
        listing = {(p, whose): contents for part in read for p, whose, contents in part}
        assert self.library_context is not None
        headers: Listing = [(p, whose, c) for (p, whose), c in sorted(listing.items())]
        return self.store.publish(
            staging,
            "libraries",
            self.library_key,
            staging.folder / tree.output,
            label=f"{len(tree.units)} kernels",
            context=self.library_context,
            headers=headers,
        )


def _depfile(staging: Staging, path: str) -> list[str]:
    try:
        return read_depfile(staging.folder / path)
    except OSError:
        return []


def _silent(done: int, total: int, what: str) -> None:
    """The progress of the link, after an executor has reported that of the compilation."""


def _finished(staging: Staging, steps: Sequence[Step]) -> list[Step]:
    """The steps that ninja did to the end before another one failed."""
    try:
        log = (staging.folder / ".ninja_log").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    done = {line.split("\t")[3] for line in log.splitlines() if line.count("\t") >= 4}
    return [s for s in steps if s.output in done]


def _platform() -> str:
    """What a library needs of the system beyond the compiler: kind, machine, C library."""
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, ValueError, OSError):
        libc = ""
    return f"{sys.platform} {os.uname().machine} {libc}"
