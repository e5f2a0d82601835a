"""A dump of what the scheduler sees: one gzipped List that simulate, explain and kubectl read; if wanted without names.

Without names it decides as with them: equal strings stay equal, and what Kubernetes itself gives a meaning (its own
labels and taints, operators, effects, quantities, numbers) stays as it is.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from kube.api import codec
from simulator.load import ClusterObjects

Plain = dict[str, Any]

#: fields whose strings have a meaning of their own
_KEPT_FIELDS = frozenset(
    (
        *("kind", "apiVersion", "operator", "effect", "phase", "type", "status", "protocol", "restartPolicy"),
        *("whenUnsatisfiable", "nodeAffinityPolicy", "nodeTaintsPolicy", "preemptionPolicy", "schedulerName"),
        *("volumeBindingMode", "volumeMode", "accessModes", "reclaimPolicy", "persistentVolumeReclaimPolicy"),
        *("creationTimestamp", "deletionTimestamp", "startTime", "timeAdded", "lastTransitionTime", "lastProbeTime"),
        *("minAvailable", "maxUnavailable", "maximumVolumeSize", "driver", "provisioner", "attacher", "resize"),
        *("declaredFeatures", "hostIP", "qosClass", "podCIDR", "podCIDRs", "finalizers", "uid", "resourceVersion"),
    )
)
#: mappings whose keys and values have a meaning of their own
_KEPT_MAPPINGS = frozenset(("allocatable", "capacity", "requests", "limits", "overhead", "allocatedResources", "os"))
#: kinds whose insides are matched by expressions: only metadata and names of nodes change
_DEVICES = frozenset({"ResourceSlice", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate"})
_DEVICE_NAMES = frozenset({"nodeName", "resourceClaimName", "resourceClaimTemplateName"})
#: names that everybody has
_KEPT_VALUES = frozenset(
    {"metadata.name", "default", "kube-system", "kube-public", "kube-node-lease", "true", "false", ""}
)
#: fields that hold an image, with or without its tag
_IMAGES = frozenset({"image", "names", "reference"})
_OWN = re.compile(r"(^|[./])(kubernetes\.io|k8s\.io)(/|$)")
_NUMBER = re.compile(r"^[+-]?\d+$")
#: told about nobody: messages may quote names
_DROPPED = frozenset(
    {"message", "annotations", "managedFields", "addresses", "providerID", "podIP", "podIPs", "reason"}
)
#: annotations that decide something
_KEPT_ANNOTATIONS = (
    "pv.kubernetes.io/",
    "volume.kubernetes.io/",
    "volume.beta.kubernetes.io/",
    "storageclass.kubernetes.io/",
    "storage.alpha.kubernetes.io/",
    "kubernetes.io/config.mirror",
)


def plain_objects(objects: ClusterObjects) -> Iterator[Plain]:
    """Every object as a mapping, nodes first."""
    typed = (*objects.nodes, *(item for items in objects.others.values() for item in items), *objects.pods)
    return (msgspec.json.decode(codec.encode(item)) for item in typed)


def dump(items: Iterable[Plain]) -> bytes:
    """A gzipped v1 List; the same objects make the same bytes."""
    text = b'{"apiVersion":"v1","kind":"List","items":[\n' + b",\n".join(map(msgspec.json.encode, items)) + b"\n]}\n"
    return gzip.compress(text, compresslevel=6, mtime=0)


class Anonymiser:
    """Other words for names, the same for the same. Owner: one dump."""

    def __init__(self) -> None:
        self._words: dict[str, str] = {}

    def object(self, item: Plain) -> Plain:
        """The object under another name."""
        if item.get("kind") in _DEVICES:
            return {
                key: self._mapping(value, key) if key == "metadata" else self._device(value, key)
                for key, value in item.items()
            }
        hidden = self._mapping(item, "")
        if item.get("kind") == "CSIDriver":
            hidden["metadata"]["name"] = item["metadata"]["name"]
        return hidden

    def word(self, text: str) -> str:
        """The word that stands for a string; what Kubernetes gives a meaning stands for itself."""
        if text in _KEPT_VALUES or _OWN.search(text) or _NUMBER.match(text):
            return text
        word = self._words.get(text)
        if word is None:
            word = self._words[text] = f"x{len(self._words) + 1}"
        return word

    def _value(self, value: Any, field: str) -> Any:
        if isinstance(value, str):
            return self._string(value, field)
        if isinstance(value, list):
            return [self._value(each, field) for each in value]
        if isinstance(value, dict):
            return self._mapping(value, field)
        return value

    def _string(self, text: str, field: str) -> str:
        if field in _KEPT_FIELDS:
            return text
        if field in _IMAGES and text:
            bare, tagged = text, ":" in text.rpartition("/")[2]
            return self.word(bare if tagged else f"{bare}:latest") + ":x"
        if field in ("values", "value"):
            return self._label(text)
        return self.word(text)

    def _mapping(self, value: Plain, field: str) -> Plain:
        if field in _KEPT_MAPPINGS:
            return value
        if field in ("labels", "matchLabels", "nodeSelector", "selector") and _is_flat(value):
            return {self.word(key): self._label(text) for key, text in value.items()}
        kept = {key: each for key, each in value.items() if key not in _DROPPED}
        changed = {key: self._value(each, key) for key, each in kept.items()}
        if field == "drivers" and "name" in value:
            # Classes and volumes name their driver, too.
            changed["name"] = value["name"]
        annotations = value.get("annotations")
        if isinstance(annotations, dict):
            own = {key: self.word(text) for key, text in annotations.items() if key.startswith(_KEPT_ANNOTATIONS)}
            changed |= {"annotations": own} if own else {}
        return changed

    def _label(self, text: str) -> str:
        """Volumes list several zones in one value."""
        return "__".join(map(self.word, text.split("__")))

    def _device(self, value: Any, field: str) -> Any:
        if isinstance(value, str):
            return self.word(value) if field in _DEVICE_NAMES else value
        if isinstance(value, list):
            return [self._device(each, field) for each in value]
        if isinstance(value, dict):
            return {key: self._device(each, key) for key, each in value.items()}
        return value


def _is_flat(value: Plain) -> bool:
    return all(isinstance(each, str) for each in value.values())
