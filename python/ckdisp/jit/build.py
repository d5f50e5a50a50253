"""From kernels to a loaded library: look it up, else compile what is missing and link once."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from ..codegen.build import build as run_ninja
from ..codegen.check import checked_keys
from ..codegen.compilers import check_group, targets_of
from ..codegen.cuda import CudaToolchain
from ..codegen.emit.cpp_view import schema_hash
from ..codegen.emit.files import write_atomic, write_if_changed
from ..codegen.emit.tree import LIBRARY_OBJECT, Tree, make_tree
from ..codegen.emit.unit import bundle_text
from ..codegen.errors import BuildError, InvalidKey
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
from .compile import compile_on, require_outputs
from .compilers import Compilers
from .digest import digest
from .failed import keep_failed
from .headers import Headers, Listing, read_depfile
from .locks import among_threads, building
from .progress import Callback, reporting
from .store import Staging, Store, read_entry


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

    def _find(self, step: Step) -> Path | None:
        kind, key = self._address(step)
        return self.store.find(kind, key, self.contexts[step.rule.name], self.headers)

    def _address(self, step: Step) -> tuple[str, str]:
        """Kind and key of what ``step`` makes."""
        if not step.rule.makes_object:
            return "headers", digest("headers", *self.common, step.rule.name)
        parts = self.tree.bundles.get(step.source)
        if parts is None:
            return "objects", digest("object", *self.common, self.texts[step.source])
        texts = (bundle_text(step.source, parts), *(self.texts[part] for part in parts))
        return "objects", digest("object", *self.common, *texts)

    def _cached(self) -> dict[str, Path]:
        """Output -> artefact, of all that need not be made."""
        steps = [s for s in self.tree.steps if s.output != LIBRARY_OBJECT]
        found = {s.output: p for s in steps if s.rule.makes_object and (p := self._find(s))}
        for step in self._tree(found).open_steps():
            if not step.rule.makes_object and (path := self._find(step)):
                found[step.output] = path
        return found

    def build(self, options: Options) -> Path:
        with self.store.staging() as staging:
            self.compilers.save()
            cached = self._cached()
            self.tree = tree = self._tree(cached)
            missing = [s for s in tree.open_steps() if s.output != LIBRARY_OBJECT]
            self._write(staging, tree, cached)
            kernels = sum(unit.object not in cached for unit in tree.units)
            try:
                with reporting(options.progress, kernels, len(tree.units) - kernels) as progress:
                    self._compile(staging, tree, missing, options, progress)
            except BuildError as error:
                self._publish_finished(staging, missing)
                raise keep_failed(self.store, staging, self.library_key, error) from None
            read = self._publish_steps(staging, missing)
            return self._publish_library(staging, tree, cached, read)

    def _write(self, staging: Staging, tree: Tree, cached: Mapping[str, Path]) -> None:
        for path, text in self.view.items():
            write_if_changed(self._view_folder / path, text)
        wanted = {step.source for step in tree.open_steps()}
        included = {part for s in wanted for part in tree.bundles.get(s, ())}
        for path, text in folder_texts(tree, staging.folder, ("ninja",)).items():
            if path not in self.texts or path in wanted or path in included:
                write_atomic(staging.folder / path, text.encode())
        for output, artefact in cached.items():
            link = staging.folder / output
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(artefact)

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

    def _publish_finished(self, staging: Staging, steps: Sequence[Step]) -> None:
        """Publish what was done before a failure; links to it take its place in the folder."""
        for step in _finished(staging, steps):
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
        self, staging: Staging, tree: Tree, cached: Mapping[str, Path], read: list[Listing]
    ) -> Path:
        read = [*read, *(_listing_of(cached[o]) for o in tree.objects if o in cached)]
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


def _listing_of(artefact: Path) -> Listing:
    entry = read_entry(artefact.parent)
    if entry is None:
        raise BuildError(
            f"{artefact} changed while it was in use; run again, or `ckdisp cache verify`"
        )
    return entry.headers


def _depfile(staging: Staging, path: str) -> list[str]:
    try:
        return read_depfile(staging.folder / path)
    except OSError:
        return []


def _silent(done: int, total: int, what: str) -> None:
    """The progress of the link, after an executor has reported that of the compilation."""


def _finished(staging: Staging, steps: Sequence[Step]) -> list[Step]:
    """The steps that ninja did to the end, with a result, before another one failed."""
    try:
        log = (staging.folder / ".ninja_log").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    done = {line.split("\t")[3] for line in log.splitlines() if line.count("\t") >= 4}
    return [s for s in steps if s.output in done and (staging.folder / s.output).is_file()]


def _platform() -> str:
    """What a library needs of the system beyond the compiler: kind, machine, C library."""
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, ValueError, OSError):
        libc = ""
    return f"{sys.platform} {os.uname().machine} {libc}"
