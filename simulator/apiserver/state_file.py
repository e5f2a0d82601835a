"""The state of a server in a file: one JSON object a line, the version first, packed where the name ends in `.gz`.

    {"resourceVersion": "4711"}
    {"kind": "Node", "apiVersion": "v1", "metadata": {…}, …}

Written and read object by object, so that neither needs the memory of the whole twice. A file is replaced in one step,
so a crash leaves the old one. Objects keep their versions, and clients that have seen the last of them go on watching.
"""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import msgspec.json

from simulator.apiserver.errors import Object
from simulator.apiserver.resources import Registry
from simulator.apiserver.store import Store
from simulator.apiserver.watch_cache import View


class StateFileError(Exception):
    """A file that is no state of a server; says where and why in one line."""


def save(store: Store, registry: Registry, path: Path) -> int:
    """Write everything that is served; gives the number of objects."""
    partial = path.with_name(f".{path.name}.partial")
    count = 0
    with _open(partial, "wb", path) as file:
        file.write(msgspec.json.encode({"resourceVersion": str(store.version)}) + b"\n")
        seen: set[str] = set()
        for resource in registry:
            if resource.collection in seen or resource.conversion is not None:
                continue
            seen.add(resource.collection)
            for revision in store.collection(resource.collection).seen(View()):
                file.write(revision.encoded(resource) + b"\n")
                count += 1
    partial.replace(path)
    return count


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
