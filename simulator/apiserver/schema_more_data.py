"""Further types as data, in the notation of `schema_data.py`: resource.k8s.io/v1, and CronJobs.

They have no numbers: these kinds are taken as JSON and YAML only. Read by `schema.py` alone.
"""

MESSAGES = """
resource.ResourceClaim: - metadata ObjectMeta, - spec ResourceClaimSpec, - status ResourceClaimStatus
ResourceClaimSpec: - devices DeviceClaim
DeviceClaim: - requests [DeviceRequest], - constraints [DeviceConstraint], - config [DeviceClaimConfiguration]
DeviceRequest: - name str, - exactly ExactDeviceRequest, - firstAvailable [DeviceSubRequest]
ExactDeviceRequest: - deviceClassName str, - selectors [DeviceSelector], - allocationMode str, - count int,
    - adminAccess bool?, - tolerations [DeviceToleration], - capacity CapacityRequirements
DeviceSubRequest: - name str, - deviceClassName str, - selectors [DeviceSelector], - allocationMode str, - count int,
    - tolerations [DeviceToleration], - capacity CapacityRequirements
DeviceSelector: - cel CELDeviceSelector
CELDeviceSelector: - expression str
CapacityRequirements: - requests {Quantity}
DeviceToleration: - key str, - operator str, - value str, - effect str, - tolerationSeconds int?
DeviceConstraint: - requests [str], - matchAttribute str?, - distinctAttribute str?
DeviceClaimConfiguration: - requests [str], - opaque OpaqueDeviceConfiguration
OpaqueDeviceConfiguration: - driver str, - parameters Raw
ResourceClaimStatus: - allocation AllocationResult, - reservedFor [ResourceClaimConsumerReference]@uid,
    - devices [AllocatedDeviceStatus]@driver+device+pool+shareID
AllocationResult: - devices DeviceAllocationResult, - nodeSelector NodeSelector, - allocationTimestamp Time
DeviceAllocationResult: - results [DeviceRequestAllocationResult], - config [DeviceAllocationConfiguration]
DeviceRequestAllocationResult: - request str, - driver str, - pool str, - device str, - adminAccess bool?,
    - tolerations [DeviceToleration], - bindingConditions [str], - bindingFailureConditions [str], - shareID str?,
    - consumedCapacity {Quantity}
DeviceAllocationConfiguration: - source str, - requests [str], - opaque OpaqueDeviceConfiguration
ResourceClaimConsumerReference: - apiGroup str, - resource str, - name str, - uid str
AllocatedDeviceStatus: - driver str, - pool str, - device str, - shareID str?, - conditions [Condition]@type,
    - data Raw, - networkData NetworkDeviceData
NetworkDeviceData: - interfaceName str, - ips [str], - hardwareAddress str
ResourceClaimTemplate: - metadata ObjectMeta, - spec ResourceClaimTemplateSpec
ResourceClaimTemplateSpec: - metadata ObjectMeta, - spec ResourceClaimSpec
DeviceClass: - metadata ObjectMeta, - spec DeviceClassSpec
DeviceClassSpec: - selectors [DeviceSelector], - config [DeviceClassConfiguration], - extendedResourceName str?
DeviceClassConfiguration: - opaque OpaqueDeviceConfiguration
ResourceSlice: - metadata ObjectMeta, - spec ResourceSliceSpec
ResourceSliceSpec: - driver str, - pool ResourcePool, - nodeName str?, - nodeSelector NodeSelector, - allNodes bool?,
    - devices [Device], - perDeviceNodeSelection bool?, - sharedCounters [CounterSet]
ResourcePool: - name str, - generation int, - resourceSliceCount int
Device: - name str, - attributes {DeviceAttribute}, - capacity {DeviceCapacity},
    - consumesCounters [DeviceCounterConsumption], - nodeName str?, - nodeSelector NodeSelector, - allNodes bool?,
    - taints [DeviceTaint], - bindsToNode bool?, - bindingConditions [str], - bindingFailureConditions [str],
    - allowMultipleAllocations bool?, - nodeAllocatableResourceMappings Any
DeviceAttribute: - int int?, - bool bool?, - string str?, - version str?, - ints [int], - bools [bool],
    - strings [str], - versions [str]
DeviceCapacity: - value Quantity, - requestPolicy CapacityRequestPolicy
CapacityRequestPolicy: - default Quantity, - validValues [Quantity], - validRange CapacityRequestPolicyRange
CapacityRequestPolicyRange: - min Quantity, - max Quantity, - step Quantity
DeviceCounterConsumption: - counterSet str, - counters {Counter}
Counter: - value Quantity
CounterSet: - name str, - counters {Counter}
DeviceTaint: - key str, - value str, - effect str, - timeAdded Time
CronJob: - metadata ObjectMeta, - spec CronJobSpec, - status CronJobStatus
CronJobSpec: - schedule str, - timeZone str?, - startingDeadlineSeconds int?, - concurrencyPolicy str, - suspend bool?,
    - jobTemplate JobTemplateSpec, - successfulJobsHistoryLimit int?, - failedJobsHistoryLimit int?
JobTemplateSpec: - metadata ObjectMeta, - spec JobSpec
CronJobStatus: - active [ObjectReference], - lastScheduleTime Time, - lastSuccessfulTime Time
"""
