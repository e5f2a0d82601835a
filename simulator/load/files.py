"""Files into documents: YAML, JSON, Lists, dumps, directories, gzip, stdin, and cluster traces as CSV.

What an object means is decided elsewhere.

`read(paths, problems)` is for `simulator.load` only. JSON stays undecoded bytes until `Document.body` is asked for, so
a dump of 100,000 pods never exists as dicts all at once.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from simulator.load.problems import Origin, Problems
from simulator.load.traces import TraceError, bodies
from simulator.load.yaml_documents import YAMLError, load_documents

STDIN = "-"
_SUFFIXES = {".yaml", ".yml", ".json", ".jsonl", ".ndjson"}
_BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"
_SPACE = re.compile(r"\s*")


def _keep_text(literal: str) -> str:
    """A float literal as written: quantities may be floats, nothing else that podium reads is one."""
    return literal


_VALUE = msgspec.json.Decoder(float_hook=_keep_text)


_ABSENT = msgspec.Raw(b"null")


class _Head(msgspec.Struct, rename="camel"):
    """What says which object this is, without building the rest of it."""

    kind: Any = None
    api_version: Any = None
    metadata: msgspec.Raw = _ABSENT
    items: list[msgspec.Raw] | None = None


_HEAD = msgspec.json.Decoder(_Head)
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])


class Document(msgspec.Struct, frozen=True, gc=False):
    """One API object as it was written, Lists already taken apart; `kind` and `api_version` are certain.

    `body` raises msgspec.DecodeError where a string in it is not valid: skipping over a value does not look so closely.
    """

    origin: Origin
    kind: str
    api_version: str
    raw: bytes | msgspec.Raw | dict[str, Any]

    def body(self) -> dict[str, Any]:
        """The object as dicts that the caller may change; JSON is decoded anew at each call."""
        body = self.raw if isinstance(self.raw, dict) else _VALUE.decode(self.raw)
        body["kind"], body["apiVersion"] = self.kind, self.api_version
        return body


def read(paths: Iterable[str], problems: Problems, *, gpu_share: bool = False) -> Iterator[Document]:
    """The objects of all files in the order given, a directory's files sorted by path."""
    seen_stdin = False
    for path in paths:
        if path == STDIN and seen_stdin:
            problems.error(STDIN, "standard input can be read only once")
            continue
        seen_stdin = seen_stdin or path == STDIN
        for name, from_directory in _files_of(path, problems):
            data = _bytes_of(name, problems)
            if data is not None and name.removesuffix(".gz").endswith(".csv"):
                yield from _trace(name, data, problems, gpu_share)
            elif data is not None:
                yield from _documents(name, data, from_directory, problems)


def _trace(name: str, data: bytes, problems: Problems, gpu_share: bool) -> Iterator[Document]:
    try:
        for number, body in enumerate(bodies(name, data.decode(), gpu_share=gpu_share), start=1):
            yield Document(Origin(name, number), body["kind"], body["apiVersion"], body)
    except UnicodeDecodeError:
        problems.error(name, "not UTF-8 text")
    except TraceError as error:
        where, _, text = error.problems[0].partition(": ")
        problems.error(where, text)


def _files_of(path: str, problems: Problems) -> list[tuple[str, bool]]:
    if path == STDIN or not Path(path).is_dir():
        return [(path, False)]
    found = sorted(str(file) for file in Path(path).rglob("*") if _is_manifest(file))
    if not found:
        problems.error(path, "no .yaml, .yml, .json or .jsonl file in this directory")
    return [(file, True) for file in found]


def _is_manifest(file: Path) -> bool:
    suffix = Path(file.stem).suffix if file.suffix == ".gz" else file.suffix
    return suffix in _SUFFIXES and file.is_file()


def _bytes_of(name: str, problems: Problems) -> bytes | None:
    try:
        data = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
        if data.startswith(_GZIP):
            data = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        problems.error(name, f"cannot be read: {getattr(error, 'strerror', None) or error}")
        return None
    return data.removeprefix(_BOM)


def _documents(name: str, data: bytes, from_directory: bool, problems: Problems) -> Iterator[Document]:
    values = _json_values(data) if data.lstrip()[:1] in (b"{", b"[") else None
    if values is None and name.removesuffix(".gz").endswith((".json", ".jsonl", ".ndjson")):
        problems.error(name, _json_problem(data))
        return
    try:
        for number, value in enumerate(load_documents(data) if values is None else values, start=1):
            if value is not None:
                yield from _objects(value, Origin(name, number, 0, from_directory), problems)
    except YAMLError as error:
        problems.error(name, str(error))


def _json_values(data: bytes) -> list[msgspec.Raw] | None:
    """The JSON values that follow each other in `data` (one, as a rule), or None where it is not JSON throughout."""
    try:
        _HEAD.decode(data)
    except msgspec.ValidationError:
        # Not an object, or the rest of it was not looked at.
        return [msgspec.Raw(data)] if _is_json(data) else None
    except (msgspec.DecodeError, RecursionError):
        try:
            return _concatenated(data.decode())
        except (ValueError, RecursionError):
            return None
    return [msgspec.Raw(data)]


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _concatenated(text: str) -> list[msgspec.Raw]:
    decoder, values, at = json.JSONDecoder(), [], 0
    while at < len(text):
        start = _SPACE.match(text, at).end()  # type: ignore[union-attr]  # the pattern matches everywhere
        if start == len(text):
            break
        _, at = decoder.raw_decode(text, start)
        values.append(msgspec.Raw(text[start:at].encode()))
    return values


def _json_problem(data: bytes) -> str:
    try:
        _concatenated(data.decode())
    except json.JSONDecodeError as error:
        return f"line {error.lineno}, column {error.colno}: not JSON: {error.msg}"
    except ValueError:
        return "not UTF-8 text"
    except RecursionError:
        return "nested too deeply"
    return "not a Kubernetes object: expected a mapping with apiVersion, kind and metadata"


def _objects(
    value: Any, origin: Origin, problems: Problems, list_kind: str = "", list_version: str = ""
) -> Iterator[Document]:
    """The object in `value`, or those of the List in it; what the List says about its items fills their gaps."""
    head = _head(value)
    if head is None:
        _not_an_object(origin, problems, "expected a mapping with apiVersion, kind and metadata")
        return
    kind, version = head.kind or "", head.api_version or ""
    if not isinstance(kind, str) or not isinstance(version, str):
        problems.error(origin, "kind and apiVersion: expected strings")
        return
    if head.items is not None and (kind.endswith("List") or not kind):
        item_kind = kind.removesuffix("List")
        for number, item in enumerate(head.items, start=1):
            place = Origin(origin.file, origin.document, number, origin.from_directory)
            yield from _objects(item, place, problems, item_kind, version if item_kind else "")
        return
    if kind.endswith("List") and not origin.item:
        return  # items: null, as Go writes an empty list
    # Some dumps carry the kind of the list (NodeList) on each of its items.
    kind = kind.removesuffix("List") or list_kind
    yield from _typed(value, head, origin, problems, kind, version or list_version)


def _head(value: Any) -> _Head | None:
    """kind, apiVersion and items of a value in either form; None for what is no mapping."""
    if isinstance(value, dict):
        items = value.get("items")
        metadata = _ABSENT if value.get("metadata") is None else msgspec.Raw(b"{}")
        return _Head(value.get("kind"), value.get("apiVersion"), metadata, items if isinstance(items, list) else None)
    if isinstance(value, list):
        return _Head("List", "v1", _ABSENT, value)
    if not isinstance(value, msgspec.Raw):
        return None
    try:
        return _HEAD.decode(value)
    except msgspec.ValidationError:
        text = bytes(value).lstrip()
        if text.startswith(b"["):
            return _Head("List", "v1", _ABSENT, _ITEMS.decode(value))
        return _head(_VALUE.decode(value)) if text.startswith(b"{") else None


def _typed(value: Any, head: _Head, origin: Origin, problems: Problems, kind: str, version: str) -> Iterator[Document]:
    if not kind:
        shape = value if isinstance(value, dict) else _VALUE.decode(value)
        if head.metadata == _ABSENT and not version:
            _not_an_object(origin, problems, "it has neither kind nor metadata")
            return
        kind, guessed = recognise(shape)
        if not kind:
            problems.error(origin, "kind is missing, and the fields do not tell what it is")
            return
        version = version or guessed
    if not version and kind not in _CORE_KINDS:
        problems.error(f"{origin} ({kind})", "apiVersion is missing")
        return
    yield Document(origin, kind, version or "v1", value)


def _not_an_object(origin: Origin, problems: Problems, why: str) -> None:
    """A file named by the user must hold objects; a directory may hold other things as well."""
    report = problems.warn if origin.from_directory else problems.error
    report(origin, f"not a Kubernetes object{', skipped' if origin.from_directory else ''}: {why}")


_CORE_KINDS = {"Node", "Pod", "Namespace", "Service", "PersistentVolume", "PersistentVolumeClaim"}
_CORE_KINDS |= {"ReplicationController", "PodTemplate"}


def recognise(body: dict[str, Any]) -> tuple[str, str]:
    """(kind, apiVersion) of an object that lost both, from fields that only one kind has; ("", "") if in doubt."""
    spec, status = body.get("spec") or {}, body.get("status") or {}
    if not isinstance(spec, dict) or not isinstance(status, dict):
        return "", ""
    if "nodeInfo" in status:
        return "Node", "v1"
    if isinstance(spec.get("containers"), list):
        return "Pod", "v1"
    if "persistentVolumeReclaimPolicy" in spec:
        return "PersistentVolume", "v1"
    if "accessModes" in spec and "resources" in spec:
        return "PersistentVolumeClaim", "v1"
    if isinstance(body.get("provisioner"), str):
        return "StorageClass", "storage.k8s.io/v1"
    return "", ""
