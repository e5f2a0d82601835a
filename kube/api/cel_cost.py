"""The worst-case cost of a CEL selector, as the API server estimates it when it takes a ResourceClaim or DeviceClass.

Called by `kube.api.cel` once per expression, with the checked expression as the library serializes it; it evaluates
nothing. The costs are those of cel-go's estimator and Kubernetes' libraries, with the sizes that a device may have at
most. Where upstream knows less of a size than is known here its estimate is higher, so what is refused here is refused
there as well.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

#: CELSelectorExpressionMaxCost
MAX_COST = 1_000_000
_TRAVERSAL = 0.1
_REGEX = 0.25
_LIST_CREATE, _MAP_CREATE, _MESSAGE_CREATE = 10, 30, 40

# Field numbers of cel.expr: syntax.proto and checked.proto.
_CONST, _IDENT, _SELECT, _CALL, _LIST, _STRUCT, _COMPREHENSION = 3, 4, 5, 6, 7, 8, 9
_INT64 = 3
_TEXTS = (6, 7)


@dataclass(frozen=True, slots=True)
class _Shape:
    """How large a value can be: of a text its length, of a list or map its entries."""

    size: float = 1
    element: "_Shape | None" = None
    key: "_Shape | None" = None
    #: exactly this size, as of a literal
    fixed: bool = False
    #: the value itself, of a whole number that is written out
    number: float = math.inf

    @property
    def is_container(self) -> bool:
        return self.element is not None


_SCALAR, _UNKNOWN = _Shape(), _Shape(math.inf)
_ATTRIBUTES = _Shape(32, _Shape(32, _Shape(64), _Shape(32)), _Shape(63))
_CAPACITY = _Shape(32, _Shape(32, _SCALAR, _Shape(32)), _Shape(63))
_VARIABLES = {
    "device.driver": _Shape(63),
    "device.attributes": _ATTRIBUTES,
    "device.capacity": _CAPACITY,
    "device.allowMultipleAllocations": _SCALAR,
    "published.attributes": _ATTRIBUTES,
    "published.capacity": _CAPACITY,
}
_Scope = Mapping[str, _Shape]
_Estimate = tuple[float, _Shape]


def worst_case(serialized: bytes) -> float:
    """The most that evaluating the expression can cost. `serialized`: a CheckedExpr in an Any."""
    checked = dict(_fields(_message(dict(_fields(serialized)), 2)))
    return _estimate(_message(checked, 4), _VARIABLES)[0]


def _estimate(node: bytes, scope: _Scope) -> _Estimate:
    for number, value in _fields(node):
        visit = _VISITS.get(number)
        if visit is not None and isinstance(value, bytes):
            return visit(value, scope)
    return 0, _SCALAR


def _constant(value: bytes, _scope: _Scope) -> _Estimate:
    for number, content in _fields(value):
        if number in _TEXTS and isinstance(content, bytes):
            return 0, _Shape(len(content), fixed=True)
        if number == _INT64 and isinstance(content, int):
            return 0, _Shape(number=content)
    return 0, _SCALAR


def _identifier(value: bytes, scope: _Scope) -> _Estimate:
    name = _text(dict(_fields(value)), 1)
    # `device.driver` is one variable here, and a select there.
    return 1 + ("." in name), scope.get(name, _SCALAR)


def _select(value: bytes, scope: _Scope) -> _Estimate:
    select = dict(_fields(value))
    cost, operand = _estimate(_message(select, 1), scope)
    if 3 in select:
        return cost, _SCALAR
    return cost + 1, operand.element or _UNKNOWN


def _list(value: bytes, scope: _Scope) -> _Estimate:
    elements = [_estimate(each, scope) for number, each in _fields(value) if number == 1 and isinstance(each, bytes)]
    shape = _Shape(len(elements), _largest([shape for _, shape in elements]), fixed=True)
    return _LIST_CREATE + sum(cost for cost, _ in elements), shape


def _struct(value: bytes, scope: _Scope) -> _Estimate:
    entries = [dict(_fields(each)) for number, each in _fields(value) if number == 2 and isinstance(each, bytes)]
    keys = [_estimate(_message(entry, 3), scope) for entry in entries if 3 in entry]
    values = [_estimate(_message(entry, 4), scope) for entry in entries]
    base = _MESSAGE_CREATE if dict(_fields(value)).get(1) else _MAP_CREATE
    shape = _Shape(len(entries), _largest([s for _, s in values]), _largest([s for _, s in keys]), fixed=True)
    return base + sum(cost for cost, _ in (*keys, *values)), shape


def _comprehension(value: bytes, scope: _Scope) -> _Estimate:
    parts = dict(_fields(value))
    init_cost, init = _estimate(_message(parts, 4), scope)
    variable, accumulator = _text(parts, 1), _text(parts, 3)
    range_cost, over = _estimate(_message(parts, 2), scope)
    if variable == "#unused":  # cel.bind
        cost, shape = _estimate(_message(parts, 7), {**scope, accumulator: init})
        return init_cost + range_cost + cost, shape
    # One value is added in a step at the most.
    grown = _Shape(over.size, init.element) if init.is_container else init
    inner = {**scope, accumulator: grown, **_iteration(over, variable, _text(parts, 8))}
    condition, _ = _estimate(_message(parts, 5), inner)
    step, stepped = _estimate(_message(parts, 6), inner)
    if init.is_container:
        grown = _Shape(over.size, stepped.element, stepped.key)
    result, _ = _estimate(_message(parts, 7), {**scope, accumulator: grown})
    loop = over.size * (condition + step) if over.size else 0
    return init_cost + range_cost + loop + result, grown


def _iteration(over: _Shape, first: str, second: str) -> _Scope:
    element = over.element or _UNKNOWN
    if not second:
        return {first: over.key or element}
    return {first: over.key or _SCALAR, second: element}


def _call(value: bytes, scope: _Scope) -> _Estimate:
    call = list(_fields(value))
    name = _text(dict(call), 2)
    # The target comes first in the message, and counts as the first argument.
    arguments = [_estimate(each, scope) for number, each in call if number in (1, 3) and isinstance(each, bytes)]
    shapes = [shape for _, shape in arguments]
    costs = [cost for cost, _ in arguments]
    if name == "_?_:_":
        return costs[0] + max(costs[1:]), _largest(shapes[1:]) or _SCALAR
    if name in ("_&&_", "_||_"):
        return sum(costs), _SCALAR
    function = _FUNCTIONS.get(name)
    cost, shape = function(shapes) if function is not None and shapes else (1, _SCALAR)
    return sum(costs) + cost, shape


_VISITS: dict[int, Callable[[bytes, _Scope], _Estimate]] = {
    _CONST: _constant,
    _IDENT: _identifier,
    _SELECT: _select,
    _CALL: _call,
    _LIST: _list,
    _STRUCT: _struct,
    _COMPREHENSION: _comprehension,
}


# --- functions ---------------------------------------------------------------------------------------------------


def _traversal(size: float, factor: float = _TRAVERSAL) -> float:
    return size if math.isinf(size) else math.ceil(size * factor)


def _largest(shapes: list[_Shape]) -> _Shape | None:
    return max(shapes, key=lambda shape: shape.size) if shapes else None


def _compared(args: list[_Shape]) -> _Estimate:
    return _traversal(min(args[0].size, args[1].size)), _SCALAR


def _contained(args: list[_Shape]) -> _Estimate:
    return (1 if args[1].key else args[1].size), _SCALAR


def _added(args: list[_Shape]) -> _Estimate:
    a, b = args
    if a.is_container or b.is_container:
        return 1, _Shape(a.size + b.size, _largest([s.element for s in args if s.element]))
    return _traversal(a.size + b.size), _Shape(a.size + b.size)


def _indexed(args: list[_Shape]) -> _Estimate:
    return 1, args[0].element or _UNKNOWN


def _regex(args: list[_Shape]) -> float:
    return _traversal(1 + args[0].size) * _traversal(args[1].size, _REGEX)


def _same_size(args: list[_Shape]) -> _Estimate:
    return _traversal(args[0].size), _Shape(args[0].size)


def _replaced(args: list[_Shape]) -> _Estimate:
    text, old, new = args[:3]
    if not old.fixed or not old.size:
        size = (text.size + 1) * new.size + text.size
    elif new.size <= old.size:
        size = text.size
    else:
        size = math.ceil(text.size / old.size) * new.size
    return _traversal(text.size, 2 * _TRAVERSAL), _Shape(size)


def _split(args: list[_Shape]) -> _Estimate:
    return _traversal(args[0].size, 2 * _TRAVERSAL), _Shape(args[0].size, _Shape(args[0].size))


def _joined(args: list[_Shape]) -> _Estimate:
    element = args[0].element or _UNKNOWN
    between = args[1].size * max(args[0].size - 1, 0) if len(args) > 1 else 0
    size = args[0].size * element.size + between
    return _traversal(size), _Shape(size)


def _scanned(args: list[_Shape]) -> _Estimate:
    """sum, min, indexOf and the like: once through the list, or the text."""
    one = args[0]
    if one.element is None:
        return _traversal(one.size), _SCALAR
    return one.size * (1 + (_traversal(one.element.size) if one.element.size > 1 else 0)), one.element


def _position(args: list[_Shape]) -> _Estimate:
    return _scanned(args)[0], _SCALAR


def _sets(args: list[_Shape]) -> _Estimate:
    return args[0].size * args[1].size, _SCALAR


def _address_range(args: list[_Shape]) -> _Estimate:
    return _traversal(32) + _traversal(args[1].size) + 3, _SCALAR


def _whole(args: list[_Shape]) -> _Estimate:
    """A list made of a list."""
    return args[0].size, args[0]


def _scalar(function: Callable[[list[_Shape]], float]) -> Callable[[list[_Shape]], _Estimate]:
    return lambda args: (function(args), _SCALAR)


_parsed = _scalar(lambda args: _traversal(args[0].size))

_FUNCTIONS: dict[str, Callable[[list[_Shape]], _Estimate]] = {
    **dict.fromkeys(("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"), _compared),
    "@in": _contained,
    "_+_": _added,
    **dict.fromkeys(("_[_]", "_?._", "_[?_]"), _indexed),
    **dict.fromkeys(("orValue", "or"), lambda args: (1, _largest(args) or _SCALAR)),
    **dict.fromkeys(("value", "optional.of", "optional.ofNonZeroValue"), lambda args: (1, args[0])),
    **dict.fromkeys(("startsWith", "endsWith"), _scalar(lambda args: _traversal(args[1].size))),
    "contains": _scalar(lambda args: _traversal(args[0].size) * _traversal(args[1].size)),
    "matches": _scalar(_regex),
    "find": lambda args: (_regex(args), _Shape(args[0].size)),
    "findAll": lambda args: (_regex(args), _Shape(args[0].size, _Shape(args[0].size))),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _same_size),
    "replace": _replaced,
    "split": _split,
    "join": _joined,
    "format": lambda args: (_traversal(args[0].size), _UNKNOWN),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "positionOf", "lastPositionOf"), _position),
    **dict.fromkeys(("sets.contains", "sets.equivalent", "sets.intersects"), _sets),
    **dict.fromkeys(("flatten", "distinct", "sort", "reverse", "slice"), _whole),
    "lists.range": lambda args: (1, _Shape(args[0].number, _SCALAR)),
    **dict.fromkeys(("url", "isURL", "quantity", "isQuantity", "ip", "isIP", "cidr", "isCIDR"), _parsed),
    "ip.isCanonical": _scalar(lambda args: _traversal(args[0].size, 2 * _TRAVERSAL)),
    **dict.fromkeys(("containsIP", "containsCIDR"), _address_range),
}


# --- the wire format ---------------------------------------------------------------------------------------------


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message, in their order."""
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        kind = key & 7
        if kind == 0:
            number, position = _varint(data, position)
            yield key >> 3, number
            continue
        length, position = (8, position) if kind == 1 else (4, position) if kind == 5 else _varint(data, position)
        yield key >> 3, data[position : position + length]
        position += length


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[position]
        position += 1
        result |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return result, position


def _message(fields: Mapping[int, int | bytes], number: int) -> bytes:
    value = fields.get(number, b"")
    return value if isinstance(value, bytes) else b""


def _text(fields: Mapping[int, int | bytes], number: int) -> str:
    return _message(fields, number).decode()
