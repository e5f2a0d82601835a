"""The HTTP face of the API: from a request to a verb, and from its result or refusal to an answer.

    path ► Target ► faults ► verb ► bytes

No rules of Kubernetes' own live here but those about the wire: content types, status codes, watch streams.
Owner: `ApiServer`. One handler for everything instead of aiohttp's router: the paths are regular, and this is the hot
path.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec.json
from aiohttp import web

from simulator.apiserver import discovery, errors
from simulator.apiserver.errors import ApiError, Object, bad_request
from simulator.apiserver.eviction import evict
from simulator.apiserver.faults import ConnectionCutError, Effect, Faults
from simulator.apiserver.listing import ListRequest, list_objects, parse_bool
from simulator.apiserver.patch import JSON_PATCH, MERGE_PATCH, PATCH_TYPES
from simulator.apiserver.resources import Resource
from simulator.apiserver.selectors import compile_selectors
from simulator.apiserver.subresources import bind, patch_scale, scale_of, update_scale
from simulator.apiserver.verbs import DeleteOptions, Verbs
from simulator.apiserver.watch_cache import Revision, View
from simulator.apiserver.watching import WatchRequest, WatchSettings, serve_watch

log = logging.getLogger(__name__)

JSON = "application/json"
_NO_QUERY: Mapping[str, str] = {}
_HEALTH = ("/healthz", "/livez", "/readyz")
# Paths below a namespace object itself; anything else behind its name is a resource inside it.
_NAMESPACE_PARTS = ("status", "finalize")


@dataclass(frozen=True, slots=True)
class Target:
    """What a URL means."""

    resource: Resource
    namespace: str
    name: str
    subresource: str


class Handler:
    """Serves all requests of one server."""

    def __init__(self, verbs: Verbs, faults: Faults, settings: WatchSettings, token: str = "") -> None:
        self.requests = 0
        self._verbs = verbs
        self._faults = faults
        self._settings = settings
        self._authorization = f"Bearer {token}" if token else ""

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request, whatever happens."""
        self.requests += 1
        try:
            if self._faults.active and (effects := self._faults.strike(_verb(request), request.raw_path)):
                return await self._serve_disturbed(request, effects)
            return await self._serve(request, [])
        except ApiError as error:
            return _refusal(error)
        except ConnectionCutError:
            return _cut(request)
        except ConnectionResetError:
            raise
        except Exception:
            log.exception("%s %s failed", request.method, request.raw_path)
            return _refusal(errors.internal("see the server's log"))

    async def _serve_disturbed(self, request: web.BaseRequest, effects: list[Effect]) -> web.StreamResponse:
        for effect in effects:
            answer = await effect.before(self._faults.random)
            if answer is not None:
                return answer
        response = await self._serve(request, effects)
        for effect in effects:
            effect.after()
        return response

    async def _serve(self, request: web.BaseRequest, effects: list[Effect]) -> web.StreamResponse:
        path = request.path
        if path in _HEALTH:
            return web.Response(text="ok")
        if self._authorization and request.headers.get("Authorization") != self._authorization:
            raise errors.unauthorized()
        parts = path.strip("/").split("/")
        if parts[0] == "api" and len(parts) > 2:
            group, version, rest = "", parts[1], parts[2:]
        elif parts[0] == "apis" and len(parts) > 3:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            return _json(self._document(request.method, parts))
        target = self._target(group, version, rest)
        query = request.query if request.query_string else _NO_QUERY
        if request.method == "GET":
            return await self._read(request, target, query, effects)
        body = await _read_body(request)
        if target.resource.plural == "bindings" or target.subresource not in ("", "status", "finalize"):
            return self._write_subresource(request, target, query, body)
        return self._write(request, target, query, body)

    # --- finding out what is meant -------------------------------------------------------------------------------

    def _document(self, method: str, parts: list[str]) -> Object:
        found = discovery.document(self._verbs.registry, parts)
        if found is None:
            raise errors.path_not_found()
        if method != "GET":
            raise errors.method_not_allowed()
        return found

    def _target(self, group: str, version: str, rest: list[str]) -> Target:
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _NAMESPACE_PARTS:
            namespace, rest = rest[1], rest[2:]
        resource = self._verbs.registry.by_path(group, version, rest[0])
        name = rest[1] if len(rest) > 1 else ""
        subresource = rest[2] if len(rest) > 2 else ""
        if resource is None or len(rest) > 3 or (subresource and subresource not in resource.subresources):
            raise errors.path_not_found()
        if resource.namespaced != bool(namespace) and (namespace or name):
            raise errors.path_not_found()
        return Target(resource, namespace, name, subresource)

    # --- reading -------------------------------------------------------------------------------------------------

    async def _read(
        self, request: web.BaseRequest, target: Target, query: Mapping[str, str], effects: list[Effect]
    ) -> web.StreamResponse:
        resource = target.resource
        if "get" not in resource.verbs:
            raise errors.method_not_allowed()
        if target.name:
            revision = self._verbs.get(resource, target.namespace, target.name)
            return _json(scale_of(revision)) if target.subresource == "scale" else _object(resource, revision)
        selector = compile_selectors(query.get("labelSelector", ""), query.get("fieldSelector", ""), resource)
        view = View(target.namespace, selector)
        if parse_bool(query, "watch"):
            watch = WatchRequest.parse(resource, query)
            return await serve_watch(request, self._verbs.store, view, watch, self._settings, effects)
        body = list_objects(self._verbs.store, resource, view, ListRequest.parse(query))
        return web.Response(body=body, content_type=JSON)

    # --- writing -------------------------------------------------------------------------------------------------

    def _write(self, request: web.BaseRequest, target: Target, query: Mapping[str, str], body: bytes) -> web.Response:
        verbs, resource, method = self._verbs, target.resource, request.method
        dry_run = _dry_run(query)
        if method == "DELETE":
            return self._delete(target, query, body)
        if method == "POST" and not target.name and (target.namespace or not resource.namespaced):
            revision = verbs.create(resource, target.namespace, _decode(request, body), dry_run)
            return _object(resource, revision, 201)
        if method in ("PUT", "PATCH") and target.name:
            status = target.subresource == "status"
            if method == "PUT":
                obj = _decode(request, body)
                revision = verbs.update(resource, target.namespace, target.name, obj, status=status, dry_run=dry_run)
            else:
                content_type = _patch_type(request, resource)
                key = (target.namespace, target.name)
                patch = _parse(body)
                revision = verbs.patch(resource, key, patch, content_type, status=status, dry_run=dry_run)
            return _object(resource, revision)
        raise errors.method_not_allowed()

    def _delete(self, target: Target, query: Mapping[str, str], body: bytes) -> web.Response:
        verbs, resource = self._verbs, target.resource
        options = DeleteOptions.parse(_parse(body) if body else None, _grace_seconds(query), _dry_run(query))
        if target.subresource or "delete" not in resource.verbs:
            raise errors.method_not_allowed()
        if not target.name:
            selector = compile_selectors(query.get("labelSelector", ""), query.get("fieldSelector", ""), resource)
            gone = verbs.delete_collection(resource, View(target.namespace, selector), options)
            items = [revision.obj for revision in gone]
            metadata = {"resourceVersion": str(verbs.store.version)}
            listed = {"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": metadata}
            return _json({**listed, "items": items})
        revision, dropped = verbs.delete(resource, target.namespace, target.name, options)
        if not dropped or resource.returns_deleted:
            return _object(resource, revision)
        details = {"name": target.name, "group": resource.group, "kind": resource.plural}
        details = {key: value for key, value in details.items() if value} | {"uid": revision.obj["metadata"]["uid"]}
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return _json(status)

    def _write_subresource(
        self, request: web.BaseRequest, target: Target, query: Mapping[str, str], body: bytes
    ) -> web.Response:
        verbs, resource, method, dry_run = self._verbs, target.resource, request.method, _dry_run(query)
        namespace, name = target.namespace, target.name
        if resource.plural == "bindings" and method == "POST":
            return self._bind_legacy(namespace, _decode(request, body), dry_run)
        if target.subresource == "binding" and method == "POST":
            return _json(bind(verbs, resource, namespace, name, _decode(request, body), dry_run), 201)
        if target.subresource == "eviction" and method == "POST":
            return _json(evict(verbs, resource, namespace, name, _decode(request, body), dry_run), 201)
        if target.subresource == "scale" and method == "PUT":
            old = verbs.get(resource, namespace, name)
            return _json(update_scale(verbs, resource, old, _decode(request, body), dry_run))
        if target.subresource == "scale" and method == "PATCH":
            old, content_type = verbs.get(resource, namespace, name), _patch_type(request, resource)
            return _json(patch_scale(verbs, resource, old, _parse(body), content_type, dry_run))
        raise errors.method_not_allowed()

    def _bind_legacy(self, namespace: str, binding: Any, dry_run: bool) -> web.Response:
        pods = self._verbs.registry.by_kind("v1", "Pod")
        metadata = binding.get("metadata") if isinstance(binding, dict) else None
        if pods is None or not isinstance(metadata, dict) or not metadata.get("name"):
            raise bad_request("Binding: metadata.name is required")
        return _json(bind(self._verbs, pods, namespace, metadata["name"], binding, dry_run), 201)


# --- the wire ------------------------------------------------------------------------------------------------------


def _verb(request: web.BaseRequest) -> str:
    """Tell the Kubernetes verb of a request, for faults; the shape of the path tells a list from a get."""
    method = request.method
    if method in ("GET", "DELETE"):
        parts = request.path.strip("/").split("/")
        below = parts[2:] if parts[0] == "api" else parts[3:]
        inside = len(below) > 2 and below[0] == "namespaces" and below[2] not in _NAMESPACE_PARTS
        collection = len(below) == (3 if inside else 1)
        if method == "DELETE":
            return "deletecollection" if collection else "delete"
        if not collection:
            return "get"
        return "watch" if parse_bool(request.query, "watch") else "list"
    return {"POST": "create", "PUT": "update", "PATCH": "patch"}.get(method, method.lower())


async def _read_body(request: web.BaseRequest) -> bytes:
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise ApiError(413, "RequestEntityTooLarge", "the request body is larger than the server takes") from error


def _decode(request: web.BaseRequest, body: bytes) -> Any:
    if request.content_type not in (JSON, "application/octet-stream"):
        raise errors.unsupported_media_type(request.content_type, (JSON,))
    return _parse(body)


def _parse(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"the body of the request is not JSON: {error}") from error


def _patch_type(request: web.BaseRequest, resource: Resource) -> str:
    accepted = PATCH_TYPES if resource.strategic_merge else (JSON_PATCH, MERGE_PATCH)
    if request.content_type not in accepted:
        raise errors.unsupported_media_type(request.content_type, accepted)
    return request.content_type


def _dry_run(query: Mapping[str, str]) -> bool:
    return query.get("dryRun") == "All" if query else False


def _grace_seconds(query: Mapping[str, str]) -> int | None:
    text = query.get("gracePeriodSeconds")
    if text is None:
        return None
    if not text.isdecimal():
        raise bad_request(f"gracePeriodSeconds: a whole number is expected, got {text!r}")
    return int(text)


def _object(resource: Resource, revision: Revision, status: int = 200) -> web.Response:
    return web.Response(body=revision.encoded(resource), status=status, content_type=JSON)


def _json(document: Object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(document), status=status, content_type=JSON)


def _refusal(error: ApiError) -> web.Response:
    response = _json(error.status(), error.code)
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    return response


def _cut(request: web.BaseRequest) -> web.Response:
    """Cut the connection; aiohttp still wants an answer, which then goes nowhere."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
