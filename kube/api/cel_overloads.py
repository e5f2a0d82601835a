"""How functions are told to the CEL library of `kube.api.cel`. Called by the modules that have the functions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function."""

    id: str
    is_member: bool
    parameters: list[Any]
    returned: Any
    call: Callable[..., Any]


def declared(cel: Any, name: str, overloads: list[Overload]) -> Any:
    """One function, as the library wants it declared."""
    by_signature: dict[tuple[Any, ...], Overload] = {}
    for each in overloads:
        # Where all of Kubernetes' types are bytes the first stands for all; the implementations look at the tag.
        by_signature.setdefault((each.is_member, *(p.name() for p in each.parameters)), each)
    return cel.FunctionDecl(
        name,
        [
            cel.Overload(o.id, return_type=o.returned, parameters=o.parameters, is_member=o.is_member, impl=o.call)
            for o in by_signature.values()
        ],
    )


def function(name: str, parameters: list[Any], returned: Any, call: Callable[..., Any]) -> Overload:
    """f(x)."""
    return Overload(name, False, parameters, returned, call)


def member(name: str, parameters: list[Any], returned: Any, call: Callable[..., Any]) -> Overload:
    """x.f()."""
    return Overload(name, True, parameters, returned, call)


#: name -> its signatures
Functions = dict[str, list[Overload]]
