"""The forms in which an answer can show objects: as they are, as a Table for people, or as their metadata alone.

    Accept ─► `form_of` ─► Form ─► the body of one object, of a list, or of one event of a watch

A form belongs to one resource and holds no objects. Forms are shared (`form_of` gives the same one for the same
question), so an event is encoded once per form and not per watcher. Tables are made anew for each list, for they tell
ages; encoded objects are kept with their revision.
"""

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, Protocol

import msgspec.json

from simulator.apiserver.errors import Object
from simulator.apiserver.listing import Listed, encode_list
from simulator.apiserver.printing import printer_of
from simulator.apiserver.resources import Resource
from simulator.apiserver.watch_cache import Revision

JSON = "application/json"
META_GROUP = "meta.k8s.io"
_VERSIONS = ("v1", "v1beta1")
Included = Literal["None", "Metadata", "Object"]


class Form(Protocol):
    """How one resource is shown."""

    resource: Resource
    kept: bool

    def encode(self, revision: Revision) -> bytes:
        """Give one object."""

    def encode_list(self, listed: Listed) -> bytes:
        """Give a list of objects."""

    def encode_bookmark(self, obj: Object) -> bytes:
        """Give what a bookmark carries: an object with nothing but a version."""


class Whole:
    """Objects as they are."""

    kept = True

    def __init__(self, resource: Resource) -> None:
        self.resource = resource

    def encode(self, revision: Revision) -> bytes:
        """Give one object."""
        return revision.encoded(self.resource)

    def encode_list(self, listed: Listed) -> bytes:
        """Give a list of objects."""
        return encode_list(self.resource, listed)

    def encode_bookmark(self, obj: Object) -> bytes:
        """Give the object with the version."""
        return msgspec.json.encode(obj)


class MetadataOnly:
    """Objects as PartialObjectMetadata."""

    kept = False

    def __init__(self, resource: Resource, version: str) -> None:
        self.resource = resource
        self._head = {"kind": "PartialObjectMetadata", "apiVersion": f"{META_GROUP}/{version}"}
        self._list_head = {"kind": "PartialObjectMetadataList", "apiVersion": f"{META_GROUP}/{version}"}

    def encode(self, revision: Revision) -> bytes:
        """Give one object."""
        return self.encode_bookmark(revision.obj)

    def encode_list(self, listed: Listed) -> bytes:
        """Give a list of objects."""
        items = [{**self._head, "metadata": revision.obj["metadata"]} for revision in listed.revisions]
        return msgspec.json.encode({**self._list_head, "metadata": listed.metadata(), "items": items})

    def encode_bookmark(self, obj: Object) -> bytes:
        """Give the metadata of an object."""
        return msgspec.json.encode({**self._head, "metadata": obj["metadata"]})


class Tabular:
    """Objects as rows of a Table, with the columns of their printer."""

    kept = False

    def __init__(self, resource: Resource, version: str, included: Included, now: Callable[[], datetime]) -> None:
        self.resource = resource
        self._printer = printer_of(resource)
        self._included = included
        self._api_version = f"{META_GROUP}/{version}"
        self._columns = [column.definition() for column in self._printer.columns]
        self._now = now

    def encode(self, revision: Revision) -> bytes:
        """Give a Table with one row."""
        metadata = {"resourceVersion": revision.obj["metadata"]["resourceVersion"]}
        return self._table(metadata, [self._row(revision, self._now())])

    def encode_list(self, listed: Listed) -> bytes:
        """Give a Table with a row for each object."""
        now = self._now()
        return self._table(listed.metadata(), [self._row(revision, now) for revision in listed.revisions])

    def encode_bookmark(self, obj: Object) -> bytes:
        """Give a Table whose one row has nothing to show."""
        cells = ["" for _ in self._columns]
        return self._table({}, [{"cells": cells, "object": self._object(obj, obj)}])

    def _table(self, metadata: Object, rows: list[Object]) -> bytes:
        head = {"kind": "Table", "apiVersion": self._api_version, "metadata": metadata}
        return msgspec.json.encode({**head, "columnDefinitions": self._columns, "rows": rows})

    def _row(self, revision: Revision, now: datetime) -> Object:
        conversion = self.resource.conversion
        shown = conversion.from_storage(revision.obj) if conversion and self._included == "Object" else revision.obj
        return {"cells": self._printer.row(revision.obj, now), "object": self._object(revision.obj, shown)}

    def _object(self, obj: Object, shown: Object) -> Any:
        if self._included == "None":
            return None
        if self._included == "Object":
            return shown
        return {"kind": "PartialObjectMetadata", "apiVersion": self._api_version, "metadata": obj["metadata"]}


@lru_cache(maxsize=1024)
def whole(resource: Resource) -> Whole:
    """Give the plain form of a resource."""
    return Whole(resource)


class Forms:
    """The forms of one server, whose clock tells the ages. Owner: `Handler`."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._forms: dict[tuple[Resource, str, str, str], Form] = {}

    def of(self, resource: Resource, accept: str, included: str = "", *, is_list: bool = False) -> Form | None:
        """Choose the first form of an Accept header that is served here; None when there is none."""
        if accept in ("", JSON, "*/*"):
            return whole(resource)
        for offer in accept.split(","):
            media_type, *parameters = (part.strip() for part in offer.split(";"))
            options = dict(part.partition("=")[::2] for part in parameters)
            if media_type not in (JSON, "*/*", "application/*"):
                continue
            if "as" not in options:
                return whole(resource)
            if options.get("g") == META_GROUP and options.get("v") in _VERSIONS:
                form = self._special(resource, options["as"], options["v"], included, is_list)
                if form is not None:
                    return form
        return None

    def _special(self, resource: Resource, kind: str, version: str, included: str, is_list: bool) -> Form | None:
        key = (resource, kind, version, included)
        known = self._forms.get(key)
        if known is not None:
            return known
        if kind == "Table":
            chosen: Included = "None" if included == "None" else "Object" if included == "Object" else "Metadata"
            form: Form = Tabular(resource, version, chosen, self._now)
        elif kind == ("PartialObjectMetadataList" if is_list else "PartialObjectMetadata"):
            form = MetadataOnly(resource, version)
        else:
            return None
        self._forms[key] = form
        return form
