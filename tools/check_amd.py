"""Compile random kernels for AMD GPUs and check the code: every key that the rules pass must work.

Prints a table of what was tried, what failed and what spills registers, by arch; the exit status
is 1 if something failed. A kernel that fails is a rule that is missing, or a fault of the provider.
With --curated the kernels are the curated tiles, of which only those that say why may spill.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from amd_sample import ARCHS, OPS, Outcome, compile_keys, curated_keys, draw  # noqa: E402

from ckdisp.codegen.arch import arch  # noqa: E402
from ckdisp.codegen.errors import BuildError, InvalidKey  # noqa: E402
from ckdisp.codegen.key import KernelKey  # noqa: E402
from ckdisp.codegen.rocm import HipToolchain  # noqa: E402

_BATCH = 6  # kernels per library


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", type=_positive, default=50, help="kernels in all")
    parser.add_argument("--seed", type=int, default=0, help="another seed draws other kernels")
    parser.add_argument("--curated", action="store_true", help="the curated tiles, none drawn")
    parser.add_argument("--op", choices=OPS, help="kernels of this one, instead of half of each")
    parser.add_argument("--archs", type=_gpus, default=",".join(ARCHS), help="separated by commas")
    parser.add_argument("--jobs", type=_positive, default=2, help="compilers at once")
    parser.add_argument("--log", type=Path, help="a file for one JSON object per kernel")
    options = parser.parse_args()
    names: list[str] = options.archs
    try:
        features = HipToolchain.find().features()
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    operations = (options.op,) if options.op else OPS
    keys: dict[str, dict[KernelKey, str]] = {name: {} for name in names}
    for name in names:
        for operation in operations:
            if options.curated:
                keys[name] |= curated_keys(name, operation)
            else:
                count = -(-options.n // (len(names) * len(operations)))
                drawn = draw(name, operation, count, options.seed, features)
                keys[name] |= dict.fromkeys(drawn, "any")
    outcomes: dict[str, list[Outcome]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory(prefix="ckdisp-check-") as folder:
        # Batches go round the archs, so that a run that is cut short has been everywhere.
        for start in range(0, max(map(len, keys.values())), _BATCH):
            for name in names:
                batch = list(keys[name])[start : start + _BATCH]
                found = compile_keys(batch, Path(folder, name), options.jobs) if batch else []
                for outcome in found:
                    if not keys[name][outcome.key]:
                        outcome.errors += outcome.slow
                    _tell(outcome, options.log)
                outcomes[name] += found
    return _table(outcomes)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return int(text)


def _gpus(text: str) -> list[str]:
    try:
        found = [arch(name) for name in text.split(",")]
    except InvalidKey as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    for facts in found:
        if not facts.is_gpu:
            raise argparse.ArgumentTypeError(f"{facts.name} is not a GPU; e.g. {ARCHS[0]}")
    return [facts.name for facts in found]


def _tell(outcome: Outcome, log: Path | None) -> None:
    state = "FAILED" if outcome.errors else "slow" if outcome.slow else "ok"
    reasons = dict.fromkeys((*outcome.errors, *outcome.slow))
    print(f"{state:7}{outcome.key.name}", *reasons, sep="\n       ", flush=True)
    if log is not None:
        record = {
            "kernel": outcome.key.name,
            "errors": outcome.errors,
            "slow": outcome.slow,
            "kernels": [report.to_dict() for report in outcome.kernels],
        }
        with log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def _table(outcomes: dict[str, list[Outcome]]) -> int:
    row = "{:10}{:>8}{:>8}{:>8}".format
    print("\n" + row("arch", "tried", "failed", "slow"))
    every = [outcome for found in outcomes.values() for outcome in found]
    for name, found in (*outcomes.items(), ("all", every)):
        failed = sum(bool(outcome.errors) for outcome in found)
        slow = sum(bool(outcome.slow) for outcome in found)
        print(row(name, len(found), failed, slow))
    return 1 if any(outcome.errors for outcome in every) else 0


if __name__ == "__main__":
    sys.exit(main())
