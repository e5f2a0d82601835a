"""Resources that podium has no types for: named `plural.version.group`, their objects as plain dicts or as a struct of
the reader's own.

Anybody may import it; it performs no requests. It is to custom resources what `resources.py` is to the others.
"""

from functools import cache
from typing import Any, cast

import msgspec

from kube.api.meta import ApiObject
from kube.api.resources import Resource


class CustomObject(ApiObject, frozen=True, gc=False):
    """An object as the API server has it: `body` is the whole of it, `metadata` the part that all objects share."""

    body: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def spec(self) -> dict[str, Any]:
        """What is wanted, {} where there is none."""
        return self.body.get("spec") or {}

    @property
    def status(self) -> dict[str, Any]:
        """What is, {} where there is none."""
        return self.body.get("status") or {}


def is_custom_name(name: str) -> bool:
    """Whether it looks like `plural.version.group`, as custom resources are named in events and informers."""
    return name.count(".") >= 2


def custom_resource(name: str, type_: type[ApiObject] | None = None) -> Resource:
    """Where the resource `plural.version.group` is kept; its objects are of `type_`, or a CustomObject.

    ValueError, of one line, for a name that is none. Whether the server has it is for discovery to say.
    """
    parts = name.split(".", 2)
    if len(parts) < 3 or not all(parts):
        raise ValueError(f"custom resource {name!r}: expected plural.version.group, such as foos.v1.example.com")
    plural, version, group = parts
    chosen = type_ or _plain_type(name)
    return Resource(group, version, plural, chosen.KIND or plural, True, chosen)


@cache
def _plain_type(name: str) -> type[CustomObject]:
    """One type a resource: informers and the client tell resources apart by type."""
    made = msgspec.defstruct(name, [], bases=(CustomObject,), module=__name__, frozen=True, gc=False)
    return cast("type[CustomObject]", made)
