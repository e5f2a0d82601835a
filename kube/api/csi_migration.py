"""CSI migration: what the volumes of the former in-tree plugins are called by the CSI drivers that took them over.

Anybody may call it. Covers the plugins whose volumes scheduling still sees; a source that cannot be translated raises
MigrationError with one line. It never looks at objects that are CSI volumes already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from kube.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PersistentVolume, Volume
from kube.api.storage import CSINode
from kube.api.volumes import required_affinity

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
#: joins several zones in one label value
ZONES_DELIMITER = "__"

#: on a CSINode: the in-tree plugins whose volumes a CSI driver serves on this node, by name, with commas
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
_GCE_UNKNOWN = "UNSPECIFIED"
_Labels = Mapping[str, str]


class MigrationError(ValueError):
    """An in-tree volume that no CSI driver could serve; the message is one line."""


@dataclass(frozen=True, slots=True)
class InTreePlugin:
    """An in-tree plugin: the field that holds its volumes, the driver that serves them now."""

    name: str
    field: str
    driver: str
    #: (source, labels of the PersistentVolume) -> the driver's volume handle
    handle: Callable[[Any, _Labels], str]
    #: the driver's own topology key, where zones are translated to one
    topology_key: str = ""
    #: whether its volumes are the CSI driver's since the plugin's code is gone
    migrated: bool = True


def _ebs_handle(source: Any, labels: _Labels) -> str:
    """vol-1, aws:///vol-1 and aws://zone/vol-1 are the same volume."""
    if not source.volume_id.startswith("aws://"):
        return str(source.volume_id)
    handle = source.volume_id.removeprefix("aws://").partition("/")[2].strip("/")
    if not handle.startswith("vol-") or "/" in handle:
        raise MigrationError(f"{source.volume_id} is not an EBS volume: expected aws://ZONE/vol-ID")
    return str(handle)


def _gce_handle(source: Any, labels: _Labels) -> str:
    zones = (labels.get(BETA_ZONE) or labels.get(ZONE) or _GCE_UNKNOWN).split(ZONES_DELIMITER)
    if len(zones) == 1:
        return f"projects/{_GCE_UNKNOWN}/zones/{zones[0]}/disks/{source.pd_name}"
    regions = {zone.rpartition("-")[0] for zone in zones if zone.count("-") == 2}
    if len(regions) != 1 or any(zone.count("-") != 2 for zone in zones):
        raise MigrationError(f"zones {', '.join(zones)} of disk {source.pd_name} are not zones of one region")
    return f"projects/{_GCE_UNKNOWN}/regions/{regions.pop()}/disks/{source.pd_name}"


def _volume_id(source: Any, labels: _Labels) -> str:
    return str(source.volume_id)


PLUGINS = (
    InTreePlugin(
        "kubernetes.io/aws-ebs",
        "aws_elastic_block_store",
        "ebs.csi.aws.com",
        _ebs_handle,
        "topology.ebs.csi.aws.com/zone",
    ),
    InTreePlugin(
        "kubernetes.io/gce-pd", "gce_persistent_disk", "pd.csi.storage.gke.io", _gce_handle, "topology.gke.io/zone"
    ),
    InTreePlugin(
        "kubernetes.io/azure-disk", "azure_disk", "disk.csi.azure.com", lambda source, labels: str(source.disk_uri)
    ),
    InTreePlugin(
        "kubernetes.io/cinder",
        "cinder",
        "cinder.csi.openstack.org",
        _volume_id,
        "topology.cinder.csi.openstack.org/zone",
    ),
    InTreePlugin("kubernetes.io/portworx-volume", "portworx_volume", "pxd.portworx.com", _volume_id),
    InTreePlugin(
        "kubernetes.io/azure-file",
        "azure_file",
        "file.csi.azure.com",
        lambda source, labels: str(source.share_name),
        migrated=False,
    ),
    InTreePlugin(
        "kubernetes.io/vsphere-volume",
        "vsphere_volume",
        "csi.vsphere.vmware.com",
        lambda source, labels: str(source.volume_path),
        migrated=False,
    ),
)
BY_NAME = {plugin.name: plugin for plugin in PLUGINS}


def plugin_of(spec: Any) -> InTreePlugin | None:
    """The in-tree plugin of a pod's volume or of a PersistentVolume's spec; None for anything else."""
    return next((plugin for plugin in PLUGINS if getattr(spec, plugin.field) is not None), None)


def is_migratable(volume: Volume) -> bool:
    """Whether a pod's inline volume is one that a CSI driver has taken over."""
    return plugin_of(volume) is not None


def csi_volume(spec: Any, plugin: InTreePlugin, labels: _Labels) -> tuple[str, str]:
    """(driver, handle) of an in-tree volume. Raises MigrationError."""
    return plugin.driver, plugin.handle(getattr(spec, plugin.field), labels)


def is_migrated_on(plugin: InTreePlugin, csi_node: CSINode | None) -> bool:
    """Whether the node says that a CSI driver serves the plugin's volumes there."""
    if csi_node is None or not plugin.migrated:
        return False
    return plugin.name in csi_node.metadata.annotations.get(MIGRATED_PLUGINS, "").split(",")


def csi_affinity(volume: PersistentVolume, plugin: InTreePlugin) -> NodeSelector | None:
    """The nodes an in-tree volume can be reached from, in the topology of the driver that took it over."""
    required = required_affinity(volume)
    if not plugin.topology_key:
        return required
    zone, region = _zone_keys(volume, required)
    if any(_names_key(term, zone) for term in _terms(required)):
        required = _renamed(required, zone, plugin.topology_key)
    elif zone in volume.metadata.labels:
        zones = sorted({z.strip() for z in volume.metadata.labels[zone].split(ZONES_DELIMITER)} - {""})
        required = _narrowed(required, plugin.topology_key, tuple(zones)) if zones else required
    return _renamed(required, region, REGION) if region == BETA_REGION else required


def _zone_keys(volume: PersistentVolume, required: NodeSelector | None) -> tuple[str, str]:
    """The generation of zone and region labels the volume uses; its affinity is asked before its labels."""
    for zone, region in ((ZONE, REGION), (BETA_ZONE, BETA_REGION)):
        if any(_names_key(term, zone) for term in _terms(required)):
            return zone, region
    if ZONE not in volume.metadata.labels and BETA_ZONE in volume.metadata.labels:
        return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _terms(required: NodeSelector | None) -> tuple[NodeSelectorTerm, ...]:
    return required.node_selector_terms if required is not None else ()


def _names_key(term: NodeSelectorTerm, key: str) -> bool:
    return any(expression.key == key for expression in term.match_expressions)


def _renamed(required: NodeSelector | None, old: str, new: str) -> NodeSelector | None:
    if required is None:
        return None
    return NodeSelector(
        node_selector_terms=tuple(
            msgspec.structs.replace(
                term,
                match_expressions=tuple(
                    msgspec.structs.replace(e, key=new) if e.key == old else e for e in term.match_expressions
                ),
            )
            for term in required.node_selector_terms
        )
    )


def _narrowed(required: NodeSelector | None, key: str, zones: tuple[str, ...]) -> NodeSelector:
    expression = NodeSelectorRequirement(key=key, operator="In", values=zones)
    return NodeSelector(
        node_selector_terms=tuple(
            msgspec.structs.replace(term, match_expressions=(*term.match_expressions, expression))
            for term in _terms(required) or (NodeSelectorTerm(),)
        )
    )
