"""A small API server for volumes and claims: it checks resourceVersions, and shows news to the listers at once.

What controllers would do is done by the test, with `change`, at a time of its choice.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kube.api.codec import convert, to_builtins
from tests.plugins.harness import Bench


class ConflictError(Exception):
    """The client's error for HTTP 409, as far as plugins see it."""

    status = 409


class ServerError(Exception):
    """The client's error for HTTP 500."""

    status = 500


class Store:
    """The client of a bench. `writes` are the patches that were stored: (kind, name, patch)."""

    def __init__(self) -> None:
        self.bench: Bench = None  # type: ignore[assignment]
        self.version = 100
        self.writes: list[tuple[str, str, Mapping[str, Any]]] = []
        #: called before a patch is looked at: somebody is faster, or the server fails
        self.before: Callable[[Any], None] = lambda obj: None
        #: seconds until the listers show what was written
        self.lag = 0.0
        self.unseen: dict[tuple[str, str], Any] = {}

    def stored(self, obj: Any) -> Any:
        """What the API server has."""
        key = (obj.KIND, obj.key)
        return self.unseen.get(key) or self.bench.lister(obj.KIND).get(obj.metadata.name, obj.metadata.namespace)

    async def patch(self, obj: Any, patch: Mapping[str, Any], subresource: str = "", kind: str = "strategic") -> Any:
        await asyncio.sleep(0)
        assert kind == "merge"
        self.before(obj)
        current = self.stored(obj)
        version = patch["metadata"].get("resourceVersion")
        if version is not None and version != current.metadata.resource_version:
            raise ConflictError(f"the object has been modified: {version} is not {current.metadata.resource_version}")
        merged = convert(_merged(to_builtins(current), patch), type(current))
        self.writes.append((obj.KIND, obj.metadata.name, patch))
        return self.put(merged)

    async def get(self, kind: str, name: str, namespace: str = "") -> Any:
        await asyncio.sleep(0)
        found = self.bench.lister(kind).get(name, namespace)
        assert found is not None
        return self.stored(found)

    def put(self, obj: Any) -> Any:
        """Store an object under a new version."""
        self.version += 1
        meta = msgspec.structs.replace(obj.metadata, resource_version=str(self.version))
        obj = msgspec.structs.replace(obj, metadata=meta)
        if self.lag:
            self.unseen[obj.KIND, obj.key] = obj
            asyncio.get_running_loop().call_later(self.lag, self._show, obj)
        else:
            self._show(obj)
        return obj

    def _show(self, obj: Any) -> None:
        self.unseen.pop((obj.KIND, obj.key), None)
        self.bench.lister(obj.KIND).put(obj)

    def change(self, kind: str, name: str, patch: Mapping[str, Any], namespace: str = "") -> None:
        """Somebody else changes an object."""
        current = self.bench.lister(kind).get(name, namespace)
        self.put(convert(_merged(to_builtins(current), patch), type(current)))

    def remove(self, kind: str, name: str, namespace: str = "") -> None:
        """Somebody deletes an object."""
        self.bench.lister(kind).remove(name, namespace)


def _merged(body: dict[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """RFC 7386."""
    for key, value in patch.items():
        if value is None:
            body.pop(key, None)
        elif isinstance(value, Mapping):
            body[key] = _merged(dict(body.get(key) or {}), value)
        else:
            body[key] = value
    return body
