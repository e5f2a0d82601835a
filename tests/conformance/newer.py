"""What newer API servers have and 1.20 has not, in front of the real 1.20: all of podium's rights meet real RBAC.

`definitions()` bring the groups that came later as custom resources. `NewerServer` is a proxy: every request reaches
the real API server with the caller's own token and is judged there. What it does itself is what a newer one would do:

* pods keep fields that 1.20 drops: they are stored in an annotation, and shown in the spec;
* writing the allocation of a ResourceClaim takes `resourceclaims/binding` as well (since 1.36);

and what happens in every cluster some time: an object changes right before it is written (once for each kind in
`CHANGING`), and a bind fails (of the pod `unlucky`, twice). It notes each right that was used.
Used by the tests of podium's rights only.
"""

from __future__ import annotations

import contextlib
import json
import ssl
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

import aiohttp
import yaml
from aiohttp import web

from tests.conformance.api import Api, Json
from tests.conformance.start import LOOPBACK, ControlPlane

#: A server without its own scheduling.k8s.io leaves the group to custom resources; priorities are numbers then.
#: Storage capacity was there already, switched off.
API_FLAGS = (
    "--runtime-config=scheduling.k8s.io/v1=false,scheduling.k8s.io/v1beta1=false,storage.k8s.io/v1alpha1=true",
    "--feature-gates=CSIStorageCapacity=true",
    "--disable-admission-plugins=Priority",
)
#: JSON of fields of a pod's spec
FIELDS = "test.podium.io/newer-fields"
#: what somebody else changes once, between podium's read and its write
CHANGING = frozenset({"pods/status", "persistentvolumeclaims", "persistentvolumes", "resourceclaims"})
UNLUCKY = "unlucky"
_VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}
_DEFINED = (
    ("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", "Namespaced"),
    ("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", "Cluster"),
    ("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", "Cluster"),
    ("scheduling.k8s.io", "v1beta1", "PodGroup", "podgroups", "Namespaced"),
    ("scheduling.k8s.io", "v1beta1", "Workload", "workloads", "Namespaced"),
    ("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups", "Namespaced"),
)


class Right(NamedTuple):
    """A verb on a resource, as RBAC knows it."""

    verb: str
    group: str
    resource: str


def definitions() -> list[Json]:
    """CustomResourceDefinitions of everything podium knows and 1.20 does not; any field, and a status of its own."""
    return [_definition(*each) for each in _DEFINED]


def _definition(group: str, version: str, kind: str, plural: str, scope: str) -> Json:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    served = {"name": version, "served": True, "storage": True, "subresources": {"status": {}}, "schema": schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # Without it the server refuses groups that end in k8s.io.
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, podium conformance test"},
        },
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [served],
        },
    }


async def define(api: Api) -> None:
    """Create the definitions and wait until the server serves them."""
    for body in definitions():
        await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
    for group, version, _, plural, _ in _DEFINED:
        answer = await api.wait_until(
            f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.{group}", "established", _established
        )
        assert answer["spec"]["versions"][0]["name"] == version


def _established(body: Json) -> bool:
    conditions = {c["type"]: c["status"] for c in body.get("status", {}).get("conditions", [])}
    return conditions.get("Established") == "True"


def with_fields(pod: Json, **fields: Any) -> Json:
    """The pod, with fields of its spec that only a newer server keeps."""
    meta = pod["metadata"]
    return {**pod, "metadata": {**meta, "annotations": {**meta.get("annotations", {}), FIELDS: json.dumps(fields)}}}


class NewerServer:
    """`async with`; owner: one test."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._admin = plane.api()
        self._runner: web.AppRunner | None = None
        self._session: aiohttp.ClientSession | None = None
        self._changed: set[str] = set()
        self._bad_luck = 2
        self.used: set[Right] = set()

    async def __aenter__(self) -> Self:
        await self._admin.__aenter__()
        connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(self._plane.ca)), limit=0)
        self._session = aiohttp.ClientSession(
            self._plane.url, connector=connector, timeout=aiohttp.ClientTimeout(sock_connect=5), trust_env=False
        )
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._plane.folder / "server.crt", self._plane.folder / "server.key")
        await web.TCPSite(self._runner, LOOPBACK, 0, ssl_context=context).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        assert self._session is not None
        await self._runner.cleanup()
        await self._session.close()
        await self._admin.__aexit__()

    def kubeconfig(self, text: str) -> str:
        """The kubeconfig, for this server instead of the real one."""
        assert self._runner is not None
        config = yaml.safe_load(text)
        config["clusters"][0]["cluster"]["server"] = f"https://{LOOPBACK}:{self._runner.addresses[0][1]}"
        return yaml.safe_dump(config)

    # --- requests ----------------------------------------------------------------------------------------------------

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        right, path = asked(request)
        body = await request.read()
        if right is None:
            return await self._forward(request, body, pods=False)
        self.used.add(right)
        if right.resource == "resourceclaims/status" and _allocates(body):
            refusal = await self._refusal(request, Right(right.verb, right.group, "resourceclaims/binding"))
            if refusal is not None:
                return refusal
        if right.verb == "patch" and right.resource in CHANGING - self._changed:
            self._changed.add(right.resource)
            await self._admin.patch(path, {"metadata": {"annotations": {"changed": "by somebody else"}}})
        if right.resource == "pods/binding" and path.endswith(f"/{UNLUCKY}") and self._bad_luck:
            self._bad_luck -= 1
            return _status(500, "InternalError", "the disk is full")
        return await self._forward(request, body, right.resource == "pods")

    async def _forward(self, request: web.Request, body: bytes, pods: bool) -> web.StreamResponse:
        """Ask the real server, as the same caller."""
        assert self._session is not None
        headers = {k: v for k, v in request.headers.items() if k in {"Authorization", "Content-Type", "Accept"}}
        async with self._session.request(request.method, request.path_qs, data=body or None, headers=headers) as said:
            if "watch" in request.query and said.status == 200:
                return await self._stream(request, said, pods)
            content = await said.read()
            if pods and said.status < 300:
                content = json.dumps(_newer(json.loads(content))).encode()
            return web.Response(status=said.status, body=content, content_type=said.content_type)

    async def _stream(self, request: web.Request, said: aiohttp.ClientResponse, pods: bool) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        # The caller may hang up at any time, and does so at its end.
        with contextlib.suppress(aiohttp.ClientConnectionResetError):
            async for line in said.content:
                await response.write(_newer_event(line) if pods else line)
        return response

    async def _refusal(self, request: web.Request, right: Right) -> web.Response | None:
        """What the caller is told who lacks a right that only a newer server asks for: the real RBAC says who does."""
        assert self._session is not None
        self.used.add(right)
        resource, _, subresource = right.resource.partition("/")
        attributes = {"verb": right.verb, "group": right.group, "resource": resource, "subresource": subresource}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        async with self._session.post(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            json=review,
            headers={"Authorization": request.headers["Authorization"]},
        ) as said:
            if (await said.json())["status"]["allowed"]:
                return None
        return _status(422, "Invalid", f'Forbidden: cannot {right.verb} resource "{right.resource}"')


def asked(request: web.Request) -> tuple[Right | None, str]:
    """The right that a request takes, None for paths that are no resource; and the object's path."""
    path = urlsplit(request.path).path
    parts = path.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1] if len(parts) > 1 else "", parts[3:])
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    if not rest:
        return None, path
    reading = "get" if len(rest) > 1 else "watch" if "watch" in request.query else "list"
    resource = rest[0] if len(rest) < 3 else f"{rest[0]}/{rest[2]}"
    whole = path.removesuffix(f"/{rest[2]}") if len(rest) > 2 else path
    return Right(_VERBS.get(request.method, reading), group, resource), whole


def _allocates(body: bytes) -> bool:
    return bool({"allocation", "reservedFor"} & json.loads(body).get("status", {}).keys())


def _newer(body: Json) -> Json:
    """A pod, or a list of pods, with the fields that 1.20 does not keep."""
    for pod in body.get("items", [body]):
        fields = pod.get("metadata", {}).get("annotations", {}).get(FIELDS)
        if fields:
            pod["spec"].update(json.loads(fields))
    return body


def _newer_event(line: bytes) -> bytes:
    event = json.loads(line)
    return json.dumps({**event, "object": _newer(event["object"])}).encode() + b"\n"


def _status(code: int, reason: str, message: str) -> web.Response:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
    return web.json_response({**status, "code": code, "reason": reason, "message": message}, status=code)
