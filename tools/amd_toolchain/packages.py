"""Packages of the system (apt) and wheels (pip)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from common import HERE, Failure, run, say

# LLVM 20 is the first that knows gfx950 and can read the device libraries of ROCm 7.
MIN_CLANG = 20
_APT = ("apt-get", "-qq", "-o", "DPkg::Lock::Timeout=600", "-o", "APT::Sandbox::User=root")
_NEEDS = ("clang-{}", "lld-{}", "llvm-{}", "clang-tools-{}")


class Apt:
    """The package manager of Debian; asked only for what is missing."""

    def __init__(self) -> None:
        if shutil.which("apt-get") is None:
            raise Failure("there is no apt-get here; this needs Debian 12 or newer")
        self._updated = False

    def clang(self, wanted: str) -> Path:
        """The ``bin`` folder of LLVM: of version ``wanted`` if installed, else of the newest."""
        found = Path(f"/usr/lib/llvm-{wanted}/bin")
        if not wanted or not (found / "clang").exists():
            self.update()
            versions = [n for n in self._versions() if n >= MIN_CLANG]
            if not versions:
                raise Failure(
                    f"no clang {MIN_CLANG} or newer is packaged for this system. Debian 12 and 13 "
                    "have one in their security suite: enable it in the sources of apt, or use a "
                    "newer system"
                )
            wanted = str(max(versions))
            found = Path(f"/usr/lib/llvm-{wanted}/bin")
        self.need(*(name.format(wanted) for name in _NEEDS), "g++")
        if not (found / "clang").exists():
            raise Failure(f"clang-{wanted} is installed, but there is no {found}/clang")
        return found

    def _versions(self) -> list[int]:
        names = set(run("apt-cache", "pkgnames").split())
        numbers = {int(m[1]) for name in names if (m := re.fullmatch(r"clang-(\d+)", name))}
        return [
            n
            for n in numbers
            if all(template.format(n) in names for template in _NEEDS) and self._candidate(n)
        ]

    def _candidate(self, version: int) -> bool:
        policy = run("apt-cache", "policy", f"clang-{version}", env={"LC_ALL": "C"})
        return re.search(r"Candidate: (?!\(none\))", policy) is not None

    def update(self) -> None:
        """Refresh the lists once; old lists may do, so an error is only reported."""
        if self._updated or os.geteuid() != 0:
            return
        self._updated = True
        say("apt-get update")
        try:
            run(*_APT, "update")
        except Failure as failure:
            say(f"warning: {failure}")

    def need(self, *packages: str) -> None:
        """Install what is not installed yet."""
        missing = [name for name in packages if not _installed(name)]
        if not missing:
            return
        if os.geteuid() != 0:
            raise Failure(
                f"missing packages: {' '.join(missing)}. Only root can install them: run this as "
                f"root, or `apt-get install {' '.join(missing)}` first"
            )
        self.update()
        say(f"apt-get install {' '.join(missing)}")
        run(
            *(*_APT, "install", "-y", "--no-install-recommends", *missing),
            env={"DEBIAN_FRONTEND": "noninteractive"},
            hint="check the network, the sources of apt and the free space of the disk",
        )

    def unpack(self, package: str, folder: Path) -> None:
        """Unpack a package into ``folder`` without installing it."""
        self.update()
        hint = "check the network and the sources of apt; root also refreshes their lists"
        run(*_APT, "download", package, cwd=folder, hint=hint)
        (archive,) = folder.glob("*.deb")
        run("dpkg-deb", "-x", archive, folder)
        archive.unlink()


def _installed(package: str) -> bool:
    status = subprocess.run(
        ["dpkg-query", "-W", "-f=${db:Status-Status}", package],
        capture_output=True,
        text=True,
        check=False,
    )
    return status.stdout == "installed"


def _pip(apt: Apt | None, work: Path) -> list[str]:
    """A command that runs pip, which the Python of a system may lack."""
    for python in (
        sys.executable,
        os.environ.get("PYTHON", ""),
        str(HERE.parent.parent / ".venv" / "bin" / "python"),
    ):
        if not python:
            continue
        command = [python, "-m", "pip"]
        try:
            works = subprocess.run([*command, "--version"], capture_output=True, check=False)
        except OSError:
            continue
        if works.returncode == 0:
            return command
    venv = work / "venv"
    made = subprocess.run([sys.executable, "-m", "venv", venv], capture_output=True, check=False)
    if made.returncode == 0:
        return [str(venv / "bin" / "python"), "-m", "pip"]
    (apt or Apt()).need("python3", "python3-pip")
    return ["/usr/bin/python3", "-m", "pip"]


def wheel(requirement: str, keep: Path | None, apt: Apt | None, work: Path) -> Path:
    """The wheel of ``name==version``, from the folder ``keep`` if it is there.

    Only data is taken from it, so it is the one for CPython 3.11 whatever runs here.
    """
    fresh = work / "wheels"
    name, _, version = requirement.partition("==")
    pattern = f"{name.replace('-', '_')}-{version}-*.whl"
    if keep is not None and (kept := sorted(keep.glob(pattern))):
        return kept[0]
    say(f"pip download {requirement}")
    platforms = ("manylinux_2_27_x86_64", "manylinux_2_28_x86_64", "any")
    run(
        *(*_pip(apt, work), "download", "-q", "--no-deps", "--only-binary=:all:"),
        *("--python-version", "3.11", "--implementation", "cp", "--abi", "cp311", "--abi", "none"),
        *(option for platform in platforms for option in ("--platform", platform)),
        *("-d", fresh, requirement),
        env={"TMPDIR": str(work), "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        hint="check the network, `pip config list` and the free space of the disk; --wheels FOLDER "
        "takes a wheel that was downloaded elsewhere",
    )
    found = sorted(fresh.glob(pattern))
    if not found:
        raise Failure(f"pip downloaded no {pattern} for {requirement}")
    if keep is None:
        return found[0]
    keep.mkdir(parents=True, exist_ok=True)
    # Under its own name only when it is whole: a run may be killed while it copies.
    partial = keep / f".{found[0].name}.part"
    shutil.move(found[0], partial)
    return partial.rename(keep / found[0].name)


def extract(archive: Path, members: dict[str, Path]) -> None:
    """Unpack the members below each folder of a wheel to the folder it is mapped to."""
    try:
        with zipfile.ZipFile(archive) as opened:
            for prefix, target in members.items():
                found = [i for i in opened.infolist() if i.filename.startswith(prefix)]
                if not found:
                    raise Failure(f"{archive.name} has nothing below {prefix}")
                for info in found:
                    if info.is_dir():
                        continue
                    out = target / info.filename.removeprefix(prefix)
                    out.parent.mkdir(parents=True, exist_ok=True)
                    out.write_bytes(opened.read(info))
    except zipfile.BadZipFile as error:
        raise Failure(f"{archive} is damaged ({error}); delete it and run again") from None
