"""The embedded API server: what the other modules of this room make together, on a port of the loopback.

    async with ApiServer() as server:
        server.create({"apiVersion": "v1", "kind": "Pod", …})
        server.url, server.write_kubeconfig(path), server.faults.add(…)

Clients reach it over HTTP; tests and the demo may also call it in process, through the same code. It belongs to the
event loop that started it, keeps everything in memory, and starts no tasks of its own but those that serve requests.
"""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec.json
import yaml
from aiohttp import web

from simulator.apiserver.admission import PRIORITY_CLASSES, SYSTEM_NAMESPACES, SYSTEM_PRIORITIES
from simulator.apiserver.deletion import DeleteOptions
from simulator.apiserver.errors import Object, bad_request
from simulator.apiserver.event_expiry import EventExpiry
from simulator.apiserver.faults import Faults
from simulator.apiserver.http import Handler
from simulator.apiserver.patch import MERGE_PATCH, STRATEGIC_PATCH
from simulator.apiserver.resources import Registry, Resource
from simulator.apiserver.selectors import compile_selectors
from simulator.apiserver.state_file import load, save
from simulator.apiserver.store import WINDOW, Store
from simulator.apiserver.subresources import bind
from simulator.apiserver.verbs import Verbs, utc_now
from simulator.apiserver.watch_cache import Revision, View
from simulator.apiserver.watching import WatchSettings

LOOPBACK = "127.0.0.1"
MAX_BODY = 3 * 2**20  # the real server's limit
_SHUTDOWN_SECONDS = 1.0

_KUBERNETES: Object = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
    "spec": {"ports": [{"name": "https", "port": 443, "targetPort": 6443}]},
}


class ApiServer:
    """An API server with nothing behind it but memory."""

    def __init__(
        self,
        port: int = 0,
        *,
        token: str = "",
        window: int = WINDOW,
        seed: int = 0,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self.registry = Registry()
        self.store = Store(window)
        self.verbs = Verbs(self.store, self.registry, clock, seed)
        self.faults = Faults(seed)
        self.watches = WatchSettings()
        self._port = port
        self._token = token
        self._handler = Handler(self.verbs, self.faults, self.watches, token)
        self._runner: web.ServerRunner | None = None
        self._expiry = EventExpiry(self.verbs, self.resource("events"))
        self._furnish()

    def _furnish(self) -> None:
        """Create what every cluster has from its first moment."""
        for name in SYSTEM_NAMESPACES:
            self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        classes = self.resource(PRIORITY_CLASSES)
        for name, value in SYSTEM_PRIORITIES.items():
            self.verbs.create(classes, "", {"metadata": {"name": name}, "value": value})
        self.create(_KUBERNETES)

    # --- life ----------------------------------------------------------------------------------------------------

    async def start(self) -> Self:
        """Listen; raises OSError when the port is taken."""
        server = web.Server(self._handler, request_factory=_request, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_SECONDS)
        await self._runner.setup()
        try:
            site = web.TCPSite(self._runner, LOOPBACK, self._port)
            await site.start()
        except OSError:
            await self.stop()
            raise
        self._port = self._runner.addresses[0][1]
        self._expiry.start()
        return self

    async def stop(self) -> None:
        """End all watches and stop listening; the objects stay, and `start` listens on the same port again."""
        self.store.close()
        self._expiry.stop()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> Self:
        """Start."""
        return await self.start()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop."""
        await self.stop()

    @property
    def url(self) -> str:
        """Where clients find the server."""
        return f"http://{LOOPBACK}:{self._port}"

    @property
    def requests(self) -> int:
        """How many requests have come in."""
        return self._handler.requests

    def kubeconfig(self) -> str:
        """Give the text of a kubeconfig for this server."""
        user = {"token": self._token} if self._token else {}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "podium", "cluster": {"server": self.url}}],
            "users": [{"name": "podium", "user": user}],
            "contexts": [{"name": "podium", "context": {"cluster": "podium", "user": "podium"}}],
            "current-context": "podium",
        }
        return yaml.safe_dump(document, sort_keys=False)

    def write_kubeconfig(self, path: Path | str) -> Path:
        """Write the kubeconfig to a file that only its owner can read."""
        path = Path(path)
        path.touch(mode=0o600)
        path.write_text(self.kubeconfig())
        return path

    def save(self, path: Path | str) -> int:
        """Write the whole state to a file (`.gz`: packed), from which `load` goes on; gives the number of objects."""
        return save(self.store, self.registry, Path(path))

    def load(self, path: Path | str) -> int:
        """Take over the state of a file in place of all objects, before `start`; raises StateFileError or OSError."""
        count = load(self.store, self.registry, Path(path))
        self._expiry.begin_again()
        return count

    # --- in process ----------------------------------------------------------------------------------------------

    def resource(self, name: str) -> Resource:
        """Find a resource by plural (`pods`), plural with group (`replicasets.apps`) or kind (`Pod`)."""
        for resource in self.registry:
            if name in (resource.qualified, resource.plural, resource.kind):
                return resource
        raise bad_request(f"no resource {name!r} is served")

    def create(self, obj: Object) -> Object:
        """Create an object, in namespace `default` where it names none."""
        resource = self._resource_of(obj)
        return _decoded(resource, self.verbs.create(resource, _namespace(resource, obj), _copy(obj)))

    def restore(self, obj: Object) -> Object:
        """Store an object as it is, status and identity included, replacing any of that name."""
        resource = self._resource_of(obj)
        return _decoded(resource, self.verbs.restore(resource, _namespace(resource, obj), _copy(obj)))

    def get(self, resource: str, name: str, namespace: str = "default") -> Object:
        """Give one object; raises an `ApiError` 404."""
        found = self.resource(resource)
        return _decoded(found, self.verbs.get(found, namespace if found.namespaced else "", name))

    def list(self, resource: str, namespace: str = "", labels: str = "", fields: str = "") -> list[Object]:
        """Give all objects of a resource, of one namespace or of all, that the selectors match."""
        found = self.resource(resource)
        view = View(namespace, compile_selectors(labels, fields, found))
        return [_decoded(found, revision) for revision in self.verbs.collection(found).seen(view)]

    def update(self, obj: Object, *, status: bool = False) -> Object:
        """Replace an object, or only its status."""
        resource = self._resource_of(obj)
        namespace, name = _namespace(resource, obj), obj["metadata"]["name"]
        return _decoded(resource, self.verbs.update(resource, namespace, name, _copy(obj), status=status))

    def patch(
        self, resource: str, name: str, patch: Object, namespace: str = "default", *, status: bool = False
    ) -> Object:
        """Change an object, or only its status, by a strategic-merge patch (merge patch for custom resources)."""
        found = self.resource(resource)
        key = (namespace if found.namespaced else "", name)
        kind = STRATEGIC_PATCH if found.strategic_merge else MERGE_PATCH
        return _decoded(found, self.verbs.patch(found, key, _copy(patch), kind, status=status))

    def delete(self, resource: str, name: str, namespace: str = "default", grace_seconds: int | None = None) -> bool:
        """Delete an object; tells whether it is gone (True) or only marked."""
        found = self.resource(resource)
        options = DeleteOptions(grace_seconds=grace_seconds)
        return self.verbs.delete(found, namespace if found.namespaced else "", name, options)[1]

    def bind(self, name: str, node: str, namespace: str = "default") -> None:
        """Bind a pod to a node, as another scheduler would."""
        bind(self.verbs, self.resource("pods"), namespace, name, {"target": {"kind": "Node", "name": node}})

    def _resource_of(self, obj: Object) -> Resource:
        resource = self.registry.by_kind(str(obj.get("apiVersion")), str(obj.get("kind")))
        if resource is None:
            raise bad_request(f'no matches for kind "{obj.get("kind")}" in version "{obj.get("apiVersion")}"')
        return resource


def _request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
    loop = task.get_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY)


def _namespace(resource: Resource, obj: Object) -> str:
    metadata = obj.get("metadata")
    given = metadata.get("namespace") if isinstance(metadata, dict) else None
    return str(given or "default") if resource.namespaced else ""


def _copy(obj: Object) -> Any:
    """Give an object of the caller's to the server without letting it share parts."""
    return msgspec.json.decode(msgspec.json.encode(obj))


def _decoded(resource: Resource, revision: Revision) -> Object:
    decoded: Object = msgspec.json.decode(revision.encoded(resource))
    return decoded
