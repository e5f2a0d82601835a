"""resource.k8s.io/v1: defaults, what is refused and under which field, and what a claim's status may become."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.apiserver import ApiError, ApiServer
from tests.fixtures_apiserver import pod

Object = dict[str, Any]
CLAIMS = "resourceclaims.resource.k8s.io"
ALLOCATION = {"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "gpu-0"}]}}
USER = {"resource": "pods", "name": "p", "uid": "1"}


def obj(kind: str, spec: Object, name: str = "x", **metadata: Any) -> Object:
    """An object of the group."""
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def claim(*requests: Object, **devices: Any) -> Object:
    """A claim of these requests."""
    return obj("ResourceClaim", {"devices": {"requests": list(requests), **devices}})


def request(name: str = "r", **exactly: Any) -> Object:
    """A request of a class."""
    return {"name": name, "exactly": {"deviceClassName": "gpu", **exactly}}


def a_slice(**changes: Any) -> Object:
    """A slice of one device of one node."""
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "pool": pool, "nodeName": "n1", "devices": [{"name": "gpu-0"}], **changes}
    return obj("ResourceSlice", {key: value for key, value in spec.items() if value is not None})


def refusal(server: ApiServer, body: Object) -> str:
    """What is said of an object that is refused."""
    with pytest.raises(ApiError) as error:
        server.create(body)
    assert error.value.code == 422
    return str(error.value)


def test_requests_get_their_defaults() -> None:
    server = ApiServer()
    alternatives = [{"name": "a", "deviceClassName": "gpu"}, {"name": "b", "deviceClassName": "gpu", "count": 2}]
    tolerations = [{"key": "k", "value": "v"}]
    made = server.create(
        claim(
            request(tolerations=tolerations),
            request("all", allocationMode="All"),
            {"name": "f", "firstAvailable": alternatives},
        )
    )
    exact, everything, first = made["spec"]["devices"]["requests"]
    assert (exact["exactly"]["allocationMode"], exact["exactly"]["count"]) == ("ExactCount", 1)
    assert exact["exactly"]["tolerations"] == [{"key": "k", "value": "v", "operator": "Equal"}]
    assert "count" not in everything["exactly"]
    assert [one["count"] for one in first["firstAvailable"]] == [1, 2]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        pytest.param(
            claim({"name": "r"}), "spec.devices.requests[0]: Required value: exactly one of", id="asks for nothing"
        ),
        pytest.param(
            claim({"name": "r", "exactly": {}}), "requests[0].exactly.deviceClassName: Required", id="no class"
        ),
        pytest.param(claim(request(), request()), 'requests[1].name: Duplicate value: "r"', id="a name twice"),
        pytest.param(claim(request("R")), 'requests[0].name: Invalid value: "R"', id="no label"),
        pytest.param(
            claim(request(count=-1)), "count: Invalid value: -1: must be greater than zero", id="less than none"
        ),
        pytest.param(
            claim(request(allocationMode="All", count=2)), "count: Invalid value: 2: must not be", id="all two"
        ),
        pytest.param(claim(request(allocationMode="Any")), 'allocationMode: Unsupported value: "Any"', id="a mode"),
        pytest.param(
            claim(*[request(f"r{i}") for i in range(33)]), "Too many: 33: must have at most 32", id="33 requests"
        ),
        pytest.param(
            claim(request(), constraints=[{"requests": ["q"], "matchAttribute": "a/b"}]),
            'constraints[0].requests[0]: Invalid value: "q"',
            id="a constraint on nothing",
        ),
        pytest.param(
            claim(request(selectors=[{"cel": {"expression": "device.colour == 1"}}])),
            'selectors[0].cel.expression: Invalid value: "device.colour == 1": compilation failed',
            id="a selector that does not compile",
        ),
        pytest.param(
            claim(request(adminAccess=True)), "requires the `resource.kubernetes.io/admin-access: true`", id="admin"
        ),
        pytest.param(
            obj("DeviceClass", {"selectors": [{"cel": {"expression": "1"}}]}),
            "spec.selectors[0].cel.expression: Invalid value",
            id="a class with a number as selector",
        ),
        pytest.param(
            a_slice(nodeName=None), "spec: Required value: exactly one of `nodeName`", id="a slice for nobody"
        ),
        pytest.param(a_slice(allNodes=True), 'spec: Invalid value: "{nodeName, allNodes}"', id="for one and for all"),
        pytest.param(a_slice(pool={"name": "n1"}), "resourceSliceCount: Invalid value: 0", id="a pool of no slices"),
        pytest.param(
            a_slice(devices=[{"name": "a"}, {"name": "a"}]), 'devices[1].name: Duplicate value: "a"', id="devices"
        ),
        pytest.param(
            a_slice(devices=[{"name": f"d{i}"} for i in range(129)]),
            "Too many: 129: must have at most 128",
            id="129 devices",
        ),
        pytest.param(
            a_slice(devices=[{"name": f"d{i}", "taints": [{"key": "k", "effect": "NoSchedule"}]} for i in range(65)]),
            "Too many: 65: must have at most 64",
            id="65 tainted devices",
        ),
        pytest.param(
            claim(request(tolerations=[{"operator": "Exists"}] * 17)), "Too many: 17: must have at most 16", id="17"
        ),
        pytest.param(
            claim(request(selectors=[{"cel": {"expression": "true" + " " * 10240}}])),
            "selectors[0].cel.expression: Too long: may not be more than 10240 bytes",
            id="a long expression",
        ),
        pytest.param(
            a_slice(devices=None, sharedCounters=[{"name": f"s{i}"} for i in range(9)]),
            "spec.sharedCounters: Too many: 9: must have at most 8",
            id="nine sets of counters",
        ),
        pytest.param(
            a_slice(devices=[{"name": "d", "bindingConditions": ["a", "b", "c", "d", "e"]}]),
            "spec.devices[0].bindingConditions: Too many: 5: must have at most 4",
            id="five binding conditions",
        ),
        pytest.param(a_slice(driver="d" * 64), "spec.driver: Too long: may not be more than 63 bytes", id="a driver"),
        pytest.param(
            pod("p", resourceClaims=[{"name": "a"}]),
            "spec.resourceClaims[0]: Required value: must specify one of",
            id="a pod's claim without a source",
        ),
        pytest.param(
            pod("p", containers=[{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}]),
            'spec.containers[0].resources.claims[0].name: Not found: "gpu"',
            id="a container with a claim that its pod does not have",
        ),
    ],
)
def test_what_is_wrong_is_told_by_its_field(body: Object, told: str) -> None:
    assert told in refusal(ApiServer(), body)


def test_admin_access_is_for_namespaces_that_are_marked_for_it() -> None:
    server = ApiServer()
    server.patch("namespaces", "default", {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}})
    assert server.create(claim(request(adminAccess=True)))["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"]


@pytest.mark.parametrize(
    ("body", "resource", "patch", "field"),
    [
        pytest.param(claim(request()), CLAIMS, {"spec": {"devices": None}}, "spec", id="what a claim asks for"),
        pytest.param(
            a_slice(),
            "resourceslices.resource.k8s.io",
            {"spec": {"nodeName": "n2"}},
            "spec.nodeName",
            id="a slice's node",
        ),
        pytest.param(
            a_slice(), "resourceslices.resource.k8s.io", {"spec": {"driver": "d"}}, "spec.driver", id="a slice's driver"
        ),
    ],
)
def test_what_may_not_change(body: Object, resource: str, patch: Object, field: str) -> None:
    server = ApiServer()
    server.create(body)
    with pytest.raises(ApiError, match=f"{field}: Invalid value: .*: field is immutable"):
        server.patch(resource, "x", patch)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        pytest.param({}, {"allocation": ALLOCATION, "reservedFor": [USER]}, "", id="allocated and reserved at once"),
        pytest.param({}, {"reservedFor": [USER]}, "status.reservedFor: Forbidden", id="reserved without an allocation"),
        pytest.param(
            {"allocation": ALLOCATION}, {"allocation": {"devices": {"results": []}}}, "field is immutable", id="another"
        ),
        pytest.param(
            {"allocation": ALLOCATION}, {"allocation": {"allocationTimestamp": "2026-01-01T00:00:00Z"}}, "", id="a time"
        ),
        pytest.param({"allocation": ALLOCATION}, {"allocation": None}, "", id="given back"),
        pytest.param(
            {"allocation": ALLOCATION, "reservedFor": [USER]},
            {"allocation": None},
            "reservedFor: Forbidden",
            id="in use",
        ),
        pytest.param({}, {"allocation": ALLOCATION, "reservedFor": [USER, USER]}, "Duplicate value", id="a user twice"),
        pytest.param(
            {"allocation": ALLOCATION},
            {"devices": [{"driver": "d", "pool": "p", "device": "gpu-7"}]},
            "status.devices[0]: Invalid value",
            id="a report on a device that the claim does not have",
        ),
    ],
)
def test_what_a_claims_status_may_become(before: Object, after: Object, told: str) -> None:
    server = ApiServer()
    made = server.create(claim(request()))
    if before:
        server.update({**made, "status": before}, status=True)
    resource = server.resource(CLAIMS)

    def patch() -> None:
        server.verbs.patch(resource, ("default", "x"), {"status": after}, "application/merge-patch+json", status=True)

    if told:
        with pytest.raises(ApiError) as error:
            patch()
        assert told in str(error.value)
    else:
        patch()


def test_a_claim_that_is_being_deleted_gets_no_new_users() -> None:
    server = ApiServer()
    made = server.create(obj("ResourceClaim", claim(request())["spec"], finalizers=["example.com/held"]))
    server.update({**made, "status": {"allocation": ALLOCATION}}, status=True)
    server.delete(CLAIMS, "x")
    with pytest.raises(ApiError, match="new reservations must not be added"):
        server.patch(CLAIMS, "x", {"status": {"reservedFor": [USER]}}, status=True)


def test_users_are_merged_and_dropped_by_their_uid() -> None:
    server = ApiServer()
    made = server.create(claim(request()))
    server.update({**made, "status": {"allocation": ALLOCATION, "reservedFor": [USER]}}, status=True)
    server.patch(CLAIMS, "x", {"status": {"reservedFor": [{**USER, "uid": "2"}]}}, status=True)
    server.patch(CLAIMS, "x", {"status": {"reservedFor": [{"$patch": "delete", "uid": "1"}]}}, status=True)
    assert server.get(CLAIMS, "x")["status"]["reservedFor"] == [{**USER, "uid": "2"}]
