"""What clients ask before anything else: which groups, versions and resources are there, and which version this is.

Pure functions from a `Registry` to documents. `kubectl` builds its short names, categories and verbs from them.
"""

from simulator.apiserver.errors import Object
from simulator.apiserver.patch import PATCH_TYPES
from simulator.apiserver.resources import Registry, Resource

VERSION: Object = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.0",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-04-22T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
# Old clients want an OpenAPI document in protobuf before they apply anything: this one says `swagger: "2.0"`, and that
# it knows no types, whereupon they leave validation to the server.
OPENAPI_V2 = b"\x0a\x032.0\x12\x11\x0a\x0aKubernetes\x12\x03v1.\x42\x00"
OPENAPI_V2_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# Kind, apiVersion and verbs of the subresources; those absent here serve the parent's own kind.
_SUBRESOURCES: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "binding": ("", "v1", "Binding", ("create",)),
    "eviction": ("policy", "v1", "Eviction", ("create",)),
    "scale": ("autoscaling", "v1", "Scale", ("get", "patch", "update")),
}


def document(registry: Registry, parts: list[str]) -> Object | None:
    """Give the document at a path, already split; None where there is none."""
    match parts:
        case ["version"]:
            return VERSION
        case ["api"]:
            return api_versions()
        case ["apis"]:
            return api_groups(registry)
        case ["api", version]:
            return api_resources(registry, "", version)
        case ["apis", group]:
            return api_group(registry, group)
        case ["apis", group, version]:
            return api_resources(registry, group, version)
        case ["openapi", "v3"]:
            return openapi_index(registry)
        case ["openapi", "v3", *root]:
            return openapi(registry, "/" + "/".join(root))
        case _:
            return None


def api_versions() -> Object:
    """Answer `/api`."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}],
    }


def api_groups(registry: Registry) -> Object:
    """Answer `/apis`."""
    names = dict.fromkeys(resource.group for resource in registry if resource.group)
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(registry, name) for name in names]}


def api_group(registry: Registry, group: str) -> Object | None:
    """Answer `/apis/GROUP`."""
    if not any(resource.group == group for resource in registry):
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(registry, group)}


def api_resources(registry: Registry, group: str, version: str) -> Object | None:
    """Answer `/api/v1` and `/apis/GROUP/VERSION`."""
    rows = [resource for resource in registry if (resource.group, resource.version) == (group, version)]
    if not rows:
        return None
    group_version = rows[0].api_version
    listed = [entry for row in rows for entry in (_resource(row), *_subresources(row))]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": listed}


def openapi_index(registry: Registry) -> Object:
    """Answer `/openapi/v3`."""
    roots = dict.fromkeys(_root(resource) for resource in registry)
    return {"paths": {root[1:]: {"serverRelativeURL": f"/openapi/v3{root}"} for root in roots}}


def openapi(registry: Registry, root: str) -> Object | None:
    """Answer `/openapi/v3/api/v1` and `/openapi/v3/apis/GROUP/VERSION`: operations only, no schemas.

    From the parameters of the patch operations kubectl learns that the server validates, and leaves it to the server.
    """
    rows = [resource for resource in registry if _root(resource) == root and "patch" in resource.verbs]
    if not rows:
        return None
    paths = {f"{root}/{_template(resource)}": {"patch": _patch_operation(resource)} for resource in rows}
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": VERSION["gitVersion"]},
        "paths": paths,
        "components": {"schemas": {}},
    }


def _root(resource: Resource) -> str:
    return f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.api_version}"


def _template(resource: Resource) -> str:
    return (
        f"namespaces/{{namespace}}/{resource.plural}/{{name}}" if resource.namespaced else f"{resource.plural}/{{name}}"
    )


def _patch_operation(resource: Resource) -> Object:
    query = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in ("dryRun", "fieldValidation")]
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    content: Object = {media_type: {} for media_type in PATCH_TYPES}
    return {
        "parameters": query,
        "requestBody": {"content": content},
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": kind,
    }


def _group(registry: Registry, group: str) -> Object:
    versions = dict.fromkeys(resource.version for resource in registry if resource.group == group)
    listed = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}


def _resource(resource: Resource) -> Object:
    entry: Object = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    return entry


def _subresources(resource: Resource) -> list[Object]:
    return [_subresource(resource, name) for name in resource.subresources]


def _subresource(resource: Resource, name: str) -> Object:
    entry: Object = {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": ["update"] if name == "finalize" else ["get", "patch", "update"],
    }
    if name in _SUBRESOURCES:
        group, version, kind, verbs = _SUBRESOURCES[name]
        entry |= {"group": group, "version": version, "kind": kind, "verbs": list(verbs)}
    return entry
