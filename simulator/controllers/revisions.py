"""ControllerRevisions: the pod templates that a StatefulSet or DaemonSet has had, numbered, as `rollout history` reads.

The embedded server does not serve them by itself; `serve` registers the resource. Functions over `Api`; no state.
"""

from simulator.apiserver.errors import Object
from simulator.apiserver.resources import Resource
from simulator.apiserver.server import ApiServer
from simulator.controllers.api import Api, copy_of
from simulator.controllers.informer import Informer
from simulator.controllers.pods import owner_reference, template_hash

CONTROLLER_REVISIONS = "controllerrevisions.apps"
HASH_LABEL = "controller-revision-hash"


def serve(server: ApiServer) -> None:
    """Let the server have ControllerRevisions, unless it does."""
    if server.registry.by_kind("apps/v1", "ControllerRevision") is None:
        server.registry.register(Resource("apps", "v1", "ControllerRevision", "controllerrevisions"))


def history(informer: Informer, owner: Object) -> list[Object]:
    """The revisions of an owner, oldest first."""
    return sorted(informer.by_index("controller", owner["metadata"]["uid"]), key=lambda one: int(one["revision"]))


def current_revision(api: Api, owner: Object, revisions: list[Object]) -> Object:
    """The revision of the owner's present template: made, or found and moved to the end of the history."""
    template = owner["spec"]["template"]
    mark = template_hash(template)
    number = 1 + max((int(one["revision"]) for one in revisions), default=0)
    for one in revisions:
        if one["metadata"]["labels"].get(HASH_LABEL) == mark:
            if int(one["revision"]) == number - 1:
                return one
            return api.change(CONTROLLER_REVISIONS, one, lambda body: body.update(revision=number))
    metadata = owner["metadata"]
    labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH_LABEL: mark}
    body = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"{metadata['name']}-{mark}",
            "namespace": metadata["namespace"],
            "labels": labels,
            "ownerReferences": [owner_reference(owner)],
        },
        "data": {"spec": {"template": {**template, "$patch": "replace"}}},
        "revision": number,
    }
    return api.create(CONTROLLER_REVISIONS, metadata["namespace"], copy_of(body))


def template_of(revision: Object) -> Object:
    """The pod template that a revision keeps."""
    template = dict(revision["data"]["spec"]["template"])
    template.pop("$patch", None)
    return template


def truncate(api: Api, owner: Object, revisions: list[Object], used: set[str]) -> None:
    """Let unused revisions beyond the limit go, oldest first."""
    unused = [one for one in revisions if one["metadata"]["name"] not in used]
    for one in unused[: max(0, len(unused) - int(owner["spec"].get("revisionHistoryLimit", 10)))]:
        api.delete(CONTROLLER_REVISIONS, one)
