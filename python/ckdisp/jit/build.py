"""From kernels to a loaded library: look it up, else compile what is missing and link once."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from ..codegen.build import build as run_ninja
from ..codegen.check import checked_keys
from ..codegen.emit.cpp_view import schema_hash
from ..codegen.emit.files import write_atomic
from ..codegen.emit.tree import Tree, Unit, compiler_commands, make_tree
from ..codegen.emit.unit import unit_text
from ..codegen.errors import BuildError, InvalidKey
from ..codegen.generate import folder_texts
from ..codegen.headers import missing_headers, own_include_dirs
from ..codegen.key import KernelKey
from ..codegen.toolchain import Toolchain
from ..codegen.version import ABI_VERSION
from . import location
from .compile import compile_on
from .digest import digest
from .failed import keep_failed
from .headers import Headers, Listing, read_depfile
from .locks import among_threads, building
from .probes import Probes
from .progress import Callback, reporting
from .store import Staging, Store


@dataclass(frozen=True)
class Options:
    """How to build; the meaning is in :meth:`ckdisp.KernelSet.build`."""

    jobs: int | None = None
    progress: bool | Callback | None = True
    executor: Executor | None = None
    toolchain: Toolchain | None = None
    cache_dir: str | os.PathLike[str] | None = None
    timeout: float | None = None


def build_library(kernels: Iterable[KernelKey], options: Options) -> Path:
    """The path of a library with ``kernels``, from the cache or built now."""
    keys = checked_keys(kernels)
    if not keys:
        raise InvalidKey("the kernel set is empty, so there is nothing to build; widen it")
    store = Store(location.cache_dir(options.cache_dir))
    commands = compiler_commands(keys)
    toolchain, no_compiler = options.toolchain, None
    if toolchain is None:
        try:
            toolchain = Toolchain.find(commands=commands)
        except BuildError as error:
            no_compiler = error
    with among_threads("compiler"):  # ask a compiler once, not once for each thread
        job = _Job(store, keys, toolchain)
    found = job.find_library()
    if found is not None:
        return found
    if no_compiler is not None:
        raise BuildError(
            f"{no_compiler}\nThe kernel cache {store.root} does not hold these kernels either; it "
            "can be filled on a machine with a compiler and carried over"
        ) from no_compiler
    with building(store.root, job.library_key):
        return job.find_library() or job.build(options)


class _Job:
    """One kernel set on its way to a library."""

    def __init__(
        self,
        store: Store,
        keys: Sequence[tuple[str, KernelKey]],
        toolchain: Toolchain | None,
    ) -> None:
        self.store = store
        self.keys = keys
        self.toolchain = toolchain
        self.probes = Probes(store.root, toolchain) if toolchain is not None else None
        self.own_dirs = own_include_dirs()
        self.view = missing_headers()
        self.headers = Headers(self.own_dirs, toolchain.system_dirs() if toolchain else ())
        draft = self._tree("ckdisp_jit", {})
        self.texts = {
            u.name: unit_text(u.key, u.name, draft.variants[u.variant].provider)
            for u in draft.units
        }
        common = (str(ABI_VERSION), schema_hash(), _platform(), *map(str, self.view.values()))
        self.object_keys = {n: digest("object", *common, t) for n, t in self.texts.items()}
        self.library_key = digest("library", *common, *self.texts.values())
        self.library = f"ckdisp_jit_{self.library_key[:16]}"
        self.contexts = {v.name: self._context(v.flags, draft) for v in draft.variants.values()}
        every = sorted({f for c in self.contexts.values() if c is not None for f in (c,)})
        self.library_context = digest(*every, *draft.libraries()) if toolchain else None

    def _tree(self, name: str, prebuilt: dict[str, str]) -> Tree:
        return make_tree(
            name,
            self.keys,
            toolchain=self.toolchain,
            include_dirs=self.own_dirs,
            prebuilt=prebuilt,
            accepts=self.probes.accepts if self.probes is not None else None,
        )

    def _context(self, flags: Sequence[str], tree: Tree) -> str | None:
        if self.toolchain is None:
            return None
        words = (*flags, *tree.optional_flags, *self.toolchain.cxx_flags)
        return digest(self.toolchain.identity(), *words)

    def find_library(self) -> Path | None:
        return self.store.find("libraries", self.library_key, self.library_context, self.headers)

    def find_object(self, unit: Unit) -> Path | None:
        context = self.contexts[unit.variant]
        return self.store.find("objects", self.object_keys[unit.name], context, self.headers)

    def build(self, options: Options) -> Path:
        with self.store.staging() as staging:
            if self.probes is not None:
                self.probes.save()
            draft = self._tree(self.library, {})
            cached = {u.name: str(p) for u in draft.units if (p := self.find_object(u))}
            tree = self._tree(self.library, cached)
            missing = [u for u in tree.units if u.name not in cached]
            self._write(staging, tree)
            try:
                with reporting(options.progress, len(missing), len(cached)) as progress:
                    self._compile(staging, tree, missing, options, progress)
            except BuildError as error:
                self._publish_objects(staging, _finished(staging, missing))
                raise keep_failed(self.store, staging, self.library_key, error) from None
            read = self._publish_objects(staging, missing)
            return self._publish_library(staging, tree, read)

    def _write(self, staging: Staging, tree: Tree) -> None:
        skipped = {u.source for u in tree.units if u.name in tree.prebuilt}
        texts = {**self.view, **folder_texts(tree, staging.folder, ("ninja",))}
        for path, text in texts.items():
            if path not in skipped:
                write_atomic(staging.folder / path, text.encode())

    def _compile(
        self,
        staging: Staging,
        tree: Tree,
        missing: Sequence[Unit],
        options: Options,
        progress: Callback,
    ) -> None:
        if options.executor is not None and missing:
            compile_on(options.executor, staging.folder, tree, missing, progress, options.timeout)
            # The objects lie where ninja wants them; what is left is the registration and the link.
            built = {u.name: u.object for u in missing}
            tree = self._tree(self.library, {**tree.prebuilt, **built})
            self._write(staging, tree)
            progress = _silent
        run_ninja(
            staging.folder,
            jobs=options.jobs,
            progress=progress,
            timeout=options.timeout,
            keep_depfiles=True,
        )

    def _publish_objects(self, staging: Staging, units: Iterable[Unit]) -> set[str]:
        """Publish the objects of ``units``; returns the headers they and the registration read."""
        read = set(self._read(staging, "obj/library.o"))
        for unit in units:
            headers = self._read(staging, unit.object)
            context = self.contexts[unit.variant]
            assert context is not None
            self.store.publish(
                staging,
                "objects",
                self.object_keys[unit.name],
                staging.folder / unit.object,
                label=unit.name,
                context=context,
                headers=self.headers.listing(headers),
            )
            read.update(headers)
        return read

    def _read(self, staging: Staging, path: str) -> list[str]:
        try:
            return read_depfile(staging.folder / f"{path}.d")
        except OSError:
            return []

    def _publish_library(self, staging: Staging, tree: Tree, read: set[str]) -> Path:
        listing: dict[tuple[str, bool], list[str]] = {
            (path, own): contents for path, own, contents in self.headers.listing(read)
        }
        for unit in tree.units:
            if unit.name in tree.prebuilt:
                for path, own, contents in self._listing_of(tree.prebuilt[unit.name]):
                    listing[path, own] = contents
        assert self.library_context is not None
        headers: Listing = [(p, own, c) for (p, own), c in sorted(listing.items())]
        return self.store.publish(
            staging,
            "libraries",
            self.library_key,
            staging.folder / tree.output,
            label=f"{len(tree.units)} kernels",
            context=self.library_context,
            headers=headers,
        )

    def _listing_of(self, artefact: str) -> Listing:
        from .store import read_entry

        entry = read_entry(Path(artefact).parent)
        if entry is None:
            raise BuildError(
                f"{artefact} changed while it was in use; run again, or `ckdisp cache verify`"
            )
        return entry.headers


def _silent(done: int, total: int, what: str) -> None:
    """The progress of the link, after an executor has reported that of the compilation."""


def _finished(staging: Staging, units: Sequence[Unit]) -> list[Unit]:
    """The units that ninja compiled to the end before another one failed."""
    try:
        log = (staging.folder / ".ninja_log").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    done = {line.split("\t")[3] for line in log.splitlines() if line.count("\t") >= 4}
    return [u for u in units if u.object in done]


def _platform() -> str:
    """What a library needs of the system beyond the compiler: kind, machine, C library."""
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, ValueError, OSError):
        libc = ""
    return f"{sys.platform} {os.uname().machine} {libc}"
