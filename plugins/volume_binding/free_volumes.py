"""Free volumes of a class, prepared for being asked by many claims: smallest first, and grouped by what claims ask for.

Local volumes come by the thousand, one for each disk of each node, and differ in little but their node. Whether they
suit a claim is found out once per kind, which row has them is worked out once until nodes change; one volume that
comes or goes does not make the others be looked at again.

Owner: the ClaimReader, which alone updates it, between scheduling cycles.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from itertools import compress
from operator import attrgetter, is_
from typing import Any

import numpy as np

from kube.api.core import PersistentVolume, PersistentVolumeClaim
from kube.api.labels import selector_of
from kube.api.volumes import capacity_of, offers_modes, required_affinity, suits
from plugins.helpers.label_rows import NO_ROWS, LabelRows, single_value
from scheduler.snapshot.columns import Codes
from scheduler.snapshot.interning import Interner

#: instead of a row: the volume is reached from nowhere; from several rows, which its affinity tells; not known yet
NOWHERE, SEVERAL, UNKNOWN = -1, -2, -3
#: kinds, of volumes that are there or were, after which the table is made anew
MAX_KINDS = 4096
_BY_ORDER = attrgetter("order")


class _Entry:
    """What is read of a volume once."""

    __slots__ = ("kind", "order", "row", "single", "volume")

    def __init__(self, volume: PersistentVolume, kinds: Interner[Any]) -> None:
        spec = volume.spec
        required = required_affinity(volume)
        self.volume = volume
        # Among equally small ones any will do; by name the choice is the same each time.
        self.order = (capacity_of(volume), volume.metadata.name)
        self.kind = kinds.code(
            (
                self.order[0],
                spec.access_modes,
                spec.volume_mode,
                spec.volume_attributes_class_name,
                volume.metadata.deletion_timestamp,
            )
        )
        #: (label, value) where the volume can be reached from nodes with this one label
        self.single = single_value(required) if required is not None else None
        self.row = UNKNOWN


class FreeVolumes:
    """The free volumes of a class. A volume's position is its rank: the smallest volume has position 0."""

    def __init__(self) -> None:
        self.volumes: list[PersistentVolume] = []
        self._source: Sequence[PersistentVolume] = ()
        self._entries: list[_Entry] = []
        self._kinds: Interner[Any] = Interner()
        #: kind -> a volume of it
        self._samples: dict[int, PersistentVolume] = {}
        self._kind_of: Codes = NO_ROWS
        self._rows: Codes = NO_ROWS
        self._stamp: tuple[int, int] | None = None

    def update(self, volumes: Sequence[PersistentVolume]) -> None:
        """Hold exactly these objects."""
        if len(volumes) == len(self._source) and all(map(is_, volumes, self._source)):
            return
        if len(self._kinds) > MAX_KINDS:
            self._entries, self._kinds, self._samples = [], Interner(), {}
        here = set(map(id, volumes))
        self._entries = list(compress(self._entries, [id(entry.volume) in here for entry in self._entries]))
        known = {id(entry.volume) for entry in self._entries}
        added = [_Entry(volume, self._kinds) for volume in volumes if id(volume) not in known]
        for entry in added:
            self._samples.setdefault(entry.kind, entry.volume)
        if len(added) == 1:
            insort(self._entries, added[0], key=_BY_ORDER)
        elif added:
            self._entries = sorted((*self._entries, *added), key=_BY_ORDER)
        self._source = volumes
        self.volumes = [entry.volume for entry in self._entries]
        self._kind_of = np.array([entry.kind for entry in self._entries], np.intp)
        self._read_rows()

    def suitable(self, claim: PersistentVolumeClaim, taken: Iterable[str]) -> Codes:
        """Positions of the volumes that suit a claim, those taken left out. Raises SelectorError."""
        fits = np.zeros(len(self._kinds), np.bool_)
        for kind, volume in self._samples.items():
            fits[kind] = suits(volume, claim) and offers_modes(volume, claim)
        positions: Codes = fits[self._kind_of].nonzero()[0]
        left_out = set(taken)
        selects = selector_of(claim.spec.selector) if claim.spec.selector is not None else None
        if not left_out and selects is None:
            return positions
        kept = [
            volume.metadata.name not in left_out and (selects is None or selects(volume.metadata.labels))
            for volume in map(self.volumes.__getitem__, positions.tolist())
        ]
        return positions[np.array(kept, np.bool_)]

    def rows(self, by_label: LabelRows) -> Codes:
        """Per position the row from which the volume is reached, NOWHERE or SEVERAL."""
        if self._stamp != by_label.stamp:
            self._stamp = by_label.stamp
            for entry in self._entries:
                entry.row = UNKNOWN
            self._read_rows()
        for position in (self._rows == UNKNOWN).nonzero()[0].tolist():
            entry = self._entries[position]
            entry.row = self._rows[position] = _row(entry, by_label)
        return self._rows

    def _read_rows(self) -> None:
        self._rows = np.array([entry.row for entry in self._entries], np.intp)


def _row(entry: _Entry, by_label: LabelRows) -> int:
    if entry.single is None:
        return SEVERAL
    rows = by_label.with_value(*entry.single)
    if len(rows) == 1:
        return int(rows[0])
    return SEVERAL if len(rows) else NOWHERE
