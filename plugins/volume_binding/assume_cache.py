"""AssumeCache: volumes or claims as they will be once the decisions that are not written yet are written.

Between Reserve and the informer's news of the write, other pods must not be given the same volume. An assumed object
covers the informer's one until that is newer.

Owner: one VolumeBinding plugin, one cache for volumes and one for claims. Profiles do not share them: what two profiles
decide at the same time is settled by the API server, which refuses the second write.
"""

from __future__ import annotations

from typing import Any

from kube.api.volumes import is_newer
from scheduler.framework.handle import Lister


class AssumeCache:
    """A lister's objects, some of them covered by assumed ones."""

    __slots__ = ("_assumed", "lister")

    def __init__(self, lister: Lister) -> None:
        self.lister = lister
        #: (namespace, name) -> assumed object
        self._assumed: dict[tuple[str, str], Any] = {}

    def get(self, name: str, namespace: str = "") -> Any | None:
        """The object as assumed, else as the API server has it; None where it has none."""
        stored = self.lister.get(name, namespace)
        return None if stored is None else self.latest(stored)

    def latest(self, stored: Any) -> Any:
        """The assumed object in place of the stored one, unless that is newer."""
        if not self._assumed:
            return stored
        key = _key(stored)
        assumed = self._assumed.get(key)
        if assumed is None:
            return stored
        if assumed.metadata.uid != stored.metadata.uid or is_newer(stored.metadata, assumed.metadata):
            del self._assumed[key]
            return stored
        return assumed

    def assumed(self) -> list[Any]:
        """The assumed objects that are still to become true."""
        for stored in [self.lister.get(name, namespace) for namespace, name in self._assumed]:
            if stored is not None:
                self.latest(stored)
        return list(self._assumed.values())

    def assume(self, obj: Any) -> None:
        """Take the object for decided."""
        self._assumed[_key(obj)] = obj

    def restore(self, assumed: Any) -> None:
        """Take a decision back; nothing where it is gone or another pod has decided since."""
        if self._assumed.get(_key(assumed)) is assumed:
            del self._assumed[_key(assumed)]

    def __len__(self) -> int:
        return len(self._assumed)


def _key(obj: Any) -> tuple[str, str]:
    return obj.metadata.namespace, obj.metadata.name
