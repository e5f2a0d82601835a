"""The state of a server in a file: one JSON object a line, the version first, packed where the name ends in `.gz`.

    {"resourceVersion": "4711"}
    {"kind": "Node", "apiVersion": "v1", "metadata": {…}, …}

Written and read object by object, so that neither needs the memory of the whole twice. A file is replaced in one step,
so a crash leaves the old one. Objects keep their versions, and clients that have seen the last of them go on watching.
"""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import msgspec.json

from simulator.apiserver.errors import Object
from simulator.apiserver.resources import Registry, Resource
from simulator.apiserver.store import Store
from simulator.apiserver.watch_cache import Revision, View


class StateFileError(Exception):
    """A file that is no state of a server; says where and why in one line."""


class Snapshot(NamedTuple):
    """All that is served at one moment. It shares the objects, which never change, and so costs next to nothing."""

    version: int
    parts: list[tuple[Resource, list[Revision]]]


def take(store: Store, registry: Registry) -> Snapshot:
    """Take a snapshot of everything that is served, each object in one version."""
    parts: dict[str, tuple[Resource, list[Revision]]] = {}
    for resource in registry:
        if resource.conversion is None and resource.collection not in parts:
            parts[resource.collection] = resource, list(store.collection(resource.collection).seen(View()))
    return Snapshot(store.version, list(parts.values()))


def write(snapshot: Snapshot, path: Path) -> int:
    """Write a snapshot; gives the number of objects. May run in a thread of its own."""
    partial = path.with_name(f".{path.name}.partial")
    partial.touch(mode=0o600)  # there may be Secrets in it
    with _open(partial, "wb", path) as file:
        file.write(msgspec.json.encode({"resourceVersion": str(snapshot.version)}) + b"\n")
        for resource, revisions in snapshot.parts:
            file.writelines(revision.encoded(resource) + b"\n" for revision in revisions)
    partial.replace(path)
    return sum(len(revisions) for _, revisions in snapshot.parts)


def save(store: Store, registry: Registry, path: Path) -> int:
    """Write everything that is served; gives the number of objects."""
    return write(take(store, registry), path)


def load(store: Store, registry: Registry, path: Path) -> int:
    """Fill a store from a file, in place of what it holds; gives the number of objects. Raises a StateFileError."""
    count = 0
    lines = _lines(path)
    _, head = next(lines, (1, {}))
    try:
        version = int(head["resourceVersion"])
    except (KeyError, TypeError, ValueError):
        raise StateFileError(f"{path}:1: the resourceVersion of a saved state is expected") from None
    store.begin(version)
    for number, obj in lines:
        resource = registry.by_kind(str(obj.get("apiVersion")), str(obj.get("kind")))
        if resource is None:
            raise StateFileError(f"{path}:{number}: no kind {obj.get('kind')!r} of {obj.get('apiVersion')!r} is served")
        try:
            metadata = obj["metadata"]
            key = (metadata["namespace"] if resource.namespaced else "", metadata["name"])
            store.place(store.collection(resource.collection), key, obj, int(metadata["resourceVersion"]))
        except (KeyError, TypeError, ValueError) as error:
            raise StateFileError(f"{path}:{number}: metadata of a saved object is expected: {error}") from None
        count += 1
    return count


def _lines(path: Path) -> Iterator[tuple[int, Object]]:
    number = 0
    try:
        with _open(path, "rb", path) as file:
            for number, line in enumerate(file, 1):
                yield number, cast("Object", msgspec.json.decode(line))
    except (msgspec.DecodeError, EOFError, gzip.BadGzipFile) as error:
        raise StateFileError(f"{path}:{number}: {error}") from None


def _open(path: Path, mode: str, named: Path) -> BinaryIO:
    if named.suffix == ".gz":
        return cast("BinaryIO", gzip.open(path, mode, compresslevel=1))
    return cast("BinaryIO", path.open(mode))
