"""How the kinds that make up a cluster are printed: nodes, namespaces, services, storage, policy and the small ones.

Pure functions from an object to cells.
"""

from datetime import datetime
from typing import Any

from kube.api.volumes import CLASS_ANNOTATION, is_default_class
from simulator.apiserver.errors import Object
from simulator.apiserver.printing.columns import (
    NONE,
    UNKNOWN,
    UNSET,
    Printer,
    Row,
    access_modes,
    columns,
    created,
    joined,
    pairs,
)

_ROLE_PREFIX, _ROLE_LABEL = "node-role.kubernetes.io/", "kubernetes.io/role"


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def _node(node: Object, now: datetime) -> Row:
    status = node.get("status") or {}
    info = status.get("nodeInfo") or {}
    words = [
        kind if c["status"] == "True" else f"Not{kind}"
        for c in status.get("conditions") or ()
        if (kind := c.get("type")) == "Ready"
    ] or ["Unknown"]
    if (node.get("spec") or {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    addresses = [_address(status, kind) for kind in ("InternalIP", "ExternalIP")]
    about = [info.get(key) or UNKNOWN for key in ("osImage", "kernelVersion", "containerRuntimeVersion")]
    version = info.get("kubeletVersion", "")
    return [_name(node), ",".join(words), _roles(node), created(node, now), version, *addresses, *about]


def _address(status: Object, kind: str) -> str:
    return next((one["address"] for one in status.get("addresses") or () if one.get("type") == kind), NONE)


def _roles(node: Object) -> str:
    labels = node["metadata"].get("labels") or {}
    named = [key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)]
    return joined(sorted({role for role in [*named, labels.get(_ROLE_LABEL, "")] if role}))


def _namespace(obj: Object, now: datetime) -> Row:
    return [_name(obj), (obj.get("status") or {}).get("phase", ""), created(obj, now)]


def _service(obj: Object, now: datetime) -> Row:
    spec = obj["spec"]
    ports = joined(_port(port) for port in spec.get("ports") or ())
    inside = spec.get("clusterIP") or next(iter(spec.get("clusterIPs") or ()), NONE)
    kind = spec.get("type", "ClusterIP")
    if kind == "ExternalName":
        inside = NONE
    return [_name(obj), kind, inside, _outside(obj), ports, created(obj, now), pairs(spec.get("selector"))]


def _port(port: Object) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node_port}/{port.get('protocol', 'TCP')}"


def _outside(obj: Object) -> str:
    spec, kind = obj["spec"], obj["spec"].get("type")
    fixed = list(spec.get("externalIPs") or ())
    if kind == "ExternalName":
        return str(spec.get("externalName", NONE))
    if kind != "LoadBalancer":
        return joined(fixed)
    ingress = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    return joined([one.get("ip") or one.get("hostname", "") for one in ingress] + fixed, "<pending>")


# --- storage -------------------------------------------------------------------------------------------------------


def _volume(obj: Object, now: datetime) -> Row:
    spec, status = obj["spec"], obj.get("status") or {}
    claim = spec.get("claimRef")
    phase = "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase", "")
    return [
        _name(obj),
        (spec.get("capacity") or {}).get("storage", "0"),
        access_modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        phase,
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        _class(obj) or "",
        spec.get("volumeAttributesClassName") or UNSET,
        status.get("reason", ""),
        created(obj, now),
        spec.get("volumeMode", UNSET),
    ]


def _claim(obj: Object, now: datetime) -> Row:
    spec, status = obj["spec"], obj.get("status") or {}
    phase = "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase", "")
    bound = bool(spec.get("volumeName"))
    return [
        _name(obj),
        phase,
        spec.get("volumeName", ""),
        (status.get("capacity") or {}).get("storage", "0") if bound else "",
        access_modes(status.get("accessModes")) if bound else "",
        _class(obj) or "",
        spec.get("volumeAttributesClassName") or UNSET,
        created(obj, now),
        spec.get("volumeMode", UNSET),
    ]


def _class(obj: Object) -> Any:
    return (obj["metadata"].get("annotations") or {}).get(CLASS_ANNOTATION) or obj["spec"].get("storageClassName")


def _storage_class(obj: Object, now: datetime) -> Row:
    annotations = obj["metadata"].get("annotations") or {}
    mark = " (default)" if is_default_class(annotations) else ""
    policy, mode = obj.get("reclaimPolicy", "Delete"), obj.get("volumeBindingMode", "Immediate")
    grows = bool(obj.get("allowVolumeExpansion"))
    return [_name(obj) + mark, obj.get("provisioner", ""), policy, mode, grows, created(obj, now)]


def _csi_node(obj: Object, now: datetime) -> Row:
    return [_name(obj), len(obj["spec"].get("drivers") or ()), created(obj, now)]


def _csi_driver(obj: Object, now: datetime) -> Row:
    spec = obj["spec"]
    tokens = joined((one.get("audience", "") for one in spec.get("tokenRequests") or ()), UNSET)
    return [
        _name(obj),
        spec.get("attachRequired", True),
        spec.get("podInfoOnMount", False),
        spec.get("storageCapacity", False),
        tokens,
        spec.get("requiresRepublish", False),
        joined(spec.get("volumeLifecycleModes") or ()),
        created(obj, now),
    ]


def _csi_capacity(obj: Object, now: datetime) -> Row:
    return [_name(obj), obj.get("storageClassName", ""), obj.get("capacity", UNSET)]


def _attachment(obj: Object, now: datetime) -> Row:
    spec, status = obj["spec"], obj.get("status") or {}
    volume = (spec.get("source") or {}).get("persistentVolumeName") or ""
    attached = status.get("attached", False)
    return [_name(obj), spec.get("attacher", ""), volume, spec.get("nodeName", ""), attached, created(obj, now)]


# --- policy and the small ones -------------------------------------------------------------------------------------


def _budget(obj: Object, now: datetime) -> Row:
    spec = obj["spec"]
    bounds = [str(spec[key]) if spec.get(key) is not None else "N/A" for key in ("minAvailable", "maxUnavailable")]
    return [_name(obj), *bounds, (obj.get("status") or {}).get("disruptionsAllowed", 0), created(obj, now)]


def _priority_class(obj: Object, now: datetime) -> Row:
    policy = obj.get("preemptionPolicy", "PreemptLowerPriority")
    return [_name(obj), obj.get("value", 0), bool(obj.get("globalDefault")), created(obj, now), policy]


def _lease(obj: Object, now: datetime) -> Row:
    return [_name(obj), (obj.get("spec") or {}).get("holderIdentity") or "", created(obj, now)]


def _config_map(obj: Object, now: datetime) -> Row:
    return [_name(obj), len(obj.get("data") or ()) + len(obj.get("binaryData") or ()), created(obj, now)]


def _secret(obj: Object, now: datetime) -> Row:
    return [_name(obj), obj.get("type", ""), len(obj.get("data") or ()), created(obj, now)]


def _service_account(obj: Object, now: datetime) -> Row:
    return [_name(obj), len(obj.get("secrets") or ()), created(obj, now)]


def _other(obj: Object, now: datetime) -> Row:
    return [_name(obj), created(obj, now)]


NODE = Printer(
    columns("Name|Status|Roles|Age|Version", "Internal-IP|External-IP|OS-Image|Kernel-Version|Container-Runtime"), _node
)
NAMESPACE = Printer(columns("Name|Status|Age"), _namespace)
SERVICE = Printer(columns("Name|Type|Cluster-IP|External-IP|Port(s)|Age", "Selector"), _service)
VOLUME = Printer(
    columns(
        "Name|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|Reason|Age",
        "VolumeMode",
    ),
    _volume,
)
CLAIM = Printer(
    columns("Name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age", "VolumeMode"), _claim
)
STORAGE_CLASS = Printer(
    columns("Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age"), _storage_class
)
CSI_NODE = Printer(columns("Name|Drivers|Age", "", "Drivers"), _csi_node)
CSI_DRIVER = Printer(
    columns("Name|AttachRequired|PodInfoOnMount|StorageCapacity|TokenRequests|RequiresRepublish|Modes|Age"), _csi_driver
)
CSI_CAPACITY = Printer(columns("Name|StorageClassName|Capacity"), _csi_capacity)
ATTACHMENT = Printer(columns("Name|Attacher|PV|Node|Attached|Age"), _attachment)
BUDGET = Printer(
    columns("Name|Min Available|Max Unavailable|Allowed Disruptions|Age", "", "Allowed Disruptions"), _budget
)
PRIORITY_CLASS = Printer(columns("Name|Value|Global-Default|Age|PreemptionPolicy", "", "Value"), _priority_class)
LEASE = Printer(columns("Name|Holder|Age"), _lease)
CONFIG_MAP = Printer(columns("Name|Data|Age"), _config_map)
SECRET = Printer(columns("Name|Type|Data|Age", "", "Data"), _secret)
SERVICE_ACCOUNT = Printer(columns("Name|Secrets|Age", "", "Secrets"), _service_account)
OTHER = Printer(columns("Name|Age"), _other)
