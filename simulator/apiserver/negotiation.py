"""What bodies come in and in which forms answers go: JSON, YAML and protobuf in, JSON out, packed where it is large.

    Content-Type ─► `decode_body`      Accept ─► a Form (`forms.py`)      Accept-Encoding ─► `packed`

No rule of Kubernetes' own lives here, and nothing is stored. Called by `http.py` alone.
"""

import asyncio
import gzip
from collections.abc import Mapping
from typing import Any

import msgspec.json
import yaml
from aiohttp import web

from simulator.apiserver import errors, protobuf
from simulator.apiserver.errors import ApiError, Object, bad_request
from simulator.apiserver.field_validation import FieldCheck
from simulator.apiserver.patch import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, PATCH_TYPES
from simulator.apiserver.resources import Resource
from simulator.apiserver.verbs import Write

JSON = "application/json"
YAML = "application/yaml"
_BODY_TYPES = (JSON, YAML, protobuf.PROTOBUF)
_AS_JSON = (JSON, "application/octet-stream")  # the second is what aiohttp says for none
# As the real server: answers below this size are sent as they are.
_PACKED_FROM = 128 * 1024


async def read_body(request: web.BaseRequest) -> bytes:
    """Read the body; raises a 413 for one that is too large."""
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise ApiError(413, "RequestEntityTooLarge", "the request body is larger than the server takes") from error


def decode_body(request: web.BaseRequest, body: bytes) -> Any:
    """Decode an object in whatever form it came; raises a 400 or 415."""
    content_type = request.content_type
    if content_type in _AS_JSON:
        return parse_json(body)
    if content_type == protobuf.PROTOBUF:
        return protobuf.decode(body)
    if content_type == YAML:
        return parse_yaml(body)
    raise errors.unsupported_media_type(content_type, _BODY_TYPES)


def parse_json(body: bytes) -> Any:
    """Decode JSON; raises a 400."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"the body of the request is not JSON: {error}") from error


def parse_yaml(body: bytes) -> Any:
    """Decode YAML, of which JSON is a part; raises a 400."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    try:
        # Times stay words, as in JSON.
        return yaml.load(body, Loader=_Loader)
    except yaml.YAMLError as error:
        why = " ".join(str(error).split())
        raise bad_request(f"the body of the request is neither JSON nor YAML: {why}") from error


class _Loader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: what looks like a time is a word."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def patch_type(request: web.BaseRequest, resource: Resource) -> str:
    """Tell the format of a patch; raises a 415."""
    content_type = request.content_type
    accepted = PATCH_TYPES if resource.strategic_merge else (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
    if content_type not in accepted:
        raise errors.unsupported_media_type(content_type, accepted)
    return content_type


def write_of(request: web.BaseRequest, query: Mapping[str, str], subresource: str) -> Write:
    """Read from a request how it wants to be carried out; raises a 400."""
    if not query:
        return Write(manager=_agent(request), fields=FieldCheck(), subresource=subresource)
    manager = query.get("fieldManager") or _agent(request)
    return Write(dry_run(query), manager, FieldCheck.of(query), query.get("force") == "true", subresource)


def dry_run(query: Mapping[str, str]) -> bool:
    """Read the query's dryRun; raises a 400 for anything but All."""
    given = query.get("dryRun", "")
    if given not in ("", "All"):
        raise bad_request(f'dryRun: Unsupported value: "{given}": supported values: "All"')
    return given == "All"


def _agent(request: web.BaseRequest) -> str:
    """Give the name of a client that says none: the first word of its User-Agent."""
    return request.headers.get("User-Agent", "unknown").partition("/")[0]


def json_answer(document: Object, status: int = 200) -> web.Response:
    """Answer with a document."""
    return web.Response(body=msgspec.json.encode(document), status=status, content_type=JSON)


def warn(response: web.Response, write: Write) -> web.Response:
    """Add to an answer what the client should be told besides."""
    for text in write.fields.warnings if write.fields else ():
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{quoted}"')
    return response


async def packed(request: web.BaseRequest, body: bytes) -> web.Response:
    """Answer with bytes, compressed where they are many and the client takes it."""
    response = web.Response(body=body, content_type=JSON)
    if len(body) >= _PACKED_FROM and "gzip" in request.headers.get("Accept-Encoding", ""):
        response.body = await asyncio.to_thread(gzip.compress, body, 1)
        response.headers["Content-Encoding"] = "gzip"
        response.headers["Vary"] = "Accept-Encoding"
    return response
