"""Listers over informers: what plugins read of the cluster. One informer a resource, started on first demand.

Kinds that podium has types for come from the factory that the service shares. Any other resource, named
`plural.version.group`, gets an informer of its own here; where the server does not have it (yet), the lister is empty,
nobody waits for it, and it is looked for again from time to time: a CustomResourceDefinition may be installed later.

Owner: the wiring.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Any

from kube.api.core import Node, PersistentVolume, PersistentVolumeClaim
from kube.api.custom import custom_resource, is_custom_name
from kube.api.meta import ApiObject
from kube.api.quantity_check import (
    checked_capacity,
    checked_claim,
    checked_node,
    checked_resource_claim,
    checked_slice,
    checked_volume,
)
from kube.api.resource import ResourceClaim, ResourceSlice
from kube.api.resources import RESOURCES
from kube.api.storage import CSIStorageCapacity
from kube.client.discovery import Discovery
from kube.client.errors import ApiError
from kube.client.indexer import Indexer, IndexerLister
from kube.client.informer import InformerFactory, SharedInformer
from kube.client.rest import Client

log = logging.getLogger(__name__)

#: seconds between two looks for resources that the server did not have
LOOK_AGAIN = 60.0
_TYPES: dict[str, type[ApiObject]] = {resource.kind: resource.type for resource in RESOURCES if not resource.custom}
#: what looks at objects before anybody else does
_CHECKS: dict[type[ApiObject], Callable[[Any], Any]] = {
    Node: checked_node,
    PersistentVolume: checked_volume,
    PersistentVolumeClaim: checked_claim,
    CSIStorageCapacity: checked_capacity,
    ResourceSlice: checked_slice,
    ResourceClaim: checked_resource_claim,
}


class InformerLister(IndexerLister):
    """A lister of one resource, and its events. Empty and silent for what the API server does not have."""

    def __init__(self, indexer: Indexer[Any], informer: SharedInformer[Any] | None = None) -> None:
        super().__init__(indexer)
        self._informer = informer

    def add_handler(
        self,
        *,
        add: Callable[[Any], None] | None = None,
        update: Callable[[Any, Any], None] | None = None,
        delete: Callable[[Any, bool], None] | None = None,
    ) -> None:
        """Call these on news; what is there already is told as adds."""
        if self._informer is not None:
            self._informer.add_handler(add=add, update=update, delete=delete)


class InformerListers:
    """Kind, or `plural.version.group`, and type of the objects -> lister."""

    def __init__(self, client: Client, factory: InformerFactory, missing: Collection[type[ApiObject]]) -> None:
        self._client = client
        self._factory = factory
        self._missing = missing
        self._listers: dict[tuple[str, type[ApiObject] | None], InformerLister] = {}
        self._group: asyncio.TaskGroup | None = None
        #: informers of resources that podium has no types for, and those of them that the server has
        self._custom: dict[type[ApiObject], SharedInformer[Any]] = {}
        self._offered: set[type[ApiObject]] = set()
        self._started: set[type[ApiObject]] = set()

    def __call__(self, resource: str, type_: type[ApiObject] | None = None) -> InformerLister:
        """The lister of a resource. Raises ValueError, of one line, for what is none."""
        key = (resource, type_)
        lister = self._listers.get(key)
        if lister is None:
            lister = self._listers[key] = self._known(resource) if resource in _TYPES else self._other(resource, type_)
        return lister

    def first(self, resource: str) -> InformerLister:
        """The lister that was asked for first, whatever the type of its objects: events tell of these."""
        return next((lister for (name, _), lister in self._listers.items() if name == resource), None) or self(resource)

    def _known(self, kind: str) -> InformerLister:
        type_ = _TYPES[kind]
        if type_ in self._missing:
            return InformerLister(Indexer())
        informer = self._factory.informer(type_, transform=_CHECKS.get(type_))
        if self._group is not None:
            self._factory.start(self._group)
        return InformerLister(informer.indexer, informer)

    def _other(self, name: str, type_: type[ApiObject] | None) -> InformerLister:
        if not is_custom_name(name):
            raise ValueError(f"resource {name!r}: neither a kind podium knows nor plural.version.group")
        resource = custom_resource(name, type_)
        self._client.versions[resource.type] = resource
        informer: SharedInformer[Any] = SharedInformer(self._client, resource.type)
        self._custom[resource.type] = informer
        return InformerLister(informer.indexer, informer)

    def use(self, kind: str, informer: SharedInformer[Any]) -> None:
        """Serve a kind from an informer made elsewhere (pods: with a field selector)."""
        self._listers[kind, None] = InformerLister(informer.indexer, informer)

    # --- resources that podium has no types for -----------------------------------------------------------------

    async def look(self, discovery: Discovery) -> None:
        """Ask the server which of them it has; what it has not is logged once."""
        for type_ in self._custom.keys() - self._offered:
            if await discovery.resolve(self._client.resource(type_)) is not None:
                self._offered.add(type_)

    async def look_again(self, discovery: Discovery) -> None:
        """For ever: a resource that was installed later is listed and watched from then on."""
        while True:
            await asyncio.sleep(LOOK_AGAIN)
            if self._custom.keys() <= self._started:
                continue
            discovery.forget()
            try:
                await self.look(discovery)
            except ApiError as error:
                log.info("cannot ask for resources that were missing: %s", error)
            self._start_offered()

    async def wait_for_sync(self) -> None:
        """Return when those that the server has are listed, and their handlers told."""
        for type_ in self._offered:
            await self._custom[type_].wait_for_sync()

    def started(self, group: asyncio.TaskGroup) -> None:
        """From now on a new resource's informer starts at once."""
        self._group = group
        self._start_offered()

    def _start_offered(self) -> None:
        if self._group is None:
            return
        for type_ in self._offered - self._started:
            self._started.add(type_)
            informer = self._custom[type_]
            self._group.create_task(informer.run(), name=f"shared informer {informer.name}")
