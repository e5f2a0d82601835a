"""In-tree volumes under the names and topologies of the CSI drivers that took them over."""

import pytest

from kube.api.core import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    CinderVolumeSource,
    GCEPersistentDiskVolumeSource,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeSpec,
    Volume,
    VolumeNodeAffinity,
    VsphereVirtualDiskVolumeSource,
)
from kube.api.csi_migration import (
    BETA_REGION,
    BETA_ZONE,
    MIGRATED_PLUGINS,
    REGION,
    ZONE,
    MigrationError,
    csi_affinity,
    csi_volume,
    is_migrated_on,
    plugin_of,
)
from kube.api.meta import ObjectMeta
from kube.api.storage import CSINode

EBS = "topology.ebs.csi.aws.com/zone"
GCE = GCEPersistentDiskVolumeSource(pd_name="d")


def ebs(volume_id: str) -> Volume:
    return Volume(aws_elastic_block_store=AWSElasticBlockStoreVolumeSource(volume_id=volume_id))


def terms(*each: dict[str, tuple[str, ...]]) -> NodeSelector:
    return NodeSelector(
        node_selector_terms=tuple(
            NodeSelectorTerm(
                match_expressions=tuple(
                    NodeSelectorRequirement(key=k, operator="In", values=v) for k, v in term.items()
                )
            )
            for term in each
        )
    )


@pytest.mark.parametrize(
    ("spec", "labels", "volume"),
    [
        pytest.param(ebs("vol-1"), {}, ("ebs.csi.aws.com", "vol-1"), id="an EBS volume by its own name"),
        pytest.param(ebs("aws:///vol-1"), {}, ("ebs.csi.aws.com", "vol-1"), id="by URL"),
        pytest.param(ebs("aws://us-1a/vol-1"), {}, ("ebs.csi.aws.com", "vol-1"), id="by URL with a zone"),
        pytest.param(
            Volume(gce_persistent_disk=GCE),
            {},
            ("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
            id="a GCE disk",
        ),
        pytest.param(
            Volume(gce_persistent_disk=GCE),
            {ZONE: "us-east1-b"},
            ("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/us-east1-b/disks/d"),
            id="a GCE disk of a zone",
        ),
        pytest.param(
            Volume(gce_persistent_disk=GCE),
            {BETA_ZONE: "us-east1-b__us-east1-c"},
            ("pd.csi.storage.gke.io", "projects/UNSPECIFIED/regions/us-east1/disks/d"),
            id="a GCE disk of a region",
        ),
        pytest.param(
            Volume(azure_disk=AzureDiskVolumeSource(disk_name="d", disk_uri="/sub/d")),
            {},
            ("disk.csi.azure.com", "/sub/d"),
            id="an Azure disk by its URI",
        ),
        pytest.param(
            Volume(cinder=CinderVolumeSource(volume_id="7")),
            {},
            ("cinder.csi.openstack.org", "7"),
            id="a Cinder volume",
        ),
    ],
)
def test_the_drivers_name_of_a_volume(spec, labels, volume):
    plugin = plugin_of(spec)
    assert plugin is not None
    assert csi_volume(spec, plugin, labels) == volume


@pytest.mark.parametrize(
    ("spec", "labels"),
    [
        pytest.param(ebs("aws://zone/disk-1"), {}, id="an EBS URL without a volume"),
        pytest.param(Volume(gce_persistent_disk=GCE), {ZONE: "us-east1-b__us-west1-c"}, id="zones of two regions"),
        pytest.param(Volume(gce_persistent_disk=GCE), {ZONE: "a__b"}, id="zones of no region"),
    ],
)
def test_a_volume_that_no_driver_could_know(spec, labels):
    plugin = plugin_of(spec)
    assert plugin is not None
    with pytest.raises(MigrationError):
        csi_volume(spec, plugin, labels)


@pytest.mark.parametrize(
    ("required", "labels", "translated"),
    [
        pytest.param(None, {}, None, id="no affinity, no labels"),
        pytest.param(terms({ZONE: ("a",)}), {}, terms({EBS: ("a",)}), id="the zone becomes the driver's"),
        pytest.param(
            terms({BETA_ZONE: ("a",), BETA_REGION: ("r",)}), {}, terms({EBS: ("a",), REGION: ("r",)}), id="old labels"
        ),
        pytest.param(None, {ZONE: "b__a"}, terms({EBS: ("a", "b")}), id="a label stands in for the affinity"),
        pytest.param(
            terms({"disk": ("ssd",)}), {ZONE: "a"}, terms({"disk": ("ssd",), EBS: ("a",)}), id="and narrows each term"
        ),
        pytest.param(terms({ZONE: ("a",)}), {ZONE: "b"}, terms({EBS: ("a",)}), id="the affinity wins over the label"),
    ],
)
def test_the_nodes_of_a_translated_volume(required, labels, translated):
    volume = PersistentVolume(
        metadata=ObjectMeta(name="v", labels=labels),
        spec=PersistentVolumeSpec(
            node_affinity=VolumeNodeAffinity(required=required) if required else None,
            aws_elastic_block_store=AWSElasticBlockStoreVolumeSource(volume_id="vol-1"),
        ),
    )
    plugin = plugin_of(volume.spec)
    assert plugin is not None
    assert csi_affinity(volume, plugin) == translated


@pytest.mark.parametrize(
    ("spec", "annotation", "migrated"),
    [
        pytest.param(ebs("vol-1"), "kubernetes.io/gce-pd,kubernetes.io/aws-ebs", True, id="listed"),
        pytest.param(ebs("vol-1"), "kubernetes.io/gce-pd", False, id="not listed"),
        pytest.param(
            Volume(vsphere_volume=VsphereVirtualDiskVolumeSource(volume_path="p")),
            "kubernetes.io/vsphere-volume",
            False,
            id="a plugin that scheduling does not translate",
        ),
    ],
)
def test_a_node_says_which_plugins_it_has_handed_over(spec, annotation, migrated):
    plugin = plugin_of(spec)
    assert plugin is not None
    node = CSINode(metadata=ObjectMeta(name="n", annotations={MIGRATED_PLUGINS: annotation}))
    assert is_migrated_on(plugin, node) is migrated
    assert not is_migrated_on(plugin, None)


def test_other_volumes_are_nobodys():
    assert plugin_of(Volume(name="config")) is None
