"""What holds for the rules of every op, shown with keys that break each of them."""

from __future__ import annotations

from collections.abc import Sequence

from ckdisp.codegen.columns import Array, from_keys
from ckdisp.codegen.key import KernelKey
from ckdisp.codegen.rules import Rule, catalogue, check_all


class _Declared(dict[str, Array]):
    def __missing__(self, column: str) -> Array:
        raise AssertionError(f"reads {column}, which it does not declare")


def breaks_alone(key: KernelKey, rule: str, words: str) -> None:
    """``key`` breaks ``rule`` and no other, for a reason with these words."""
    found = key.check()
    assert [rejection.rule for rejection in found] == [rule], found
    assert words in found[0].reason
    assert str(found[0]) == f"{rule}: {found[0].reason}"


def hold(rules: Sequence[Rule], keys: Sequence[KernelKey]) -> None:
    """Rules read what they declare, judge many keys as each, and are in the catalogue."""
    columns = from_keys(type(keys[0]), keys)
    for rule in rules:
        rule.valid(_Declared({name: columns[name] for name in rule.columns}))
    assert check_all(keys) == [key.check() for key in keys]
    rows = catalogue()[type(keys[0]).op]
    assert [row["name"] for row in rows] == [rule.name for rule in rules]
    assert all(row["doc"] and row["columns"] for row in rows)
