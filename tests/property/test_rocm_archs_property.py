"""Lists of GPU archs, written in any of the ways that build systems write them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ckdisp.codegen.arch import arch
from ckdisp.codegen.rocm.archs import SHARED_SETTINGS, find_archs, gpu_names

known = st.sampled_from(gpu_names())
features = st.sampled_from(["", ":xnack-", ":sramecc+", ":sramecc+:xnack-", ":xnack+:sramecc-"])
foreign = st.sampled_from(["gfx900", "gfx906", "gfx1030", "gfx9-4-generic", "generic", "gfx94"])
plain = known.filter(lambda name: not arch(name).target_features)
featured = known.filter(lambda name: bool(arch(name).target_features))
targets = st.one_of(plain, st.tuples(featured, features).map("".join), foreign)
separators = st.sampled_from([";", ",", " ", "; ", ", ", ";;", "\n"])


@given(st.lists(st.tuples(targets, separators), min_size=1), st.sampled_from(SHARED_SETTINGS))
def test_every_known_arch_is_kept_in_order(words: list[tuple[str, str]], name: str) -> None:
    found = find_archs({name: "".join(target + separator for target, separator in words)})
    bases = [target.partition(":")[0] for target, _ in words]
    assert found.names == tuple(dict.fromkeys(b for b in bases if b in gpu_names()))
    assert found.left_out == tuple(dict.fromkeys(b for b in bases if b not in gpu_names()))
    assert found.origin.startswith(f"{name}=")
    assert bool(found.warning()) == bool(found.left_out)


@given(st.text())
def test_any_text_gives_archs_or_none(text: str) -> None:
    found = find_archs({"PYTORCH_ROCM_ARCH": text, "PATH": ""})
    assert set(found.names) <= set(gpu_names())
