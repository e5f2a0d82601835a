"""What the API server fills in where an object says nothing: the defaults of pods, pod templates and workloads.

`apply_defaults` changes the object in place: the caller owns it and nobody else has seen it yet. Defaulting is
idempotent and runs on create and update alike. What depends on other objects (priority, namespaces) is
admission, not here.
"""

from collections.abc import Callable
from typing import Any

from simulator.apiserver.device_rules import claim_defaults, template_defaults
from simulator.apiserver.errors import Object
from simulator.apiserver.resources import Resource
from simulator.apiserver.shape import spell_quantities

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_DEFAULTS = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_FILE_MODE = 0o644
ANY_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


def apply_defaults(resource: Resource, obj: Object) -> None:
    """Fill in the defaults of an object of this resource."""
    fill = _DEFAULTERS.get((resource.group, resource.kind))
    if fill is not None:
        fill(obj)
    spell_quantities(resource, obj)


def _set(target: Object, **values: Any) -> None:
    """Set what is absent or null."""
    for key, value in values.items():
        if target.get(key) is None:
            target[key] = value


def _child(target: Object, key: str) -> Object:
    """Give an object's field that holds an object, made when absent."""
    child = target.get(key)
    if not isinstance(child, dict):
        child = target[key] = {}
    return child


# --- pods ----------------------------------------------------------------------------------------------------------


def _pod(pod: Object) -> None:
    spec = _child(pod, "spec")
    default_pod_spec(spec)
    for container in _containers(spec):
        _requests_from_limits(container)
    _set(spec, enableServiceLinks=True)
    status = _child(pod, "status")
    _set(status, phase="Pending")
    if "qosClass" not in status:
        status["qosClass"] = qos_class(spec)


def default_pod_spec(spec: Object) -> None:
    """Fill in the spec of a pod or of a pod template."""
    _set(spec, restartPolicy="Always", dnsPolicy="ClusterFirst", schedulerName="default-scheduler", securityContext={})
    _set(spec, terminationGracePeriodSeconds=30)
    if spec.get("serviceAccountName"):
        _set(spec, serviceAccount=spec["serviceAccountName"])
    for container in _containers(spec):
        _container(container, host_network=spec.get("hostNetwork") is True)
    for volume in spec.get("volumes") or ():
        if isinstance(volume, dict):
            _volume(volume)


def _containers(spec: Object) -> list[Object]:
    """Give all containers that have the shape of one; validation speaks about the others."""
    listed = [container for key in ANY_CONTAINERS for container in spec.get(key) or ()]
    return [container for container in listed if isinstance(container, dict)]


def _container(container: Object, host_network: bool) -> None:
    image = str(container.get("image") or "")
    tag = image.rpartition("/")[2].partition(":")[2]
    latest = "@" not in image and tag in ("", "latest")
    _set(container, imagePullPolicy="Always" if latest else "IfNotPresent", resources={})
    _set(container, terminationMessagePath="/dev/termination-log", terminationMessagePolicy="File")
    for port in container.get("ports") or ():
        if isinstance(port, dict):
            _set(port, protocol="TCP")
            if host_network and "containerPort" in port:
                _set(port, hostPort=port["containerPort"])
    for key in _PROBES:
        if isinstance(container.get(key), dict):
            _set(container[key], **_PROBE_DEFAULTS)


def _requests_from_limits(container: Object) -> None:
    resources = container["resources"]
    limits = resources.get("limits") if isinstance(resources, dict) else None
    if isinstance(limits, dict) and limits:
        _set(_child(resources, "requests"), **limits)


def _volume(volume: Object) -> None:
    if len(volume) == 1:
        volume["emptyDir"] = {}
    for key in ("secret", "configMap", "projected", "downwardAPI"):
        if isinstance(volume.get(key), dict):
            _set(volume[key], defaultMode=_FILE_MODE)
    if isinstance(volume.get("hostPath"), dict):
        _set(volume["hostPath"], type="")


def qos_class(spec: Object) -> str:
    """Compute a pod's quality of service class from its containers' cpu and memory."""
    requested: set[bool] = set()
    guaranteed = True
    for container in (c for key in ("initContainers", "containers") for c in spec.get(key) or ()):
        resources = container.get("resources") or {} if isinstance(container, dict) else {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in ("cpu", "memory"):
            limit, request = limits.get(name), requests.get(name, limits.get(name))
            requested.add(_is_set(limit) or _is_set(request))
            guaranteed = guaranteed and _is_set(limit) and str(limit) == str(request)
    if True not in requested:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _is_set(quantity: object) -> bool:
    return quantity is not None and str(quantity) not in ("0", "")


# --- other kinds ---------------------------------------------------------------------------------------------------


def _node(node: Object) -> None:
    _child(node, "spec")
    status = _child(node, "status")
    if status.get("capacity"):
        _set(_child(status, "allocatable"), **status["capacity"])


def _namespace(namespace: Object) -> None:
    _set(_child(namespace, "spec"), finalizers=["kubernetes"])
    _set(_child(namespace, "status"), phase="Active")
    metadata = namespace["metadata"]
    if metadata.get("name"):
        _child(metadata, "labels")["kubernetes.io/metadata.name"] = metadata["name"]


def _template(spec: Object) -> Object:
    template = _child(spec, "template")
    default_pod_spec(_child(template, "spec"))
    return template


def _replicated(obj: Object) -> None:
    spec = _child(obj, "spec")
    _template(spec)
    _set(spec, replicas=1)
    _set(_child(obj, "status"), replicas=0)


def _replication_controller(obj: Object) -> None:
    """One that says no selector selects by the labels of its template."""
    _replicated(obj)
    labels = (obj["spec"]["template"].get("metadata") or {}).get("labels")
    if labels:
        _set(obj["spec"], selector=dict(labels))
        _set(obj["metadata"], labels=dict(labels))


def _deployment(obj: Object) -> None:
    spec = _child(obj, "spec")
    _template(spec)
    _set(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = _child(spec, "strategy")
    _set(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _set(_child(strategy, "rollingUpdate"), maxUnavailable="25%", maxSurge="25%")
    _child(obj, "status")


def _stateful_set(obj: Object) -> None:
    spec = _child(obj, "spec")
    _template(spec)
    _set(spec, replicas=1, revisionHistoryLimit=10, podManagementPolicy="OrderedReady")
    _set(_child(spec, "persistentVolumeClaimRetentionPolicy"), whenDeleted="Retain", whenScaled="Retain")
    strategy = _child(spec, "updateStrategy")
    _set(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _set(_child(strategy, "rollingUpdate"), partition=0)
    _set(_child(obj, "status"), replicas=0)


def _daemon_set(obj: Object) -> None:
    spec = _child(obj, "spec")
    _template(spec)
    _set(spec, revisionHistoryLimit=10)
    strategy = _child(spec, "updateStrategy")
    _set(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _set(_child(strategy, "rollingUpdate"), maxUnavailable=1, maxSurge=0)
    _set(_child(obj, "status"), currentNumberScheduled=0, desiredNumberScheduled=0, numberMisscheduled=0, numberReady=0)


def _job_template(spec: Object) -> None:
    restart = _child(_child(spec, "template"), "spec").get("restartPolicy")
    template = _template(spec)
    if restart is None:
        # A Job has no default here: validation demands OnFailure or Never.
        del template["spec"]["restartPolicy"]


def _job(obj: Object) -> None:
    spec = _child(obj, "spec")
    _job_template(spec)
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    # With a limit for each index the one for all of them is out of the way.
    limit = 2**31 - 1 if spec.get("backoffLimitPerIndex") is not None else 6
    _set(spec, parallelism=1, backoffLimit=limit, completionMode="NonIndexed", suspend=False)
    _child(obj, "status")


def _cron_job(obj: Object) -> None:
    spec = _child(obj, "spec")
    _set(spec, concurrencyPolicy="Allow", suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
    # What is a Job's own is filled in when the Job is made.
    _job_template(_child(_child(spec, "jobTemplate"), "spec"))
    _child(obj, "status")


def _service(obj: Object) -> None:
    spec = _child(obj, "spec")
    _set(spec, type="ClusterIP", sessionAffinity="None")
    for port in spec.get("ports") or ():
        if isinstance(port, dict):
            _set(port, protocol="TCP")
            if "port" in port:
                _set(port, targetPort=port["port"])


def _claim(obj: Object) -> None:
    _set(_child(obj, "spec"), volumeMode="Filesystem")
    _set(_child(obj, "status"), phase="Pending")


def _volume_object(obj: Object) -> None:
    _set(_child(obj, "spec"), volumeMode="Filesystem", persistentVolumeReclaimPolicy="Retain")
    _set(_child(obj, "status"), phase="Pending")


def _priority_class(obj: Object) -> None:
    _set(obj, preemptionPolicy="PreemptLowerPriority", value=0)


def _storage_class(obj: Object) -> None:
    _set(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _csi_driver(obj: Object) -> None:
    spec = _child(obj, "spec")
    _set(spec, attachRequired=True, podInfoOnMount=False, storageCapacity=False, requiresRepublish=False)
    _set(spec, fsGroupPolicy="ReadWriteOnceWithFSType", volumeLifecycleModes=["Persistent"], seLinuxMount=False)


def _secret(obj: Object) -> None:
    _set(obj, type="Opaque")


_DEFAULTERS: dict[tuple[str, str], Callable[[Object], None]] = {
    ("", "Pod"): _pod,
    ("", "Node"): _node,
    ("", "Namespace"): _namespace,
    ("", "Service"): _service,
    ("", "ReplicationController"): _replication_controller,
    ("", "PersistentVolume"): _volume_object,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "Secret"): _secret,
    ("apps", "ReplicaSet"): _replicated,
    ("apps", "Deployment"): _deployment,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
    ("resource.k8s.io", "ResourceClaim"): claim_defaults,
    ("resource.k8s.io", "ResourceClaimTemplate"): template_defaults,
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
    ("storage.k8s.io", "StorageClass"): _storage_class,
    ("storage.k8s.io", "CSIDriver"): _csi_driver,
}
