"""CEL device selectors: the one module that knows which library evaluates them.

Called by whoever matches devices; it never decides what a match means. The library (`cel-expr-python`, the optional
extra `dra`) is imported on first use. Without it simple selectors are still answered, by `simple_selector`; any other
is refused with one line.

How Kubernetes' environment maps to the library, which knows no object types and no custom ones:
- `device.driver`, `device.attributes`, ... are variables of these dotted names, so an unknown field does not compile;
- a domain that the device lacks is an empty map, so the domains that an expression names are put there;
- quantities and versions are bytes with a tag (`_tagged`), equal exactly when the values are.
The library stops a comprehension after 10,000 steps. Expressions were checked for cost when the API server took them.
"""

import functools
import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kube.api import quantity, semver
from kube.api.cel_source import Source, read_source, simple_selector

#: domain -> name -> value
Values = Mapping[str, Mapping[str, Any]]

NOT_INSTALLED = "needs the CEL library, which is not installed: pip install 'podium[dra]'"
_EXTENSIONS = ("sets", "lists", "two-var-comprehensions", "bindings", "optional", "strings")
_KEY_NOT_FOUND = re.compile(r'^NOT_FOUND: Key not found in map : "?(.*?)"?$', re.DOTALL)
#: an escape, a character class, or what opens a group that would be captured
_GROUP = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?!\?)|\(\?P<\w+>", re.DOTALL)
_STATUS = re.compile(r"^[A-Z_]+: ")


class SelectorError(Exception):
    """A selector that cannot be answered; the text names the phase, as kube-scheduler does."""


@dataclass(frozen=True, slots=True)
class DeviceValues:
    """What a selector sees of a device. Made by `device_values`."""

    driver: str
    attributes: Values
    capacity: Values
    allow_multiple_allocations: bool
    #: what is wrong with the device itself; every selector that looks at it fails
    error: str = ""


class Selector:
    """One expression, ready to be asked about devices."""

    def __init__(self, expression: str) -> None:
        self.expression = expression
        self.compile_error = ""
        self._source: Source = read_source(expression)
        self._answer: Callable[[DeviceValues], bool] | None = None
        try:
            self._program = _environment().compile(self._source.text)
            self._check_type()
        except ImportError:
            self._answer = simple_selector(expression)
            self.compile_error = "" if self._answer else NOT_INSTALLED
        except RuntimeError as error:
            self.compile_error = f"compilation failed: {_plain(str(error))}"

    def _check_type(self) -> None:
        name = self._program.return_type().name()
        if name not in ("BOOL", "DYN"):
            self.compile_error = f"must evaluate to bool or the unknown type, not {name.lower()}"

    def matches(self, device: DeviceValues) -> bool:
        """Whether the selector holds. Raises SelectorError."""
        if self.compile_error:
            raise SelectorError(f"CEL compile error: {self.compile_error}")
        if device.error:
            raise SelectorError(f"CEL runtime error: {device.error}")
        if self._answer is not None:
            try:
                return self._answer(device)
            except KeyError as error:
                raise SelectorError(f"CEL runtime error: no such key: {error.args[0]}") from None
        return self._evaluate(device)

    def _evaluate(self, device: DeviceValues) -> bool:
        try:
            result = self._program.eval(data=self._data(device))
        except RuntimeError as error:
            raise SelectorError(f"CEL runtime error: {_runtime_error(str(error))}") from None
        kind = result.type().name()
        if kind == "BOOL":
            return bool(result.value())
        if kind == "ERROR":
            raise SelectorError(f"CEL runtime error: {_runtime_error(str(result.value()))}")
        raise SelectorError(f"CEL runtime error: CEL result of type {kind.lower()} could not be converted to bool")

    def _data(self, device: DeviceValues) -> dict[str, Any]:
        empty: dict[str, Mapping[str, Any]] = {domain: {} for domain in self._source.domains}
        return {
            "device.driver": device.driver,
            "device.attributes": {**empty, **device.attributes},
            "device.capacity": {**empty, **device.capacity},
            "device.allowMultipleAllocations": device.allow_multiple_allocations,
            "published.attributes": device.attributes,
            "published.capacity": device.capacity,
        }


@functools.lru_cache(maxsize=4096)
def selector(expression: str) -> Selector:
    """The selector of an expression; compiled once."""
    return Selector(expression)


def forget_environment() -> None:
    """Look for the library again, and compile everything anew."""
    _environment.cache_clear()
    selector.cache_clear()


def device_values(
    driver: str, attributes: Mapping[str, Any], capacity: Mapping[str, Any], *, allow_multiple_allocations: bool
) -> DeviceValues:
    """A device for selectors. `attributes`: resource.DeviceAttribute, `capacity`: resource.DeviceCapacity by name."""
    values: dict[str, dict[str, Any]] = {}
    amounts: dict[str, dict[str, bytes]] = {}
    error = ""
    for name, attribute in attributes.items():
        domain, identifier = _qualified(name, driver)
        try:
            values.setdefault(domain, {})[identifier] = _attribute_value(attribute)
        except ValueError as problem:
            error = error or f"attribute {name}: {problem}"
    for name, amount in capacity.items():
        domain, identifier = _qualified(name, driver)
        amounts.setdefault(domain, {})[identifier] = _from_nanos(quantity.nanos(amount.value or "0"))
    return DeviceValues(driver, values, amounts, allow_multiple_allocations, error)


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def _attribute_value(attribute: Any) -> Any:
    for value in (attribute.integer, attribute.boolean, attribute.string):
        if value is not None:
            return value
    if attribute.version is None:
        raise ValueError("unsupported attribute value")
    try:
        return _version(attribute.version)
    except ValueError as error:
        raise ValueError(f"parse semantic version: {error}") from None


def _plain(text: str) -> str:
    """The library's message without its status codes."""
    return _STATUS.sub("", text.removesuffix(" [INVALID_ARGUMENT]"))


def _runtime_error(text: str) -> str:
    """In cel-go's words where they are known."""
    missing = _KEY_NOT_FOUND.match(text)
    if missing:
        return f"no such key: {missing[1]}"
    text = _plain(text)
    if text.startswith("Iteration budget exceeded"):
        return "actual cost limit exceeded"
    if text.startswith("No matching overloads found"):
        return "no such overload"
    return text.replace("divide by zero", "division by zero")


# --- the environment ---------------------------------------------------------------------------------------------


@functools.cache
def _environment() -> Any:
    """Raises ImportError where the library is not installed."""
    from cel_expr_python import cel  # type: ignore[import-untyped]

    t = cel.Type
    config = "name: dra\nextensions:\n" + "".join(f"- name: {name}\n" for name in _EXTENSIONS)
    values, amounts = t.Map(t.STRING, t.Map(t.STRING, t.DYN)), t.Map(t.STRING, t.Map(t.STRING, t.BYTES))
    return cel.NewEnv(
        config=cel.NewEnvConfigFromYaml(config),
        variables={
            "device.driver": t.STRING,
            "device.attributes": values,
            "device.capacity": amounts,
            "device.allowMultipleAllocations": t.BOOL,
            "published.attributes": values,
            "published.capacity": amounts,
        },
        functions=[_declared(cel, name, overloads) for name, overloads in _functions(t).items()],
    )


def _declared(cel: Any, name: str, overloads: list[tuple[bool, list[Any], Any, Any]]) -> Any:
    return cel.FunctionDecl(
        name,
        [
            cel.Overload(
                f"{name}_{'_'.join(p.name() for p in parameters)}".replace("<", "_").replace(">", "").lower(),
                return_type=returned,
                parameters=parameters,
                is_member=is_member,
                impl=impl,
            )
            for is_member, parameters, returned, impl in overloads
        ],
    )


def _functions(t: Any) -> dict[str, list[tuple[bool, list[Any], Any, Any]]]:
    """name -> (is a member, parameters, result, implementation) of each overload."""
    value, text, number, yes_no = t.BYTES, t.STRING, t.INT, t.BOOL
    member, function = True, False
    return {
        "quantity": [(function, [text], value, lambda q: _from_nanos(quantity.nanos(q)))],
        "isQuantity": [(function, [text], yes_no, lambda q: _succeeds(quantity.nanos, q))],
        # A plain function in Kubernetes as well, although its documentation writes it as a member.
        "sign": [(function, [value], number, lambda q: _sign(_nanos(q)))],
        "isInteger": [(member, [value], yes_no, lambda q: _is_integer(_nanos(q)))],
        "asInteger": [(member, [value], number, _as_integer)],
        "asApproximateFloat": [(member, [value], t.DOUBLE, lambda q: _nanos(q) / quantity.NANOS)],
        "add": [
            (member, [value, value], value, lambda a, b: _from_nanos(_nanos(a) + _nanos(b))),
            (member, [value, number], value, lambda a, n: _from_nanos(_nanos(a) + n * quantity.NANOS)),
        ],
        "sub": [
            (member, [value, value], value, lambda a, b: _from_nanos(_nanos(a) - _nanos(b))),
            (member, [value, number], value, lambda a, n: _from_nanos(_nanos(a) - n * quantity.NANOS)),
        ],
        "semver": [
            (function, [text], value, _version),
            (function, [text, yes_no], value, lambda v, tidy: _version(semver.normalize(v) if tidy else v)),
        ],
        "isSemver": [
            (function, [text], yes_no, lambda v: _succeeds(semver.parse, v)),
            (function, [text, yes_no], yes_no, _is_version),
        ],
        "major": [(member, [value], number, lambda v: _parsed_version(v).major)],
        "minor": [(member, [value], number, lambda v: _parsed_version(v).minor)],
        "patch": [(member, [value], number, lambda v: _parsed_version(v).patch)],
        "compareTo": [(member, [value, value], number, _compare)],
        "isGreaterThan": [(member, [value, value], yes_no, lambda a, b: _compare(a, b) > 0)],
        "isLessThan": [(member, [value, value], yes_no, lambda a, b: _compare(a, b) < 0)],
        "find": [(member, [text, text], text, lambda s, pattern: next(iter(_found(s, pattern)), ""))],
        "findAll": [
            (member, [text, text], t.List(text), _found),
            (member, [text, text, number], t.List(text), _found),
        ],
        "isSorted": [(member, [t.LIST], yes_no, lambda v: all(a <= b for a, b in itertools.pairwise(v)))],
        "sum": [(member, [t.LIST], t.DYN, sum)],
        "min": [(member, [t.LIST], t.DYN, min)],
        "max": [(member, [t.LIST], t.DYN, max)],
    }


# --- quantities and versions as bytes ----------------------------------------------------------------------------


def _from_nanos(nanos: int) -> bytes:
    return b"quantity %d" % nanos


def _nanos(value: bytes) -> int:
    return int(_untagged(value, b"quantity "))


def _version(text: str) -> bytes:
    return b"semver " + str(semver.parse(text)).encode()


def _parsed_version(value: bytes) -> semver.Version:
    return semver.parse(_untagged(value, b"semver ").decode())


def _untagged(value: bytes, tag: bytes) -> bytes:
    if not value.startswith(tag):
        raise ValueError("no such overload")
    return value[len(tag) :]


def _compare(a: bytes, b: bytes) -> int:
    if a.startswith(b"quantity "):
        return _sign(_nanos(a) - _nanos(b))
    x, y = _parsed_version(a).order, _parsed_version(b).order
    return int(x > y) - int(x < y)


def _sign(number: int) -> int:
    return int(number > 0) - int(number < 0)


def _is_integer(nanos: int) -> bool:
    whole, rest = divmod(nanos, quantity.NANOS)
    return rest == 0 and quantity.MIN_INT64 <= whole <= quantity.MAX_INT64


def _as_integer(value: bytes) -> int:
    nanos = _nanos(value)
    if not _is_integer(nanos):
        raise ValueError("cannot convert value to integer")
    return nanos // quantity.NANOS


def _is_version(text: str, tidy: bool) -> bool:
    return _succeeds(lambda v: semver.parse(semver.normalize(v) if tidy else v), text)


def _succeeds(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _found(text: str, pattern: str, limit: int = -1) -> list[str]:
    """Whole matches, by the library's own RE2: a selector cannot make it take long."""
    bare = _GROUP.sub(lambda part: "(?:" if part[0].startswith("(") else part[0], pattern)
    result = _extract_all().eval(data={"text": text, "pattern": bare})
    if result.type().name() == "ERROR":
        raise ValueError(f"illegal regex: {_plain(str(result.value()))}")
    found: list[str] = result.plain_value()
    return found if limit < 0 else found[:limit]


@functools.cache
def _extract_all() -> Any:
    from cel_expr_python import cel

    config = cel.NewEnvConfigFromYaml("name: regex\nextensions:\n- name: optional\n- name: regex\n")
    texts = {"text": cel.Type.STRING, "pattern": cel.Type.STRING}
    return cel.NewEnv(config=config, variables=texts).compile("regex.extractAll(text, pattern)")
