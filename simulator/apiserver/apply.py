"""Server-side apply: a manager says what it wants of an object, and owns the fields that it named.

    live ∪ applied − what the manager named before and no longer does     unless others own and differ: a 409

Ownership is kept in `metadata.managedFields` from an object's first apply on, not before: objects that are never
applied pay nothing for it. What an object held before its first apply counts as owned by `before-first-apply`, or by
client-side apply where that has left its annotation. `track_update` keeps ownership up when others write later.
"""

from dataclasses import dataclass, replace
from typing import Any, Protocol

import msgspec.json

from simulator.apiserver import errors
from simulator.apiserver.errors import ApiError, Cause, Object, bad_request
from simulator.apiserver.field_sets import (
    MISSING,
    FieldSet,
    Path,
    field_set,
    from_fields,
    look_up,
    merge,
    remove,
    spell,
    to_fields,
)
from simulator.apiserver.field_validation import FieldCheck
from simulator.apiserver.resources import Resource
from simulator.apiserver.schema import Message, message_of
from simulator.apiserver.shape import check_shape

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_CLIENT_SIDE, _BEFORE = "kubectl-client-side-apply", "before-first-apply"
APPLY, UPDATE = "Apply", "Update"


@dataclass(frozen=True, slots=True)
class Owner:
    """One entry of managedFields."""

    manager: str
    operation: str
    api_version: str
    fields: FieldSet
    time: str = ""
    subresource: str = ""

    def is_same(self, other: "Owner") -> bool:
        """Tell whether two entries are of one manager writing in one way."""
        mine = (self.manager, self.operation, self.api_version, self.subresource)
        return mine == (other.manager, other.operation, other.api_version, other.subresource)

    def entry(self) -> Object:
        """Spell the entry."""
        entry: Object = {"manager": self.manager, "operation": self.operation, "apiVersion": self.api_version}
        if self.time:
            entry["time"] = self.time
        entry |= {"fieldsType": "FieldsV1", "fieldsV1": to_fields(self.fields)}
        return entry | {"subresource": self.subresource} if self.subresource else entry

    def __str__(self) -> str:
        """Name the owner as a conflict does."""
        named = f'"{self.manager}"' + (f' with subresource "{self.subresource}"' if self.subresource else "")
        if self.operation == APPLY:
            return named
        return f"{named} using {self.api_version}"


def owners_of(obj: Object) -> list[Owner]:
    """Read an object's managedFields; raises a 400 for what cannot be read."""
    try:
        return [
            Owner(
                entry["manager"],
                entry["operation"],
                entry["apiVersion"],
                from_fields(entry.get("fieldsV1") or {}),
                entry.get("time") or "",
                entry.get("subresource") or "",
            )
            for entry in obj["metadata"].get("managedFields") or ()
            if entry
        ]
    except (KeyError, AttributeError, TypeError) as error:
        raise bad_request(f"metadata.managedFields: an entry cannot be read: {error}") from error


def _written(obj: Object, owners: list[Owner]) -> Object:
    """Give the object with these owners."""
    listed = sorted((one for one in owners if one.fields), key=lambda one: (one.operation, one.time, one.manager))
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    if listed:
        metadata["managedFields"] = [owner.entry() for owner in listed]
    return {**obj, "metadata": metadata}


# --- apply ---------------------------------------------------------------------------------------------------------


class Rules(Protocol):
    """The part of a write that apply needs to know."""

    @property
    def force(self) -> bool:
        """Whether to take fields from their owners."""

    @property
    def fields(self) -> FieldCheck | None:
        """What to say about unknown fields."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What a manager applies."""

    resource: Resource
    kind: Message | None
    obj: Object
    owner: Owner
    force: bool

    @classmethod
    def read(cls, resource: Resource, name: str, body: Any, owner: Owner, rules: "Rules") -> "Applied":
        """Check an applied configuration and take its fields; raises a 400."""
        obj = check_shape(resource, body, rules.fields)
        if not obj.get("apiVersion") or not obj.get("kind"):
            raise bad_request("an applied configuration says its apiVersion and kind")
        if obj["metadata"].get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        if obj["metadata"].setdefault("name", name) != name:
            raise bad_request(f"the name of the object ({obj['metadata']['name']}) does not match the URL ({name})")
        kind = message_of(resource)
        fields = field_set(kind, obj, status=bool(owner.subresource))
        return cls(resource, kind, obj, replace(owner, fields=fields), rules.force)

    def alone(self) -> Object:
        """Give the object to create where there is none."""
        return _written(self._visible(), [self.owner])

    def onto(self, live: Object) -> Object:
        """Give what becomes of the live object; raises a 409 for what others own and want otherwise."""
        owners = owners_of(live) or self._first_owners(live)
        mine = next((one for one in owners if one.is_same(self.owner)), None)
        others = [one for one in owners if one is not mine]
        merged = merge(self.kind, live, self._visible())
        conflicts = self._conflicts(live, merged, others)
        if conflicts and not self.force:
            raise self._refusal(conflicts)
        lost = {path for _, path in conflicts}
        others = [replace(one, fields=one.fields - lost) for one in others]
        if mine is not None:
            kept = {path for one in others for path in one.fields} | self.owner.fields
            merged = remove(self.kind, merged, mine.fields - self.owner.fields, kept)
        if mine is not None and mine.fields == self.owner.fields:
            return _written(merged, [*others, mine if merged == live else self.owner])
        return _written(self._noted(merged), [*others, self.owner])

    def _visible(self) -> Object:
        """Give the part of what is applied that goes through this endpoint."""
        part = {"metadata", "status"} if self.owner.subresource else set(self.obj) - {"status"}
        return {key: value for key, value in self.obj.items() if key in part}

    def _noted(self, merged: Object) -> Object:
        """Keep the annotation of client-side apply up, where there is one and kubectl has gone over to this way."""
        annotations = merged["metadata"].get("annotations") or {}
        if LAST_APPLIED not in annotations or self.owner.manager != "kubectl":
            return merged
        text = msgspec.json.encode(self.obj).decode() + "\n"
        metadata = {**merged["metadata"], "annotations": {**annotations, LAST_APPLIED: text}}
        return {**merged, "metadata": metadata}

    def _first_owners(self, live: Object) -> list[Owner]:
        if self.owner.subresource:
            return []
        text = (live["metadata"].get("annotations") or {}).get(LAST_APPLIED)
        if text is None:
            return [Owner(_BEFORE, UPDATE, self.owner.api_version, field_set(self.kind, live), self.owner.time)]
        fields = field_set(self.kind, msgspec.json.decode(text)) | {
            ("f:metadata", "f:annotations", f"f:{LAST_APPLIED}")
        }
        return [Owner(_CLIENT_SIDE, UPDATE, self.owner.api_version, fields, self.owner.time)]

    def _conflicts(self, live: Object, merged: Object, others: list[Owner]) -> list[tuple[Owner, Path]]:
        """Give what would change under another owner's hands; client-side apply gives way to server-side apply."""
        changed = {path for path in self.owner.fields if self._differs(live, merged, path)}
        passed_on = LAST_APPLIED in (live["metadata"].get("annotations") or {})
        return [
            (one, path)
            for one in others
            for path in sorted(one.fields & changed)
            if not (passed_on and one.manager == _CLIENT_SIDE)
        ]

    def _differs(self, live: Object, merged: Object, path: Path) -> bool:
        before = look_up(self.kind, live, path)
        if before is MISSING:
            return False
        after = look_up(self.kind, merged, path)
        # An item of a list is there or not; what is in it has paths of its own.
        return after is MISSING or (not path[-1].startswith("k:") and before != after)

    @staticmethod
    def _refusal(conflicts: list[tuple[Owner, Path]]) -> ApiError:
        causes = [Cause("FieldManagerConflict", f"conflict with {owner}", spell(path)) for owner, path in conflicts]
        if len(causes) == 1:
            text = f"{causes[0].message}: {causes[0].field}"
            return errors.apply_conflict(f"Apply failed with 1 conflict: {text}", causes)
        by_owner: dict[str, list[str]] = {}
        for owner, path in conflicts:
            by_owner.setdefault(str(owner), []).append(f"- {spell(path)}")
        listed = ["\n".join([f"conflicts with {owner}:", *paths]) for owner, paths in sorted(by_owner.items())]
        return errors.apply_conflict(f"Apply failed with {len(causes)} conflicts: " + "\n".join(listed), causes)


# --- other writes --------------------------------------------------------------------------------------------------


def track_update(resource: Resource, old: Object, new: Object, writer: Owner) -> Object:
    """Give `new` with owners that tell of the change: its fields are the writer's now, and what is gone is nobody's."""
    if not old["metadata"].get("managedFields") or new["metadata"].get("managedFields") == []:
        return new
    kind, status = message_of(resource), bool(writer.subresource == "status")
    before, after = field_set(kind, old, status=status), field_set(kind, new, status=status)
    changed = frozenset(
        path
        for path in after
        if path not in before
        or (not path[-1].startswith("k:") and look_up(kind, old, path) != look_up(kind, new, path))
    )
    if not changed and before == after:
        return new
    owners = owners_of(new)
    mine = next((one for one in owners if one.is_same(writer)), None)
    left = changed | (before - after)
    others = [replace(one, fields=one.fields - left) for one in owners if one is not mine]
    fields = ((mine.fields if mine else frozenset()) - (before - after)) | changed
    return _written(new, [*others, replace(writer, fields=fields)])
