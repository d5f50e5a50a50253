"""Filter expressions: which keys to keep, in a small part of Python's syntax.

``hdim_q == 128 and mask in ("no", "generic") and tile_0 * tile_1 <= 16384``. Names are fields and
columns of keys, and ``name``. There are literals, lists, comparisons, ``in``, ``and``, ``or``,
``not``, arithmetic with ``+ - * // %`` and numbers of a field such as ``tile[0]``; nothing is
called, and nothing else can be reached.
"""

from __future__ import annotations

import ast
import functools
import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .columns import Array, Columns, to_keys
from .enums import unknown
from .errors import InvalidKey
from .key import KernelKey
from .ops import key_classes
from .rules import Rule
from .schema import columns_of, fields_by_name, without_zeros

Value = Callable[[KernelKey], Any]

_MAX_LENGTH = 10_000


def _short(value: Any) -> Any:
    """Numbers of a field without the zeros that it ends with, as names and JSON show them."""
    if not isinstance(value, tuple) or not all(isinstance(n, int) for n in value):
        return value
    return without_zeros(value)


def _is_in(value: Any, listed: Any) -> bool:
    if isinstance(listed, str):
        return value in listed
    return _short(value) in [_short(item) for item in listed]


_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: lambda x, y: _short(x) == _short(y),
    ast.NotEq: lambda x, y: _short(x) != _short(y),
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: _is_in,
    ast.NotIn: lambda x, y: not _is_in(x, y),
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def compile_filter(text: str) -> Callable[[KernelKey], bool]:
    """The predicate that ``text`` says; :class:`InvalidKey` for what it may not hold."""
    return _predicate(text, _parse(text)[1])


def filter_rules(text: str, key_class: type[KernelKey]) -> list[Rule] | None:
    """The rules that together say ``text`` of keys of ``key_class``: one for each term of ``and``.

    None if a term reads ``name``, which is no column.
    """
    body, _ = _parse(text)
    terms = body.values if isinstance(body, ast.BoolOp) and isinstance(body.op, ast.And) else [body]
    rules = []
    for i, term in enumerate(terms):
        # The terms before one that divides may keep it from dividing by zero.
        alone = not any(isinstance(node, (ast.FloorDiv, ast.Mod)) for node in ast.walk(term))
        said = term if alone or not i else ast.BoolOp(ast.And(), terms[: i + 1])
        names = {node.id for node in ast.walk(said) if isinstance(node, ast.Name)}
        if "name" in names:
            return None
        rules.append(_rule(text, said, names, key_class))
    return rules


def _rule(text: str, term: ast.expr, names: set[str], key_class: type[KernelKey]) -> Rule:
    fields = fields_by_name(key_class)
    read = {c for n in names for c in (fields[n].columns() if n in fields else (n,))}
    columns = tuple(name for name in columns_of(key_class) if name in read)
    keep = _predicate(text, _value(term))

    def valid(rows: Columns) -> Array:
        shape = np.broadcast_shapes(*(np.shape(rows[name]) for name in columns), (1,))
        table = np.zeros((*shape, len(columns) + 1), np.int64)
        for i, name in enumerate(columns):
            table[:, i] = rows[name]
        distinct, where = np.unique(table, axis=0, return_inverse=True)
        # What the term does not read can be anything.
        whole = dict.fromkeys(columns_of(key_class), distinct[:, -1])
        whole.update((name, distinct[:, i]) for i, name in enumerate(columns))
        mask = np.array([keep(key) for key in to_keys(key_class, whole)], np.bool_)
        return mask[where.reshape(-1)]

    said = ast.unparse(term)
    return Rule("filter", said, columns, valid, lambda key: f"{said} is not true")


def _parse(text: str) -> tuple[ast.expr, Value]:
    if len(text) > _MAX_LENGTH:
        raise InvalidKey(f"a filter has at most {_MAX_LENGTH} characters, not {len(text)}")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        return tree.body, _value(tree.body)
    except SyntaxError as error:
        raise InvalidKey(
            f"cannot read the filter {text!r}: {error.msg} at character {error.offset}; "
            "write e.g. \"hdim_q == 128 and mask in ('no', 'generic')\""
        ) from None
    except InvalidKey:
        raise
    except (ValueError, RecursionError, MemoryError) as error:
        raise InvalidKey(f"cannot read the filter {text[:80]!r}: {error}") from None


def _predicate(text: str, value: Value) -> Callable[[KernelKey], bool]:
    def keep(key: KernelKey) -> bool:
        try:
            return bool(value(key))
        except (TypeError, ZeroDivisionError, IndexError) as error:
            raise InvalidKey(f"filter {text!r}: {error}") from None

    return keep


def _value(node: ast.expr) -> Value:
    maker = _MAKERS.get(type(node))
    if maker is None:
        raise InvalidKey(
            f"a filter cannot have {ast.unparse(node)!r}: it has fields of keys, literals, "
            "comparisons, in, and, or, not, and + - * // %"
        )
    found: Value = maker(node)
    return found


def _constant(node: ast.Constant) -> Value:
    if not isinstance(node.value, (str, int, float, bool)):
        raise InvalidKey(f"a filter cannot have the literal {ast.unparse(node)}")
    return lambda key: node.value


@functools.cache
def _names() -> tuple[str, ...]:
    found = [n for c in key_classes() for n in (*fields_by_name(c), *columns_of(c))]
    return ("name", *dict.fromkeys(found))


def _name(node: ast.Name) -> Value:
    name = node.id
    if name in ("true", "false"):  # as JSON and the command line spell them
        return lambda key: name == "true"
    if name not in _names():
        raise InvalidKey(unknown("field in a filter", name, _names()))

    def read(key: KernelKey) -> Any:
        kind = type(key)
        if name == "name" or name in fields_by_name(kind):
            return getattr(key, name)
        if name not in columns_of(kind):
            raise InvalidKey(f"a filter of {name}: keys of {kind.op} have no such field")
        spec, component = columns_of(kind)[name]
        return getattr(key, spec.name)[component]

    return read


def _items(node: ast.Tuple | ast.List) -> Value:
    values = [_value(item) for item in node.elts]
    return lambda key: tuple(value(key) for value in values)


def _all_or_any(node: ast.BoolOp) -> Value:
    values = [_value(item) for item in node.values]
    test = all if isinstance(node.op, ast.And) else any
    return lambda key: test(value(key) for value in values)


def _unary(node: ast.UnaryOp) -> Value:
    value = _value(node.operand)
    if isinstance(node.op, ast.Not):
        return lambda key: not value(key)
    if isinstance(node.op, ast.USub):
        return lambda key: -value(key)
    raise InvalidKey(f"a filter cannot have {ast.unparse(node)!r}; it has not and -")


def _binary(node: ast.BinOp) -> Value:
    left, right = _value(node.left), _value(node.right)
    apply = _ARITHMETIC.get(type(node.op))
    if apply is None:
        raise InvalidKey(f"a filter cannot compute {ast.unparse(node)!r}; it has + - * // %")

    def compute(key: KernelKey) -> Any:
        numbers = left(key), right(key)
        if not all(isinstance(number, (int, float)) for number in numbers):
            raise InvalidKey(f"a filter computes with numbers, not {numbers[0]!r}, {numbers[1]!r}")
        return apply(*numbers)

    return compute


def _compare(node: ast.Compare) -> Value:
    values = [_value(node.left), *(_value(item) for item in node.comparators)]
    tests = []
    for op in node.ops:
        if type(op) not in _COMPARE:
            raise InvalidKey(f"a filter cannot have {ast.unparse(node)!r}; it has == != < in")
        tests.append(_COMPARE[type(op)])
    sides = [node.left, *node.comparators]
    for left, right in itertools.pairwise(sides):
        _check_literals(left, right)
        _check_literals(right, left)

    def holds(key: KernelKey) -> bool:
        left = values[0](key)
        for test, value in zip(tests, values[1:], strict=True):
            right = value(key)
            if not test(left, right):
                return False
            left = right
        return True

    return holds


def _check_literals(field: ast.expr, other: ast.expr) -> None:
    """Refuses values that an enumeration does not have: they would match nothing."""
    if not isinstance(field, ast.Name):
        return
    enums = [
        spec.enum
        for c in key_classes()
        for spec in (fields_by_name(c).get(field.id),)
        if spec is not None and spec.enum is not None
    ]
    listed = other.elts if isinstance(other, (ast.Tuple, ast.List)) else [other]
    for item in listed:
        if enums and isinstance(item, ast.Constant) and isinstance(item.value, str):
            known = tuple(dict.fromkeys(v for enum in enums for v in enum.values))
            if item.value not in known:
                raise InvalidKey(unknown(f"{field.id} in a filter", item.value, known))


def _item(node: ast.Subscript) -> Value:
    value = _value(node.value)
    if not isinstance(node.slice, ast.Constant) or type(node.slice.value) is not int:
        raise InvalidKey(f"a filter cannot have {ast.unparse(node)!r}; it has numbers as tile[0]")
    index = node.slice.value
    return lambda key: value(key)[index]


_MAKERS: dict[type[ast.expr], Callable[[Any], Value]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Tuple: _items,
    ast.List: _items,
    ast.BoolOp: _all_or_any,
    ast.UnaryOp: _unary,
    ast.BinOp: _binary,
    ast.Compare: _compare,
    ast.Subscript: _item,
}
