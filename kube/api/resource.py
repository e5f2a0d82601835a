"""resource.k8s.io: devices, the classes they are asked for by, and the claims on them (Dynamic Resource Allocation).

Anybody may import it. The types list every field of v1 that a scheduler reads or copies. v1beta1 writes a device's
body under `basic` and a request without `exactly`; `Device.body` and `DeviceRequest.exact` answer for both spellings.
Values of Kubernetes' opaque configuration are kept as they came.
"""

# ruff: noqa: D101 - the types mirror Kubernetes' API reference, which documents them.

from typing import Any, ClassVar

from msgspec import field

from kube.api.core import NodeSelector
from kube.api.meta import ApiObject, Condition, Object

#: a quantity as JSON or YAML may have it
QuantityText = str | int | float

FINALIZER = "resource.kubernetes.io/delete-protection"
EXTENDED_RESOURCE_CLAIM = "resource.kubernetes.io/extended-resource-claim"
EXACT_COUNT = "ExactCount"
ALL = "All"
FROM_CLASS = "FromClass"
FROM_CLAIM = "FromClaim"


# --- devices and slices ------------------------------------------------------------------------------------------


class DeviceAttribute(Object, frozen=True):
    """Exactly one of these is set; lists (alpha) are not read."""

    string: str | None = None
    version: str | None = None
    integer: int | None = field(default=None, name="int")
    boolean: bool | None = field(default=None, name="bool")


class CapacityRequestPolicyRange(Object, frozen=True):
    min: QuantityText | None = None
    max: QuantityText | None = None
    step: QuantityText | None = None


class CapacityRequestPolicy(Object, frozen=True):
    default: QuantityText | None = None
    valid_values: tuple[QuantityText, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Object, frozen=True):
    value: QuantityText = ""
    request_policy: CapacityRequestPolicy | None = None


class Counter(Object, frozen=True):
    value: QuantityText = ""


class CounterSet(Object, frozen=True):
    name: str = ""
    counters: dict[str, Counter] = field(default_factory=dict)


class DeviceCounterConsumption(Object, frozen=True):
    counter_set: str = ""
    counters: dict[str, Counter] = field(default_factory=dict)


class DeviceTaint(Object, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class DeviceToleration(Object, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class BasicDevice(Object, frozen=True):
    attributes: dict[str, DeviceAttribute] = field(default_factory=dict)
    capacity: dict[str, DeviceCapacity] = field(default_factory=dict)
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool = False


class Device(BasicDevice, frozen=True):
    name: str = ""
    basic: BasicDevice | None = None

    @property
    def body(self) -> BasicDevice:
        """Where the device's fields are: in itself, or under `basic` as v1beta1 has it."""
        return self.basic or self


class ResourcePool(Object, frozen=True):
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(Object, frozen=True):
    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(ApiObject, frozen=True):
    API_VERSION: ClassVar[str] = "resource.k8s.io/v1"
    KIND: ClassVar[str] = "ResourceSlice"

    spec: ResourceSliceSpec = ResourceSliceSpec()


# --- classes -----------------------------------------------------------------------------------------------------


class CELDeviceSelector(Object, frozen=True):
    expression: str = ""


class DeviceSelector(Object, frozen=True):
    """`cel` is None for a kind of selector that is not known."""

    cel: CELDeviceSelector | None = None


class OpaqueDeviceConfiguration(Object, frozen=True):
    driver: str = ""
    parameters: Any = None


class DeviceClassConfiguration(Object, frozen=True):
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassSpec(Object, frozen=True):
    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(ApiObject, frozen=True):
    API_VERSION: ClassVar[str] = "resource.k8s.io/v1"
    KIND: ClassVar[str] = "DeviceClass"

    spec: DeviceClassSpec = DeviceClassSpec()


# --- claims ------------------------------------------------------------------------------------------------------


class CapacityRequirements(Object, frozen=True):
    requests: dict[str, QuantityText] = field(default_factory=dict)


class ExactDeviceRequest(Object, frozen=True):
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    # None and False differ where admin access is switched off.
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceSubRequest(Object, frozen=True):
    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceRequest(Object, frozen=True):
    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()
    # v1beta1 has the fields of `exactly` here.
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None

    @property
    def exact(self) -> ExactDeviceRequest | None:
        """What is asked for exactly, however it is spelled; None where there are alternatives or nothing known."""
        if self.exactly is not None or not self.device_class_name:
            return self.exactly
        return ExactDeviceRequest(
            device_class_name=self.device_class_name,
            selectors=self.selectors,
            allocation_mode=self.allocation_mode,
            count=self.count,
            admin_access=self.admin_access,
            tolerations=self.tolerations,
            capacity=self.capacity,
        )


class DeviceConstraint(Object, frozen=True):
    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaimConfiguration(Object, frozen=True):
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaim(Object, frozen=True):
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(Object, frozen=True):
    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(Object, frozen=True):
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = field(default=None, name="shareID")
    consumed_capacity: dict[str, QuantityText] = field(default_factory=dict)


class DeviceAllocationConfiguration(Object, frozen=True):
    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationResult(Object, frozen=True):
    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(Object, frozen=True):
    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ResourceClaimConsumerReference(Object, frozen=True):
    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class AllocatedDeviceStatus(Object, frozen=True):
    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = field(default=None, name="shareID")
    conditions: tuple[Condition, ...] = ()


class ResourceClaimStatus(Object, frozen=True):
    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(ApiObject, frozen=True):
    API_VERSION: ClassVar[str] = "resource.k8s.io/v1"
    KIND: ClassVar[str] = "ResourceClaim"

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(Object, frozen=True):
    metadata: dict[str, Any] = field(default_factory=dict)
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(ApiObject, frozen=True):
    """Read by whoever makes claims of it, never by the scheduler."""

    API_VERSION: ClassVar[str] = "resource.k8s.io/v1"
    KIND: ClassVar[str] = "ResourceClaimTemplate"

    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()
