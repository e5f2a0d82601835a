"""The writes that plugins make, through the typed client. Binding has a rate limit of its own."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any

from kube.api.core import Pod
from kube.api.custom import custom_resource
from kube.api.resources import RESOURCES
from kube.client.errors import NotFound
from kube.client.rest import Client, PatchType

_TYPES = {resource.listed_as: resource.type for resource in RESOURCES}
_PATCHES = {"strategic": PatchType.STRATEGIC, "merge": PatchType.MERGE, "json": PatchType.JSON}


class PluginClient:
    """Implements `scheduler.framework.handle.Client`."""

    def __init__(self, client: Client, binder: Client) -> None:
        self._client = client
        self._binder = binder

    def bind(self, pod: Pod, node_name: str) -> Coroutine[Any, Any, None]:
        """POST the binding, for this very pod (its UID goes along)."""
        meta = pod.metadata
        return self._binder.bind(meta.namespace, meta.name, meta.uid, node_name)

    async def update(self, obj: Any, subresource: str = "") -> Any:
        """PUT an object; only for types that hold all their fields."""
        return await self._client.update(obj, subresource=subresource)

    async def patch(self, obj: Any, patch: Mapping[str, Any], subresource: str = "", kind: str = "strategic") -> Any:
        """PATCH an object. Custom resources have no strategic form: theirs are merge patches."""
        meta = obj.metadata
        if kind == "strategic" and type(obj) not in _TYPES.values():
            kind = "merge"
        return await self._client.patch(
            type(obj), meta.name, dict(patch), meta.namespace, kind=_PATCHES[kind], subresource=subresource
        )

    async def create(self, obj: Any) -> Any:
        """POST an object."""
        return await self._client.create(obj)

    async def delete(self, obj: Any, *, uid: str = "") -> None:
        """DELETE an object; gone already is success."""
        try:
            await self._client.delete(type(obj), obj.metadata.name, obj.metadata.namespace, uid=uid)
        except NotFound:
            return

    async def get(self, kind: str, name: str, namespace: str = "") -> Any:
        """GET an object past all caches; `kind` may be `plural.version.group`, too."""
        type_ = _TYPES.get(kind)
        if type_ is None:
            resource = custom_resource(kind)
            type_ = resource.type
            self._client.versions.setdefault(type_, resource)
        return await self._client.get(type_, name, namespace)
