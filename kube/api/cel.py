"""CEL device selectors: the one module that knows which library evaluates them.

Called by whoever matches devices; it never decides what a match means. The library (`cel-expr-python`, the optional
extra `dra`) is imported on first use. Without it simple selectors are still answered, by `simple_selector`; any other
is refused with one line.

How Kubernetes' environment maps to the library, which knows no object types and no custom ones:
- `device.driver`, `device.attributes`, ... are variables of these dotted names, so an unknown field does not compile;
- a domain that the device lacks is an empty map, so the domains that an expression names are put there;
- Kubernetes' own types are in `kube.api.cel_functions`, which says why there are two environments.
The library cannot count what an evaluation costs. So an expression that may cost too much in the worst case, which an
API server would not take (`kube.api.cel_cost`), is not evaluated; and a comprehension ends after 10,000 steps.
"""

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kube.api import quantity
from kube.api.cel_cost import MAX_COST, worst_case
from kube.api.cel_functions import (
    Types,
    checked_types,
    declarations,
    evaluated_types,
    from_nanos,
    version,
)
from kube.api.cel_source import RENAMED, Source, read_source, simple_selector
from kube.api.cel_texts import map_insertion, plain_message

#: domain -> name -> value
Values = Mapping[str, Mapping[str, Any]]

NOT_INSTALLED = "needs the CEL library, which is not installed: pip install 'podium[dra]'"
_EXTENSIONS = ("sets", "lists", "bindings", "optional", "strings")
#: macros, gone once an expression is checked
_COMPREHENSIONS = "two-var-comprehensions"
_KEY_NOT_FOUND = re.compile(r'^NOT_FOUND: Key not found in map : "?(.*?)"?$', re.DOTALL)
#: CELSelectorExpressionMaxLength
MAX_LENGTH = 10 * 1024
_COST_EXCEEDED = "operation cancelled: actual cost limit exceeded"


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
        #: what an API server reckons with
        self.worst_case = 0.0
        self._source: Source = read_source(expression)
        self._answer: Callable[[DeviceValues], bool] | None = None
        if len(expression) > MAX_LENGTH:
            self.compile_error = f"too long: may not be more than {MAX_LENGTH} bytes"
            return
        try:
            self._compile()
        except ImportError:
            self._answer = simple_selector(expression)
            self.compile_error = "" if self._answer else NOT_INSTALLED
        except RuntimeError as error:
            text = plain_message(str(error))
            for name, known in RENAMED.items():
                text = text.replace(f"'{name}'", f"'{known}'")
            self.compile_error = f"compilation failed: {text}"

    def _compile(self) -> None:
        checked = _checker().compile(self._source.text)
        name = checked.return_type().name()
        if name not in ("BOOL", "DYN"):
            self.compile_error = (
                f"must evaluate to bool or the unknown type, not {name.lower() if name.isupper() else name}"
            )
            return
        serialized: bytes = checked.serialize()
        self.worst_case = worst_case(serialized)
        self._program = _evaluator().deserialize(serialized)

    def matches(self, device: DeviceValues) -> bool:
        """Whether the selector holds. Raises SelectorError."""
        if self.compile_error:
            raise SelectorError(f"CEL compile error: {self.compile_error}")
        if device.error:
            raise SelectorError(f"CEL runtime error: {device.error}")
        if self.worst_case > MAX_COST:
            raise SelectorError(f"CEL runtime error: {_COST_EXCEEDED}")
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
    _checker.cache_clear()
    _evaluator.cache_clear()
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
        amounts.setdefault(domain, {})[identifier] = from_nanos(quantity.nanos(amount.value or "0"))
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
        return version(attribute.version)
    except ValueError as error:
        raise ValueError(f"parse semantic version: {error}") from None


def _runtime_error(text: str) -> str:
    """In cel-go's words where they are known."""
    missing = _KEY_NOT_FOUND.match(text)
    if missing:
        return f"no such key: {missing[1]}"
    text = plain_message(text)
    if text.startswith("Iteration budget exceeded"):
        return _COST_EXCEEDED
    if text.startswith("No matching overloads found"):
        return "no such overload"
    return text.replace("divide by zero", "division by zero")


# --- the environment ---------------------------------------------------------------------------------------------


@functools.cache
def _checker() -> Any:
    """Knows the types of Kubernetes' values. Raises ImportError where the library is not installed."""
    return _environment(checked_types, (*_EXTENSIONS, _COMPREHENSIONS), lambda cel: [])


@functools.cache
def _evaluator() -> Any:
    """Knows what these values are made of."""
    return _environment(evaluated_types, _EXTENSIONS, lambda cel: [map_insertion(cel)])


def _environment(
    make_types: Callable[[Any], Types], extensions: tuple[str, ...], more: Callable[[Any], list[Any]]
) -> Any:
    from cel_expr_python import cel  # type: ignore[import-untyped]

    t = cel.Type
    types = make_types(t)
    config = "name: dra\nextensions:\n" + "".join(f"- name: {name}\n" for name in extensions)
    values, amounts = t.Map(t.STRING, t.Map(t.STRING, t.DYN)), t.Map(t.STRING, t.Map(t.STRING, types.quantity))
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
        functions=[*declarations(cel, types), *more(cel)],
    )
