"""Which printer prints which kind; what has none of its own is shown with name and age, as custom resources are."""

from simulator.apiserver.printing import cluster, devices, pods, workloads
from simulator.apiserver.printing.columns import Printer
from simulator.apiserver.resources import Resource

_PRINTERS: dict[tuple[str, str], Printer] = {
    ("", "Pod"): pods.POD,
    ("", "Event"): pods.EVENT,
    ("events.k8s.io", "Event"): pods.EVENT,
    ("", "Node"): cluster.NODE,
    ("", "Namespace"): cluster.NAMESPACE,
    ("", "Service"): cluster.SERVICE,
    ("", "ReplicationController"): workloads.REPLICATION_CONTROLLER,
    ("", "PersistentVolume"): cluster.VOLUME,
    ("", "PersistentVolumeClaim"): cluster.CLAIM,
    ("", "ConfigMap"): cluster.CONFIG_MAP,
    ("", "Secret"): cluster.SECRET,
    ("", "ServiceAccount"): cluster.SERVICE_ACCOUNT,
    ("apps", "Deployment"): workloads.DEPLOYMENT,
    ("apps", "ReplicaSet"): workloads.REPLICA_SET,
    ("apps", "StatefulSet"): workloads.STATEFUL_SET,
    ("apps", "DaemonSet"): workloads.DAEMON_SET,
    ("apps", "ControllerRevision"): workloads.CONTROLLER_REVISION,
    ("batch", "CronJob"): workloads.CRON_JOB,
    ("batch", "Job"): workloads.JOB,
    ("policy", "PodDisruptionBudget"): cluster.BUDGET,
    ("resource.k8s.io", "ResourceClaim"): devices.CLAIM,
    ("resource.k8s.io", "ResourceSlice"): devices.SLICE,
    ("scheduling.k8s.io", "PriorityClass"): cluster.PRIORITY_CLASS,
    ("storage.k8s.io", "StorageClass"): cluster.STORAGE_CLASS,
    ("storage.k8s.io", "CSINode"): cluster.CSI_NODE,
    ("storage.k8s.io", "CSIDriver"): cluster.CSI_DRIVER,
    ("storage.k8s.io", "CSIStorageCapacity"): cluster.CSI_CAPACITY,
    ("storage.k8s.io", "VolumeAttachment"): cluster.ATTACHMENT,
    ("coordination.k8s.io", "Lease"): cluster.LEASE,
}


def printer_of(resource: Resource) -> Printer:
    """Find the printer of a resource."""
    return _PRINTERS.get((resource.group, resource.kind), cluster.OTHER)
