"""The compilers of one build, with what was asked of them before."""

from __future__ import annotations

from pathlib import Path

from ..codegen.compilers import find_cuda, find_cxx, find_hip
from ..codegen.cuda import CudaToolchain
from ..codegen.emit.tree import Tree, needs
from ..codegen.errors import BuildError
from ..codegen.key import KernelKey
from ..codegen.rocm import HipToolchain
from ..codegen.rocm.search import include_dirs
from ..codegen.steps import Rule
from ..codegen.toolchain import Toolchain
from .digest import digest
from .probes import Probes


class Compilers:
    """The C++ compiler, and the HIP compiler and nvcc if some kernel needs one.

    ``missing`` says why one of them is not there; then neither is used.
    """

    def __init__(
        self,
        keys: list[tuple[str, KernelKey]],
        toolchain: Toolchain | None,
        hip: HipToolchain | None,
        cuda: CudaToolchain | None = None,
    ) -> None:
        self.missing: BuildError | None = None
        self.hip = hip if needs("hip", keys) else None
        self.cuda = cuda if needs("cuda", keys) else None
        self.cxx = toolchain
        try:
            self.hip = self.hip or find_hip(keys)
            self.cuda = self.cuda or find_cuda(keys)
            self.cxx = self.cxx or find_cxx(keys, self.hip)
        except BuildError as error:
            self.missing = error

    def ask(self, root: Path) -> None:
        """Find out what the compilers are and can do; answers are kept in the cache ``root``."""
        assert self.cxx is not None
        self.identities = {"cxx": self.cxx.identity()}
        self._probes = {"cxx": Probes(root, self.identities["cxx"], *self.cxx.cxx_flags)}
        self.folders = {"cxx": self.cxx.system_dirs()}
        if self.hip is not None:
            self.identities["hip"] = self.hip.identity()
            self._probes["hip"] = Probes(root, self.identities["hip"])
            self.folders["hip"] = include_dirs(self.hip)
        if self.cuda is not None:
            # The C++ compiler makes the host's part.
            self.identities["cuda"] = digest(self.cuda.identity(), self.identities["cxx"])
            self.folders["cuda"] = (*self.cuda.include_dirs, *self.folders["cxx"])

    def accepts(self, flag: str) -> bool:
        cxx = self.cxx
        assert cxx is not None
        return self._probes["cxx"].accepts(flag, lambda: cxx.accepts(flag))

    def hip_accepts(self, flags: tuple[str, ...]) -> bool:
        hip = self.hip
        assert hip is not None
        return self._probes["hip"].accepts(" ".join(flags), lambda: hip.accepts(*flags))

    def save(self) -> None:
        """Keep what was asked."""
        for probes in self._probes.values():
            probes.save()

    def context(self, rule: Rule, tree: Tree) -> str:
        """A digest of compiler and flags."""
        extra: tuple[str, ...] = ()
        if rule.compiler == "cxx":
            assert self.cxx is not None
            extra = (*tree.optional_flags, *self.cxx.cxx_flags)
        return digest(self.identities[rule.compiler], *rule.flags, *extra)
