"""The table of types says what Kubernetes' own clients say, and every name in it leads somewhere."""

import msgspec
import pytest
from kubernetes_asyncio.client import models

from simulator.apiserver import schema_data, schema_more_data
from simulator.apiserver.resources import BUILT_IN
from simulator.apiserver.schema import message, message_of, struct_of

MESSAGES = schema_data.MESSAGES + schema_more_data.MESSAGES.lstrip()
NAMES = [line.partition(":")[0].rstrip("!") for line in MESSAGES.strip().splitlines() if not line.startswith(" ")]
OTHER_NAMES = {
    "Event": "CoreV1Event",
    "events.Event": "EventsV1Event",
    "EventSeries": "CoreV1EventSeries",
    "events.EventSeries": "EventsV1EventSeries",
    "ResourceClaim": "CoreV1ResourceClaim",
    "resource.ResourceClaim": "ResourceV1ResourceClaim",
    "TokenRequest": "StorageV1TokenRequest",
}
# Messages whose fields stand in their owner, and fields that have come and gone again.
EMBEDDED = {"VolumeSource", "ProbeHandler", "EphemeralContainerCommon", "PersistentVolumeSource"}
GONE = {"workloadRef"}


@pytest.mark.parametrize("name", [name for name in NAMES if name not in EMBEDDED])
def test_a_message_has_the_fields_of_the_generated_client(name):
    model = getattr(models, OTHER_NAMES.get(name, f"V1{name}"))
    type_fields = {"kind", "apiVersion"}
    assert set(message(name).fields) - GONE - type_fields == set(model.attribute_map.values()) - type_fields


def test_every_type_is_known_and_every_number_is_used_once():
    for name in NAMES:
        listed = message(name)
        for field in listed.fields.values():
            assert field.type == "Any" or field.message is None or field.message.name in NAMES
        numbers = [field.number for field in listed.numbers.values()]
        assert len(numbers) == len(set(numbers))


def test_every_kind_served_but_bindings_has_a_type():
    assert [resource.kind for resource in BUILT_IN if message_of(resource) is None] == []


@pytest.mark.parametrize(
    ("spec", "right"),
    [
        pytest.param({"containers": [{"name": "a", "ports": [{"containerPort": 1}]}]}, True, id="as it should be"),
        pytest.param({"hostNetwork": None, "volumes": None}, True, id="null is absent"),
        pytest.param(
            {"containers": [{"name": "a", "livenessProbe": {"httpGet": {"port": "web"}}}]}, True, id="embedded"
        ),
        pytest.param({"overhead": {"cpu": 1}}, True, id="a quantity may be a number"),
        pytest.param({"hostNetwork": "yes"}, False, id="a flag is no word"),
        pytest.param({"colour": "red"}, False, id="an unknown field"),
        pytest.param({"containers": {}}, False, id="a list is no object"),
        pytest.param({"priority": 1.5}, False, id="a whole number"),
    ],
)
def test_an_object_fits_its_type_or_does_not(spec, right):
    pods = next(resource for resource in BUILT_IN if resource.kind == "Pod")
    body = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "spec": spec}
    if right:
        msgspec.convert(body, struct_of(pods))
    else:
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(body, struct_of(pods))
