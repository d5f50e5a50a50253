"""What CK Tile's own generator would build, and how it names what our keys say."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from amd import missing, toolchain

_PREFIXES = {
    "fmha.splitkv_combine": "fmha_fwd_splitkv_combine_d",
    "fmha.splitkv": "fmha_fwd_splitkv_d",
    "fmha.pagedkv": "fmha_fwd_pagedkv_d",
    "fmha.appendkv": "fmha_fwd_appendkv_d",
    "fmha.batch_prefill": "fmha_batch_prefill_d",
    "fmha.fwd": "fmha_fwd_d",
    "fmha.bwd_dot_do_o": "fmha_bwd_dot_do_o_d",
    "fmha.bwd_convert_dq": "fmha_bwd_convert_dq_d",
    "fmha.bwd_dq_dk_dv": "fmha_bwd_d",
}
_APIS = "fwd,fwd_splitkv,pagedkv_prefill,fwd_appendkv,batch_prefill,bwd"
# CK tells no other archs apart.
_TARGETS = {"gfx90a": "gfx9", "gfx942": "gfx9", "gfx950": "gfx950", "gfx1201": "gfx12"}
# The generator compares every kernel of the backward lists with every other one, for minutes.
_RUN = """
import runpy, sys
folder = sys.argv.pop(1)
sys.path.insert(0, folder)
import codegen.utils
codegen.utils.check_duplicates_and_paddings = lambda traits, trait: None
runpy.run_path(folder + "/generate.py", run_name="__main__")
"""


def generator() -> Path:
    """CK's ``generate.py``, from the toolchain that tests compile with."""
    checkout = Path(toolchain().ck_include, "ck_tile").resolve().parent.parent
    script = checkout / "example/ck_tile/01_fmha/generate.py"
    if not script.is_file():
        missing(f"no {script}: these CK Tile headers come without the generator")
    return script


def blobs(family: str, arch: str, receipt: int) -> Counter[str]:
    """The names of the kernels of ``family`` that CK builds, without the arch."""
    return Counter(_listed(generator(), _TARGETS[arch], receipt)[family])


@functools.cache
def _listed(script: Path, target: str, receipt: int) -> dict[str, list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "blobs.txt")
        command = [sys.executable, "-B", "-c", _RUN, str(script.parent), "--targets", target]
        command += ["--api", _APIS, "--receipt", str(receipt), "--list_blobs", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        files = [Path(line).stem for line in out.read_text().splitlines()]
    found: dict[str, list[str]] = {family: [] for family in _PREFIXES}
    for file in files:
        if not file.endswith("_api"):
            found[_family(file)].append(re.sub(r"_gfx\w+$", "", file))
    return found


def _family(name: str) -> str:
    return next(family for family, prefix in _PREFIXES.items() if name.startswith(prefix))


def blob_name(key) -> str:
    """CK's name of the kernel of ``key``, without the arch."""
    family = key.family
    parts = [f"{_PREFIXES[family]}{key.hdim_v if 'combine' in family else key.hdim_q}", key.dtype]
    if family == "fmha.splitkv_combine":
        tile = f"b{key.tile[0]}" + _occupancy(key)
        parts += [key.mode, tile, "unused", _pads(key, "s", "", "", "dv")]
        parts += [_flag("lse", key.lse), _flag("squant", key.qscale != "no")]
    elif family == "fmha.appendkv":
        tile = "b" + "x".join(map(str, key.tile[:4])) + _occupancy(key)
        rope = {"none": "", "interleaved": "inter", "half_rotated": "half"}[key.rope]
        parts += [tile, f"v{key.vlayout}", _pads(key).replace("npad", ""), rope]
        parts += ["pagedkv" if key.paged_kv else ""]
    elif family == "fmha.bwd_dot_do_o":
        tile = f"b{key.tile[0]}"
        parts += [tile, key.mode, f"o{key.block_per_cu}", _pads(key, "s", "", "", "dv")]
    elif family == "fmha.bwd_convert_dq":
        tile = f"b{key.tile[0]}x{key.tile[1]}"
        parts += [tile, key.mode, f"o{key.block_per_cu}", _pads(key, "s", "", "d", "")]
        parts += [_flag("deterministic", key.deterministic)]
    elif family == "fmha.bwd_dq_dk_dv":
        parts += _gradient(key)
    else:
        parts += _forward(key)
    return "_".join(part for part in parts if part)


def _x(numbers) -> str:
    return "x".join(map(str, numbers))


def _flag(name: str, value: bool) -> str:
    return name if value else f"n{name}"


def _occupancy(key) -> str:
    return f"_o{key.block_per_cu}" if key.block_per_cu else ""


def _pads(key, *names: str) -> str:
    names = names or ("s", "sk", "d", "dv")
    padded = "".join(n for n, value in zip(names, key.padding, strict=True) if value)
    return f"p{padded}" if padded else "npad"


def _mask(key) -> str:
    if key.mask == "no":
        return "nmask"
    return "mask" if key.simplified_mask else f"m{ {'generic': 'g'}.get(key.mask, 'c') }"


def _forward(key) -> list[str]:
    parts = [key.mode, f"b{_x(key.tile[:6])}"]
    parts += [f"r{_x(key.wave[i : i + 3])}" for i in (0, 3)]
    parts += [f"w{_x(key.warp[i : i + 3])}" for i in (0, 3)]
    parts += [_occupancy(key).strip("_"), key.pipeline, f"v{key.vlayout}", _pads(key)]
    parts += [_flag("logits", key.logits), "nbias" if key.bias == "no" else key.bias, _mask(key)]
    parts += [_flag("lse", key.lse)]
    squant = _flag("squant", key.qscale != "no")
    if key.family == "fmha.splitkv":
        return [*parts, squant, _flag("pagedkv", key.paged_kv)]
    if key.family == "fmha.pagedkv":
        skip = _flag("skip", key.skip_min_seqlen_q)
        return [*parts, skip, squant, _flag("pagedkv", key.paged_kv)]
    parts.append(_flag("dropout", key.dropout))
    if key.family == "fmha.batch_prefill":
        return [*parts, squant]
    skip = _flag("skip", key.skip_min_seqlen_q)
    return [*parts, skip, squant, _flag("trload", key.use_trload)]


def _gradient(key) -> list[str]:
    parts = [key.mode, f"b{_x(key.tile)}"]
    parts += [f"r{_x(key.wave[i : i + 3])}" for i in (0, 3, 6)]
    parts += [f"w{_x(key.warp[i : i + 3])}" for i in (0, 3)]
    parts += [f"o{key.block_per_cu or -1}", f"maxq{key.max_seq_len_q}"]
    pads = "".join(f"{n}{v}" for n, v in zip(("d", "dv"), key.padding[2:], strict=True) if v)
    parts += [f"p{pads}" if pads else "npad", "nbias" if key.bias == "no" else key.bias]
    dropout = f"dropout_wg{key.dropout_warp}" + "_storerandval" * key.store_randval
    parts += [_flag("dbias", key.dbias), _mask(key), dropout if key.dropout else "ndropout"]
    return [*parts, _flag("deterministic", key.deterministic), _flag("trload", key.use_trload)]
