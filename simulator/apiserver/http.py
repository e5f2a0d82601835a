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

from aiohttp import web

from simulator.apiserver import discovery, errors
from simulator.apiserver.deletion import DeleteOptions
from simulator.apiserver.errors import ApiError, bad_request
from simulator.apiserver.eviction import evict
from simulator.apiserver.faults import ConnectionCutError, Effect, Faults
from simulator.apiserver.forms import JSON, Form, Forms
from simulator.apiserver.listing import ListRequest, list_objects, parse_bool
from simulator.apiserver.negotiation import (
    decode_body,
    dry_run,
    json_answer,
    packed,
    parse_json,
    parse_yaml,
    patch_type,
    read_body,
    warn,
    write_of,
)
from simulator.apiserver.patch import APPLY_PATCH
from simulator.apiserver.resources import Resource
from simulator.apiserver.selectors import compile_selectors
from simulator.apiserver.subresources import bind, patch_scale, scale_of, update_scale
from simulator.apiserver.verbs import Verbs, Write
from simulator.apiserver.watch_cache import Revision, View
from simulator.apiserver.watching import WatchRequest, WatchSettings, serve_watch

log = logging.getLogger(__name__)

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
        self._forms = Forms(verbs.clock)
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
            return self._document(request, parts)
        target = self._target(group, version, rest)
        query = request.query if request.query_string else _NO_QUERY
        if request.method == "GET":
            return await self._read(request, target, query, effects)
        body = await read_body(request)
        if target.resource.plural == "bindings" or target.subresource not in ("", "status", "finalize"):
            return self._write_subresource(request, target, query, body)
        return self._write(request, target, query, body)

    # --- finding out what is meant -------------------------------------------------------------------------------

    def _document(self, request: web.BaseRequest, parts: list[str]) -> web.Response:
        if parts == ["openapi", "v2"]:
            return web.Response(body=discovery.OPENAPI_V2, content_type=discovery.OPENAPI_V2_TYPE)
        found = discovery.document(self._verbs.registry, parts)
        if found is None:
            raise errors.path_not_found()
        if request.method != "GET":
            raise errors.method_not_allowed()
        return json_answer(found)

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
        if target.subresource == "scale":
            return json_answer(scale_of(self._verbs.get(resource, target.namespace, target.name)))
        form = self._form(request, resource, query, is_list=not target.name)
        if target.name:
            return _object(form, self._verbs.get(resource, target.namespace, target.name))
        selector = compile_selectors(query.get("labelSelector", ""), query.get("fieldSelector", ""), resource)
        view = View(target.namespace, selector)
        if parse_bool(query, "watch"):
            watched = self._form(request, resource, query)
            watch = WatchRequest.parse(watched, query)
            return await serve_watch(request, self._verbs.store, view, watch, self._settings, effects)
        return await packed(
            request, form.encode_list(list_objects(self._verbs.store, resource, view, ListRequest.parse(query)))
        )

    def _form(
        self, request: web.BaseRequest, resource: Resource, query: Mapping[str, str], *, is_list: bool = False
    ) -> Form:
        accept, included = request.headers.get("Accept", ""), query.get("includeObject", "")
        form = self._forms.of(resource, accept, included, is_list=is_list)
        if form is None:
            raise errors.not_acceptable((JSON,))
        return form

    # --- writing -------------------------------------------------------------------------------------------------

    def _write(self, request: web.BaseRequest, target: Target, query: Mapping[str, str], body: bytes) -> web.Response:
        resource, method = target.resource, request.method
        form = self._form(request, resource, query)
        if method == "DELETE":
            return self._delete(request, form, target, query, body)
        write = write_of(request, query, target.subresource)
        if method == "POST" and not target.name and (target.namespace or not resource.namespaced):
            revision = self._verbs.create(resource, target.namespace, decode_body(request, body), write)
            return warn(_object(form, revision, 201), write)
        if method == "PUT" and target.name:
            key, status = (target.namespace, target.name), target.subresource == "status"
            revision = self._verbs.update(resource, *key, decode_body(request, body), status=status, write=write)
            return warn(_object(form, revision), write)
        if method == "PATCH" and target.name:
            revision, is_new = self._patch(request, target, query, body, write)
            return warn(_object(form, revision, 201 if is_new else 200), write)
        raise errors.method_not_allowed()

    def _patch(
        self, request: web.BaseRequest, target: Target, query: Mapping[str, str], body: bytes, write: Write
    ) -> tuple[Revision, bool]:
        resource, key = target.resource, (target.namespace, target.name)
        status = target.subresource == "status"
        content_type = patch_type(request, resource)
        if content_type == APPLY_PATCH:
            if not query.get("fieldManager"):
                raise bad_request("fieldManager: Required value: is required for apply patch")
            return self._verbs.apply(resource, key, parse_yaml(body), status=status, write=write)
        return self._verbs.patch(resource, key, parse_json(body), content_type, status=status, write=write), False

    def _delete(
        self, request: web.BaseRequest, form: Form, target: Target, query: Mapping[str, str], body: bytes
    ) -> web.Response:
        verbs, resource = self._verbs, target.resource
        given = decode_body(request, body) if body else None
        options = DeleteOptions.parse(given, query, dry_run(query))
        if target.subresource or "delete" not in resource.verbs:
            raise errors.method_not_allowed()
        if not target.name:
            selector = compile_selectors(query.get("labelSelector", ""), query.get("fieldSelector", ""), resource)
            gone = verbs.delete_collection(resource, View(target.namespace, selector), options)
            items = [revision.obj for revision in gone]
            metadata = {"resourceVersion": str(verbs.store.version)}
            listed = {"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": metadata}
            return json_answer({**listed, "items": items})
        revision, dropped = verbs.delete(resource, target.namespace, target.name, options)
        if not dropped or resource.returns_deleted:
            return _object(form, revision)
        details = {"name": target.name, "group": resource.group, "kind": resource.plural}
        details = {key: value for key, value in details.items() if value} | {"uid": revision.obj["metadata"]["uid"]}
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return json_answer(status)

    def _write_subresource(
        self, request: web.BaseRequest, target: Target, query: Mapping[str, str], body: bytes
    ) -> web.Response:
        verbs, resource, method, write = (
            self._verbs,
            target.resource,
            request.method,
            write_of(request, query, target.subresource),
        )
        namespace, name = target.namespace, target.name
        if resource.plural == "bindings" and method == "POST":
            return self._bind_legacy(namespace, decode_body(request, body), write)
        if target.subresource == "binding" and method == "POST":
            return json_answer(bind(verbs, resource, namespace, name, decode_body(request, body), write), 201)
        if target.subresource == "eviction" and method == "POST":
            return json_answer(evict(verbs, resource, namespace, name, decode_body(request, body), write), 201)
        if target.subresource == "scale" and method == "PUT":
            old = verbs.get(resource, namespace, name)
            return json_answer(update_scale(verbs, resource, old, decode_body(request, body), write))
        if target.subresource == "scale" and method == "PATCH":
            old, content_type = verbs.get(resource, namespace, name), patch_type(request, resource)
            return json_answer(patch_scale(verbs, resource, old, parse_json(body), content_type, write))
        raise errors.method_not_allowed()

    def _bind_legacy(self, namespace: str, binding: Any, write: Write) -> web.Response:
        pods = self._verbs.registry.by_kind("v1", "Pod")
        metadata = binding.get("metadata") if isinstance(binding, dict) else None
        if pods is None or not isinstance(metadata, dict) or not metadata.get("name"):
            raise bad_request("Binding: metadata.name is required")
        return json_answer(bind(self._verbs, pods, namespace, metadata["name"], binding, write), 201)


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


def _object(form: Form, revision: Revision, status: int = 200) -> web.Response:
    return web.Response(body=form.encode(revision), status=status, content_type=JSON)


def _refusal(error: ApiError) -> web.Response:
    response = json_answer(error.status(), error.code)
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    return response


def _cut(request: web.BaseRequest) -> web.Response:
    """Cut the connection; aiohttp still wants an answer, which then goes nowhere."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
