"""Endurance of the kernel cache: many builders, and everything that can go wrong, for a while.

``make stress-cache MINUTES=60``, or ``.venv/bin/python tools/stress_cache.py --minutes 60``. As
root the cache is a tmpfs of 200 MB; else it is a folder. Builders build random sets of kernels that
do nothing, by a compiler that now and then sleeps, crashes, or reports success for half an output
or for none. Meanwhile builders are killed, the cache is cleared, pruned, verified and removed by
hand, and its disk fills up.

What must hold: a build that succeeds gives a library that loads and has the kernels asked for; a
build that fails raises an error of ckdisp; nothing hangs; whatever a killed builder started ends;
at the end the cache is whole, no answer of a compiler is wrong, and a build works. The exit status
is 1 if something did not hold. The figures are printed, and written to ``--report`` as JSON.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from stub_kernels import keys, write_headers

import ckdisp
from ckdisp.codegen.toolchain import which
from ckdisp.jit import build as build_module
from ckdisp.jit import cache

POOL = 40  # kernels to choose from
BUILDS = 150  # of one builder, which then ends: a library stays loaded until its process ends
HANG_SECONDS = 420  # no build takes that long, even on a busy machine
ORPHAN_SECONDS = 30  # until everything that a killed builder has started must have ended
TOKEN = "CKDISP_STRESS_BUILDER"

# In front of a real compiler. What was compiled before is copied, so that an hour costs little.
COMPILER = """\
#!/bin/bash
here={here}
real={real}
for word; do [ "$last" = -o ] && out=$word; [ "$last" = -MF ] && dep=$word; last=$word; done
percent=$(cat "$here/mishaps")
chance() {{ [ $((RANDOM % 1000)) -lt $(($1 * percent / 10)) ]; }}
half() {{ truncate -s $(($(stat -c %s "$1") / 2)) "$1"; }}
case " $* " in
*" -E "*|*" --version "*|*" -print-prog-name"*) exec $real "$@" ;;
*/probe.cpp*)
  chance 10 && {{ echo "fatal error: cannot write: No space left on device" >&2; exit 1; }}
  chance 5 && kill -KILL $$
  chance 5 && exit 0
  cp /bin/sh "$out"; exit ;;
*" -c "*)
  for word; do case $word in *.cpp) source=$word ;; esac; done
  chance 10 && {{ echo "$source:1:1: error: the compiler was told to fail" >&2; exit 1; }}
  chance 5 && kill -SEGV $$
  chance 5 && exit 0
  chance 20 && sleep $((RANDOM % 4))
  chance 1 && sleep 40
  memo=$here/memo/$(cat "$source" | sha256sum | cut -c1-40)
  if [ ! -e "$memo.o" ]; then
    mine=$here/memo/new.$$
    $real "${{@/$out/$mine.o}}" || exit
    mv -f "$mine.o.d" "$mine.d" || exit
    sed -i "s#^[^:]*: #OUT: #" "$mine.d"
    mv "$mine.d" "$memo.d" && mv "$mine.o" "$memo.o"
  fi
  cp "$memo.o" "$out" && sed "s#^OUT: #$out: #" "$memo.d" > "$dep" || exit
  chance 10 && half "$out"
  exit 0 ;;
*)
  chance 10 && {{ echo "collect2: fatal error: ld terminated with signal 9 [Killed]" >&2; exit 1; }}
  chance 5 && exit 0
  $real "$@" || exit
  chance 10 && half "$out"
  exit 0 ;;
esac
"""


def build_some(folder: Path, seed: int, builds: int) -> None:
    """One builder: build, check, write down, again."""
    headers = write_headers_once(folder)
    build_module.own_include_dirs = lambda: headers  # type: ignore[attr-defined]
    build_module.missing_headers = dict  # type: ignore[attr-defined]
    compiled: list[object] = []
    real = build_module._Job.build

    def counting(job: build_module._Job, options: build_module.Options) -> Path:
        compiled.append(job)
        return real(job, options)

    build_module._Job.build = counting  # type: ignore[method-assign]
    rng = random.Random(seed)
    with (folder / "logs" / f"{os.environ[TOKEN]}.jsonl").open("a") as log:
        for _ in range(builds):
            wanted = ckdisp.KernelSet(
                keys(1, rng.randrange(POOL))[0] for _ in range(rng.randint(1, 5))
            )
            event: dict[str, object] = {}
            print(json.dumps({"begin": time.time()}), file=log, flush=True)
            compiled.clear()
            try:
                registry = wanted.build(jobs=2, progress=False, cache_dir=folder / "disk" / "cache")
                found = sorted(kernel.name for kernel in registry.kernels())
                event["result"] = "built" if compiled else "hit"
                if found != sorted(wanted.names()):
                    event["violation"] = f"asked for {wanted.names()}, got {found}"
            except ckdisp.Error as error:
                event["result"] = type(error).__name__
                event["text"] = str(error)[:600]
            except BaseException as error:
                event["result"] = event["violation"] = f"raw {type(error).__name__}: {error}"
            print(json.dumps({**event, "end": time.time()}), file=log, flush=True)


def write_headers_once(folder: Path) -> list[Path]:
    target = folder / "headers"
    return [target / "include", target] if target.exists() else write_headers(target)


class Stress:
    """One run: builders, what is done to them, and the figures."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self.folder, self.options = folder, options
        self.root = folder / "disk" / "cache"
        self.rng = random.Random(options.seed)
        self.builders: dict[str, tuple[subprocess.Popen[bytes], float]] = {}
        self.ended: dict[str, float] = {}
        self.started = 0
        self.count: collections.Counter[str] = collections.Counter()
        self.violations: list[str] = []
        self.environment = {
            **os.environ,
            "CXX": str(folder / "c++"),
            "CKDISP_COMPILER_LAUNCHER": "",
            "CMAKE_CXX_COMPILER_LAUNCHER": "",
        }

    def start(self, builds: int = BUILDS) -> None:
        self.started += 1
        token = f"{os.getpid()}-{self.started}"
        seed = self.rng.randrange(1 << 30)
        command = [sys.executable, __file__, "--builder", str(seed), "--folder", str(self.folder)]
        command += ["--builds", str(builds)]
        errors = (self.folder / "logs" / f"{token}.err").open("w")
        process = subprocess.Popen(
            command, env={**self.environment, TOKEN: token}, stdout=errors, stderr=errors
        )
        self.builders[token] = (process, time.monotonic())

    def guarded(self, what: str, action: Callable[[], object]) -> object:
        self.count[what] += 1
        try:
            return action()
        except ckdisp.Error as error:
            self.count[f"{what}: {type(error).__name__}"] += 1
        except Exception as error:
            self.violations.append(f"{what} raised {type(error).__name__}: {error}")
        return None

    def kill(self) -> None:
        process, _ = self.builders[self.rng.choice(list(self.builders))]
        process.kill()
        self.count["kills"] += 1

    def remove(self) -> None:
        """What ``rm -rf`` does, with all its mishaps."""
        shutil.rmtree(self.root, ignore_errors=True)

    def fill(self) -> None:
        """Leave little or no room for some seconds."""
        room = os.statvfs(self.folder / "disk")
        size = room.f_bavail * room.f_frsize - self.rng.choice((0, 4096, 65536, 1 << 20))
        filler = self.folder / "disk" / "filler"
        with contextlib.suppress(OSError), filler.open("wb") as stream:
            os.posix_fallocate(stream.fileno(), 0, max(1, size))
        time.sleep(self.rng.uniform(2, 6))
        filler.unlink(missing_ok=True)

    def act(self) -> None:
        """One of the things that happen to a cache."""
        where = {"cache_dir": self.root}
        limit = self.rng.choice((0, 50_000, 500_000, 5_000_000))
        actions: list[tuple[int, str, Callable[[], object]]] = [
            (12, "", self.kill),
            (4, "clears", lambda: cache.clear(**where)),
            (3, "prunes", lambda: cache.prune(**where)),
            (3, "prunes", lambda: cache.prune(max_bytes=limit, **where)),
            (5, "verifies", self.verify),
            (1, "removals", self.remove),
            (2 if self.options.mounted else 0, "full disks", self.fill),
        ]
        _, what, action = self.rng.choices(actions, [weight for weight, _, _ in actions])[0]
        self.guarded(what, action) if what else action()

    def verify(self) -> None:
        """Entries that are bad while nobody damages any were published bad."""
        for entry in cache.verify(cache_dir=self.root):
            time.sleep(0.5)
            if entry.folder.exists() and (entry.folder / "entry.json").exists():
                self.violations.append(f"verify found {entry}")

    def watch(self) -> None:
        """Start builders anew, and look for what hangs and what should have ended."""
        now = time.monotonic()
        for token, (process, _) in list(self.builders.items()):
            if process.poll() is not None:
                if process.returncode not in (0, -signal.SIGKILL):
                    text = (self.folder / "logs" / f"{token}.err").read_text()[-2000:]
                    self.violations.append(f"a builder ended with {process.returncode}: {text}")
                self.ended[token] = now
                del self.builders[token]
                self.start()
                continue
            lines = self.events(token)
            if lines and "begin" in lines[-1] and time.time() - lines[-1]["begin"] > HANG_SECONDS:
                self.violations.append(f"builder {token} hangs")
                process.kill()
        for pid, token in marked():
            ended = self.ended.get(token)
            if ended is not None and now - ended > ORPHAN_SECONDS:
                self.violations.append(f"process {pid} outlives its builder: {command_of(pid)}")
                self.ended[token] = now + 1e9  # say so once

    def events(self, token: str) -> list[dict[str, float]]:
        try:
            lines = (self.folder / "logs" / f"{token}.jsonl").read_text().splitlines()
        except OSError:
            return []
        events = []
        for line in lines:
            with contextlib.suppress(ValueError):  # the last line of one that was killed
                events.append(json.loads(line))
        return events

    def run(self) -> None:
        end = time.monotonic() + self.options.minutes * 60
        said = time.monotonic()
        for _ in range(self.options.builders):
            self.start()
        while time.monotonic() < end:
            time.sleep(self.rng.uniform(0.5, 4))
            self.act()
            self.watch()
            if time.monotonic() - said > 60:
                said = time.monotonic()
                left = (end - said) / 60
                print(f"{left:.0f} min left, {len(self.violations)} violations", flush=True)
        for process, _ in self.builders.values():
            process.kill()
            process.wait()

    def check_end(self) -> None:
        """The cache is whole, nothing runs, and a build works."""
        deadline = time.monotonic() + ORPHAN_SECONDS
        while marked() and time.monotonic() < deadline:
            time.sleep(0.5)
        for pid, _ in marked():
            self.violations.append(f"left running: {pid} {command_of(pid)}")
        (self.folder / "mishaps").write_text("0")
        self.guarded("last prune", lambda: cache.prune(cache_dir=self.root))
        for name in ("staging", "failed"):
            left = list((self.root / name).glob("*"))
            if left:
                self.violations.append(f"left in {name}: {[p.name for p in left]}")
        self.violations += [f"at the end {e} is bad" for e in cache.verify(cache_dir=self.root)]
        for path in (self.root / "compilers").glob("*"):
            if False in json.loads(path.read_text()).values():
                self.violations.append(f"a wrong answer was kept: {path.read_text()}")
        self.builders.clear()
        self.start(builds=8)
        ((token, (process, _)),) = self.builders.items()
        process.wait()
        results = {e["result"] for e in self.events(token) if "result" in e}
        if not results or not results <= {"built", "hit"}:
            self.violations.append(f"builds of the end: {results}")

    def report(self) -> dict[str, object]:
        texts: collections.Counter[str] = collections.Counter()
        for log in sorted((self.folder / "logs").glob("*.jsonl")):
            for event in self.events(log.stem):
                if "result" in event:
                    self.count[str(event["result"])] += 1
                if "text" in event:
                    texts[kind_of(str(event["text"]))] += 1
                if "violation" in event:
                    self.violations.append(str(event["violation"]))
        return {
            "minutes": self.options.minutes,
            "builders": self.options.builders,
            "counts": dict(sorted(self.count.items())),
            "errors": dict(texts.most_common(40)),
            "violations": self.violations,
        }


def kind_of(text: str) -> str:
    """The first line of an error, without the names in it."""
    words = text.splitlines()[0].split()
    return " ".join(w if "/" not in w and len(w) < 30 else "..." for w in words)[:160]


def marked() -> list[tuple[int, str]]:
    """Processes that some builder of this run has started, or is, with its token."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            for item in path.read_bytes().split(b"\0"):
                if item.startswith(f"{TOKEN}={os.getpid()}-".encode()):
                    found.append((int(path.parent.name), item.decode().partition("=")[2]))
    return found


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:200]
    except OSError:
        return "(it has ended since)"


@contextlib.contextmanager
def disk(folder: Path, megabytes: int) -> Iterator[bool]:
    """A small disk at ``folder``, if this user may mount one; whether there is one."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "tmpfs", str(folder)]
    mounted = os.geteuid() == 0 and subprocess.run(mount, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--builders", type=int, default=8)
    parser.add_argument("--megabytes", type=int, default=200, help="of the disk of the cache")
    parser.add_argument("--mishaps", type=int, default=30, help="how often, 0 to 100")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path, help="file for the figures")
    parser.add_argument("--builder", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--builds", type=int, default=BUILDS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.builder is not None:
        build_some(options.folder, options.builder, options.builds)
        return 0
    real = which("c++") or which("g++")
    assert real is not None, "install a C++ compiler"
    with tempfile.TemporaryDirectory(prefix="ckdisp-stress-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        for part in ("logs", "memo"):
            (folder / part).mkdir()
        (folder / "mishaps").write_text(str(options.mishaps))
        (folder / "c++").write_text(COMPILER.format(here=folder, real=real))
        (folder / "c++").chmod(0o755)
        write_headers_once(folder)
        with disk(folder / "disk", options.megabytes) as options.mounted:
            stress = Stress(folder, options)
            stress.run()
            stress.check_end()
        report = stress.report()
    print(json.dumps(report, indent=1))
    if options.report is not None:
        options.report.write_text(json.dumps(report, indent=1))
    return 1 if stress.violations else 0


if __name__ == "__main__":
    sys.exit(main())
