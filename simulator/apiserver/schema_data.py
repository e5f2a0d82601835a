"""The types of the Kubernetes API as data: the fields of every message that an object of a served kind can hold.

    Message: NUMBER NAME TYPE, …

NUMBER is the field's number in protobuf (`-`: newer than the numbers known here), NAME its JSON name (`*`: the fields
of the message stand in the owner itself). TYPE is str, int, float, bool, bytes, a message, `[list]` or `{map}`.
`?` after a type: a zero is a value, and not the same as absent. `@a+b` after a list: its items are told apart by these
keys in server-side apply (`@` alone: a set); any other list is replaced as a whole. `!` after a message or a map: it is
replaced as a whole too. Read by `schema.py` alone, which adds
`schema_more_data.py`. Messages without an entry of their own and `Any` hold anything.
"""

MESSAGES = """
Pod: 1 metadata ObjectMeta, 2 spec PodSpec, 3 status PodStatus
ObjectMeta: 1 name str, 2 generateName str, 3 namespace str, 4 selfLink str, 5 uid str, 6 resourceVersion str,
    7 generation int, 8 creationTimestamp Time, 9 deletionTimestamp Time, 10 deletionGracePeriodSeconds int?,
    11 labels {str}, 12 annotations {str}, 13 ownerReferences [OwnerReference]@uid, 14 finalizers [str]@,
    17 managedFields [ManagedFieldsEntry]
OwnerReference: 1 kind str, 3 name str, 4 uid str, 5 apiVersion str, 6 controller bool?, 7 blockOwnerDeletion bool?
ManagedFieldsEntry: 1 manager str, 2 operation str, 3 apiVersion str, 4 time Time, 6 fieldsType str,
    7 fieldsV1 FieldsV1, 8 subresource str
PodSpec: 1 volumes [Volume]@name, 2 containers [Container]@name, 3 restartPolicy str,
    4 terminationGracePeriodSeconds int?, 5 activeDeadlineSeconds int?, 6 dnsPolicy str, 7 nodeSelector {str}!,
    8 serviceAccountName str, 9 serviceAccount str, 10 nodeName str, 11 hostNetwork bool, 12 hostPID bool,
    13 hostIPC bool, 14 securityContext PodSecurityContext, 15 imagePullSecrets [LocalObjectReference]@name,
    16 hostname str, 17 subdomain str, 18 affinity Affinity, 19 schedulerName str, 20 initContainers [Container]@name,
    21 automountServiceAccountToken bool?, 22 tolerations [Toleration], 23 hostAliases [HostAlias]@ip,
    24 priorityClassName str, 25 priority int?, 26 dnsConfig PodDNSConfig, 27 shareProcessNamespace bool?,
    28 readinessGates [PodReadinessGate], 29 runtimeClassName str?, 30 enableServiceLinks bool?,
    31 preemptionPolicy str?, 32 overhead {Quantity},
    33 topologySpreadConstraints [TopologySpreadConstraint]@topologyKey+whenUnsatisfiable,
    34 ephemeralContainers [EphemeralContainer]@name, 35 setHostnameAsFQDN bool?, 36 os PodOS, 37 hostUsers bool?,
    38 schedulingGates [PodSchedulingGate]@name, 39 resourceClaims [PodResourceClaim]@name,
    40 resources ResourceRequirements, - hostnameOverride str?, - schedulingGroup Any, - workloadRef Any
Volume: 1 name str, 2 * VolumeSource
VolumeSource: 1 hostPath HostPathVolumeSource, 2 emptyDir EmptyDirVolumeSource,
    3 gcePersistentDisk GCEPersistentDiskVolumeSource, 4 awsElasticBlockStore AWSElasticBlockStoreVolumeSource,
    5 gitRepo GitRepoVolumeSource, 6 secret SecretVolumeSource, 7 nfs NFSVolumeSource, 8 iscsi ISCSIVolumeSource,
    9 glusterfs GlusterfsVolumeSource, 10 persistentVolumeClaim PersistentVolumeClaimVolumeSource,
    11 rbd RBDVolumeSource, 12 flexVolume FlexVolumeSource, 13 cinder CinderVolumeSource, 14 cephfs CephFSVolumeSource,
    15 flocker FlockerVolumeSource, 16 downwardAPI DownwardAPIVolumeSource, 17 fc FCVolumeSource,
    18 azureFile AzureFileVolumeSource, 19 configMap ConfigMapVolumeSource,
    20 vsphereVolume VsphereVirtualDiskVolumeSource, 21 quobyte QuobyteVolumeSource,
    22 azureDisk AzureDiskVolumeSource, 23 photonPersistentDisk PhotonPersistentDiskVolumeSource,
    24 portworxVolume PortworxVolumeSource, 25 scaleIO ScaleIOVolumeSource, 26 projected ProjectedVolumeSource,
    27 storageos StorageOSVolumeSource, 28 csi CSIVolumeSource, 29 ephemeral EphemeralVolumeSource,
    30 image ImageVolumeSource
HostPathVolumeSource: 1 path str, 2 type str?
EmptyDirVolumeSource: 1 medium str, 2 sizeLimit Quantity
GCEPersistentDiskVolumeSource: 1 pdName str, 2 fsType str, 3 partition int, 4 readOnly bool
AWSElasticBlockStoreVolumeSource: 1 volumeID str, 2 fsType str, 3 partition int, 4 readOnly bool
GitRepoVolumeSource: 1 repository str, 2 revision str, 3 directory str
SecretVolumeSource: 1 secretName str, 2 items [KeyToPath], 3 defaultMode int?, 4 optional bool?
KeyToPath: 1 key str, 2 path str, 3 mode int?
NFSVolumeSource: 1 server str, 2 path str, 3 readOnly bool
ISCSIVolumeSource: 1 targetPortal str, 2 iqn str, 3 lun int, 4 iscsiInterface str, 5 fsType str, 6 readOnly bool,
    7 portals [str], 8 chapAuthDiscovery bool, 10 secretRef LocalObjectReference, 11 chapAuthSession bool,
    12 initiatorName str?
LocalObjectReference!: 1 name str
GlusterfsVolumeSource: 1 endpoints str, 2 path str, 3 readOnly bool
PersistentVolumeClaimVolumeSource: 1 claimName str, 2 readOnly bool
RBDVolumeSource: 1 monitors [str], 2 image str, 3 fsType str, 4 pool str, 5 user str, 6 keyring str,
    7 secretRef LocalObjectReference, 8 readOnly bool
FlexVolumeSource: 1 driver str, 2 fsType str, 3 secretRef LocalObjectReference, 4 readOnly bool, 5 options {str}
CinderVolumeSource: 1 volumeID str, 2 fsType str, 3 readOnly bool, 4 secretRef LocalObjectReference
CephFSVolumeSource: 1 monitors [str], 2 path str, 3 user str, 4 secretFile str, 5 secretRef LocalObjectReference,
    6 readOnly bool
FlockerVolumeSource: 1 datasetName str, 2 datasetUUID str
DownwardAPIVolumeSource: 1 items [DownwardAPIVolumeFile], 2 defaultMode int?
DownwardAPIVolumeFile: 1 path str, 2 fieldRef ObjectFieldSelector, 3 resourceFieldRef ResourceFieldSelector,
    4 mode int?
ObjectFieldSelector!: 1 apiVersion str, 2 fieldPath str
ResourceFieldSelector!: 1 containerName str, 2 resource str, 3 divisor Quantity
FCVolumeSource: 1 targetWWNs [str], 2 lun int?, 3 fsType str, 4 readOnly bool, 5 wwids [str]
AzureFileVolumeSource: 1 secretName str, 2 shareName str, 3 readOnly bool
ConfigMapVolumeSource: 1 * LocalObjectReference, 2 items [KeyToPath], 3 defaultMode int?, 4 optional bool?
VsphereVirtualDiskVolumeSource: 1 volumePath str, 2 fsType str, 3 storagePolicyName str, 4 storagePolicyID str
QuobyteVolumeSource: 1 registry str, 2 volume str, 3 readOnly bool, 4 user str, 5 group str, 6 tenant str
AzureDiskVolumeSource: 1 diskName str, 2 diskURI str, 3 cachingMode str?, 4 fsType str?, 5 readOnly bool?, 6 kind str?
PhotonPersistentDiskVolumeSource: 1 pdID str, 2 fsType str
ProjectedVolumeSource: 1 sources [VolumeProjection], 2 defaultMode int?
VolumeProjection: 1 secret SecretProjection, 2 downwardAPI DownwardAPIProjection, 3 configMap ConfigMapProjection,
    4 serviceAccountToken ServiceAccountTokenProjection, 5 clusterTrustBundle ClusterTrustBundleProjection,
    - podCertificate Any
SecretProjection: 1 * LocalObjectReference, 2 items [KeyToPath], 4 optional bool?
DownwardAPIProjection: 1 items [DownwardAPIVolumeFile]
ConfigMapProjection: 1 * LocalObjectReference, 2 items [KeyToPath], 4 optional bool?
ServiceAccountTokenProjection: 1 audience str, 2 expirationSeconds int?, 3 path str
ClusterTrustBundleProjection: 1 name str?, 2 signerName str?, 3 labelSelector LabelSelector, 4 path str,
    5 optional bool?
LabelSelector!: 1 matchLabels {str}, 2 matchExpressions [LabelSelectorRequirement]
LabelSelectorRequirement: 1 key str, 2 operator str, 3 values [str]
PortworxVolumeSource: 1 volumeID str, 2 fsType str, 3 readOnly bool
ScaleIOVolumeSource: 1 gateway str, 2 system str, 3 secretRef LocalObjectReference, 4 sslEnabled bool,
    5 protectionDomain str, 6 storagePool str, 7 storageMode str, 8 volumeName str, 9 fsType str, 10 readOnly bool
StorageOSVolumeSource: 1 volumeName str, 2 volumeNamespace str, 3 fsType str, 4 readOnly bool,
    5 secretRef LocalObjectReference
CSIVolumeSource: 1 driver str, 2 readOnly bool?, 3 fsType str?, 4 volumeAttributes {str},
    5 nodePublishSecretRef LocalObjectReference
EphemeralVolumeSource: 1 volumeClaimTemplate PersistentVolumeClaimTemplate
PersistentVolumeClaimTemplate: 1 metadata ObjectMeta, 2 spec PersistentVolumeClaimSpec
PersistentVolumeClaimSpec: 1 accessModes [str], 2 resources VolumeResourceRequirements, 3 volumeName str,
    4 selector LabelSelector, 5 storageClassName str?, 6 volumeMode str?, 7 dataSource TypedLocalObjectReference,
    8 dataSourceRef TypedObjectReference, 9 volumeAttributesClassName str?
VolumeResourceRequirements: 1 limits {Quantity}, 2 requests {Quantity}
TypedLocalObjectReference!: 1 apiGroup str?, 2 kind str, 3 name str
TypedObjectReference: 1 apiGroup str?, 2 kind str, 3 name str, 4 namespace str?
ImageVolumeSource: 1 reference str, 2 pullPolicy str
Container: 1 name str, 2 image str, 3 command [str], 4 args [str], 5 workingDir str,
    6 ports [ContainerPort]@containerPort+protocol, 7 env [EnvVar]@name, 8 resources ResourceRequirements,
    9 volumeMounts [VolumeMount]@mountPath, 10 livenessProbe Probe, 11 readinessProbe Probe, 12 lifecycle Lifecycle,
    13 terminationMessagePath str, 14 imagePullPolicy str, 15 securityContext SecurityContext, 16 stdin bool,
    17 stdinOnce bool, 18 tty bool, 19 envFrom [EnvFromSource], 20 terminationMessagePolicy str,
    21 volumeDevices [VolumeDevice]@devicePath, 22 startupProbe Probe, 23 resizePolicy [ContainerResizePolicy],
    24 restartPolicy str?, - restartPolicyRules [Any]
ContainerPort: 1 name str, 2 hostPort int, 3 containerPort int, 4 protocol str, 5 hostIP str
EnvFromSource: 1 prefix str, 2 configMapRef ConfigMapEnvSource, 3 secretRef SecretEnvSource
ConfigMapEnvSource: 1 * LocalObjectReference, 2 optional bool?
SecretEnvSource: 1 * LocalObjectReference, 2 optional bool?
EnvVar: 1 name str, 2 value str, 3 valueFrom EnvVarSource
EnvVarSource: 1 fieldRef ObjectFieldSelector, 2 resourceFieldRef ResourceFieldSelector,
    3 configMapKeyRef ConfigMapKeySelector, 4 secretKeyRef SecretKeySelector, - fileKeyRef Any
ConfigMapKeySelector!: 1 * LocalObjectReference, 2 key str, 3 optional bool?
SecretKeySelector!: 1 * LocalObjectReference, 2 key str, 3 optional bool?
ResourceRequirements: 1 limits {Quantity}, 2 requests {Quantity}, 3 claims [ResourceClaim]@name
ResourceClaim: 1 name str, 2 request str
ContainerResizePolicy: 1 resourceName str, 2 restartPolicy str
VolumeMount: 1 name str, 2 readOnly bool, 3 mountPath str, 4 subPath str, 5 mountPropagation str?, 6 subPathExpr str,
    7 recursiveReadOnly str?
VolumeDevice: 1 name str, 2 devicePath str
Probe: 1 * ProbeHandler, 2 initialDelaySeconds int, 3 timeoutSeconds int, 4 periodSeconds int, 5 successThreshold int,
    6 failureThreshold int, 7 terminationGracePeriodSeconds int
ProbeHandler: 1 exec ExecAction, 2 httpGet HTTPGetAction, 3 tcpSocket TCPSocketAction, 4 grpc GRPCAction
ExecAction: 1 command [str]
HTTPGetAction: 1 path str, 2 port IntOrString, 3 host str, 4 scheme str, 5 httpHeaders [HTTPHeader]
HTTPHeader: 1 name str, 2 value str
TCPSocketAction: 1 port IntOrString, 2 host str
GRPCAction: 1 port int, 2 service str?
Lifecycle: 1 postStart LifecycleHandler, 2 preStop LifecycleHandler, 3 stopSignal str?
LifecycleHandler: 1 exec ExecAction, 2 httpGet HTTPGetAction, 3 tcpSocket TCPSocketAction, 4 sleep SleepAction
SleepAction: 1 seconds int?
SecurityContext: 1 capabilities Capabilities, 2 privileged bool?, 3 seLinuxOptions SELinuxOptions, 4 runAsUser int?,
    5 runAsNonRoot bool?, 6 readOnlyRootFilesystem bool?, 7 allowPrivilegeEscalation bool?, 8 runAsGroup int?,
    9 procMount str?, 10 windowsOptions WindowsSecurityContextOptions, 11 seccompProfile SeccompProfile,
    12 appArmorProfile AppArmorProfile
Capabilities: 1 add [str], 2 drop [str]
SELinuxOptions: 1 user str, 2 role str, 3 type str, 4 level str
WindowsSecurityContextOptions: 1 gmsaCredentialSpecName str?, 2 gmsaCredentialSpec str?, 3 runAsUserName str?,
    4 hostProcess bool?
SeccompProfile: 1 type str, 2 localhostProfile str?
AppArmorProfile: 1 type str, 2 localhostProfile str?
EphemeralContainer: 1 * EphemeralContainerCommon, 2 targetContainerName str
EphemeralContainerCommon: 1 name str, 2 image str, 3 command [str], 4 args [str], 5 workingDir str,
    6 ports [ContainerPort]@containerPort+protocol, 7 env [EnvVar]@name, 8 resources ResourceRequirements,
    9 volumeMounts [VolumeMount]@mountPath, 10 livenessProbe Probe, 11 readinessProbe Probe, 12 lifecycle Lifecycle,
    13 terminationMessagePath str, 14 imagePullPolicy str, 15 securityContext SecurityContext, 16 stdin bool,
    17 stdinOnce bool, 18 tty bool, 19 envFrom [EnvFromSource], 20 terminationMessagePolicy str,
    21 volumeDevices [VolumeDevice]@devicePath, 22 startupProbe Probe, 23 resizePolicy [ContainerResizePolicy],
    24 restartPolicy str?, - restartPolicyRules [Any]
PodSecurityContext: 1 seLinuxOptions SELinuxOptions, 2 runAsUser int?, 3 runAsNonRoot bool?,
    4 supplementalGroups [int], 5 fsGroup int?, 6 runAsGroup int?, 7 sysctls [Sysctl],
    8 windowsOptions WindowsSecurityContextOptions, 9 fsGroupChangePolicy str?, 10 seccompProfile SeccompProfile,
    11 appArmorProfile AppArmorProfile, 12 supplementalGroupsPolicy str?, 13 seLinuxChangePolicy str?
Sysctl: 1 name str, 2 value str
Affinity: 1 nodeAffinity NodeAffinity, 2 podAffinity PodAffinity, 3 podAntiAffinity PodAntiAffinity
NodeAffinity: 1 requiredDuringSchedulingIgnoredDuringExecution NodeSelector,
    2 preferredDuringSchedulingIgnoredDuringExecution [PreferredSchedulingTerm]
NodeSelector!: 1 nodeSelectorTerms [NodeSelectorTerm]
NodeSelectorTerm!: 1 matchExpressions [NodeSelectorRequirement], 2 matchFields [NodeSelectorRequirement]
NodeSelectorRequirement: 1 key str, 2 operator str, 3 values [str]
PreferredSchedulingTerm: 1 weight int?, 2 preference NodeSelectorTerm
PodAffinity: 1 requiredDuringSchedulingIgnoredDuringExecution [PodAffinityTerm],
    2 preferredDuringSchedulingIgnoredDuringExecution [WeightedPodAffinityTerm]
PodAffinityTerm: 1 labelSelector LabelSelector, 2 namespaces [str], 3 topologyKey str,
    4 namespaceSelector LabelSelector, 5 matchLabelKeys [str], 6 mismatchLabelKeys [str]
WeightedPodAffinityTerm: 1 weight int?, 2 podAffinityTerm PodAffinityTerm
PodAntiAffinity: 1 requiredDuringSchedulingIgnoredDuringExecution [PodAffinityTerm],
    2 preferredDuringSchedulingIgnoredDuringExecution [WeightedPodAffinityTerm]
Toleration: 1 key str, 2 operator str, 3 value str, 4 effect str, 5 tolerationSeconds int?
HostAlias: 1 ip str, 2 hostnames [str]
PodDNSConfig: 1 nameservers [str], 2 searches [str], 3 options [PodDNSConfigOption]
PodDNSConfigOption: 1 name str, 2 value str?
PodReadinessGate: 1 conditionType str
TopologySpreadConstraint: 1 maxSkew int, 2 topologyKey str, 3 whenUnsatisfiable str, 4 labelSelector LabelSelector,
    5 minDomains int?, 6 nodeAffinityPolicy str?, 7 nodeTaintsPolicy str?, 8 matchLabelKeys [str]
PodOS: 1 name str
PodSchedulingGate: 1 name str
PodResourceClaim: 1 name str, 3 resourceClaimName str?, 4 resourceClaimTemplateName str?
PodStatus: 1 phase str, 2 conditions [PodCondition]@type, 3 message str, 4 reason str, 5 hostIP str, 6 podIP str,
    7 startTime Time, 8 containerStatuses [ContainerStatus], 9 qosClass str,
    10 initContainerStatuses [ContainerStatus], 11 nominatedNodeName str, 12 podIPs [PodIP]@ip,
    13 ephemeralContainerStatuses [ContainerStatus], 14 resize str,
    15 resourceClaimStatuses [PodResourceClaimStatus]@name, 16 hostIPs [HostIP], 17 observedGeneration int,
    - resources ResourceRequirements, - allocatedResources {Quantity}, - extendedResourceClaimStatus Any,
    - nodeAllocatableResourceClaimStatuses [Any]
PodCondition: 1 type str, 2 status str, 3 lastProbeTime Time, 4 lastTransitionTime Time, 5 reason str, 6 message str,
    7 observedGeneration int
HostIP: 1 ip str
PodIP: 1 ip str
ContainerStatus: 1 name str, 2 state ContainerState, 3 lastState ContainerState, 4 ready bool?, 5 restartCount int?,
    6 image str, 7 imageID str, 8 containerID str, 9 started bool?, 10 allocatedResources {Quantity},
    11 resources ResourceRequirements, 12 volumeMounts [VolumeMountStatus], 13 user ContainerUser,
    14 allocatedResourcesStatus [ResourceStatus], 15 stopSignal str?
ContainerState: 1 waiting ContainerStateWaiting, 2 running ContainerStateRunning, 3 terminated ContainerStateTerminated
ContainerStateWaiting: 1 reason str, 2 message str
ContainerStateRunning: 1 startedAt Time
ContainerStateTerminated: 1 exitCode int?, 2 signal int, 3 reason str, 4 message str, 5 startedAt Time,
    6 finishedAt Time, 7 containerID str
VolumeMountStatus: 1 name str, 2 mountPath str, 3 readOnly bool, 4 recursiveReadOnly str?, - volumeStatus Any
ContainerUser: 1 linux LinuxContainerUser
LinuxContainerUser: 1 uid int, 2 gid int, 3 supplementalGroups [int]
ResourceStatus: 1 name str, 2 resources [ResourceHealth]
ResourceHealth: 1 resourceID str, 2 health str, - message str
PodResourceClaimStatus: 1 name str, 2 resourceClaimName str?
Node: 1 metadata ObjectMeta, 2 spec NodeSpec, 3 status NodeStatus
NodeSpec: 1 podCIDR str, 2 externalID str, 3 providerID str, 4 unschedulable bool, 5 taints [Taint],
    6 configSource NodeConfigSource, 7 podCIDRs [str]@
Taint: 1 key str, 2 value str, 3 effect str, 4 timeAdded Time
NodeConfigSource: 2 configMap ConfigMapNodeConfigSource
ConfigMapNodeConfigSource: 1 namespace str, 2 name str, 3 uid str, 4 resourceVersion str, 5 kubeletConfigKey str
NodeStatus: 1 capacity {Quantity}, 2 allocatable {Quantity}, 3 phase str, 4 conditions [NodeCondition]@type,
    5 addresses [NodeAddress]@type, 6 daemonEndpoints NodeDaemonEndpoints, 7 nodeInfo NodeSystemInfo,
    8 images [ContainerImage], 9 volumesInUse [str], 10 volumesAttached [AttachedVolume], 11 config NodeConfigStatus,
    12 runtimeHandlers [NodeRuntimeHandler], 13 features NodeFeatures, - declaredFeatures [str]
NodeCondition: 1 type str, 2 status str, 3 lastHeartbeatTime Time, 4 lastTransitionTime Time, 5 reason str,
    6 message str
NodeAddress: 1 type str, 2 address str
NodeDaemonEndpoints: 1 kubeletEndpoint DaemonEndpoint
DaemonEndpoint: 1 Port int
NodeSystemInfo: 1 machineID str, 2 systemUUID str, 3 bootID str, 4 kernelVersion str, 5 osImage str,
    6 containerRuntimeVersion str, 7 kubeletVersion str, 8 kubeProxyVersion str, 9 operatingSystem str,
    10 architecture str, 11 swap NodeSwapStatus
NodeSwapStatus: 1 capacity int?
ContainerImage: 1 names [str], 2 sizeBytes int
AttachedVolume: 1 name str, 2 devicePath str
NodeConfigStatus: 1 assigned NodeConfigSource, 2 active NodeConfigSource, 3 lastKnownGood NodeConfigSource, 4 error str
NodeRuntimeHandler: 1 name str, 2 features NodeRuntimeHandlerFeatures
NodeRuntimeHandlerFeatures: 1 recursiveReadOnlyMounts bool?, 2 userNamespaces bool?
NodeFeatures: 1 supplementalGroupsPolicy bool?
Namespace: 1 metadata ObjectMeta, 2 spec NamespaceSpec, 3 status NamespaceStatus
NamespaceSpec: 1 finalizers [str]
NamespaceStatus: 1 phase str, 2 conditions [NamespaceCondition]@type
NamespaceCondition: 1 type str, 2 status str, 4 lastTransitionTime Time, 5 reason str, 6 message str
Service: 1 metadata ObjectMeta, 2 spec ServiceSpec, 3 status ServiceStatus
ServiceSpec: 1 ports [ServicePort]@port+protocol, 2 selector {str}!, 3 clusterIP str, 4 type str, 5 externalIPs [str],
    7 sessionAffinity str, 8 loadBalancerIP str, 9 loadBalancerSourceRanges [str], 10 externalName str,
    11 externalTrafficPolicy str, 12 healthCheckNodePort int, 13 publishNotReadyAddresses bool,
    14 sessionAffinityConfig SessionAffinityConfig, 17 ipFamilyPolicy str?, 18 clusterIPs [str], 19 ipFamilies [str],
    20 allocateLoadBalancerNodePorts bool?, 21 loadBalancerClass str?, 22 internalTrafficPolicy str?,
    23 trafficDistribution str?
ServicePort: 1 name str, 2 protocol str, 3 port int, 4 targetPort IntOrString, 5 nodePort int, 6 appProtocol str?
SessionAffinityConfig: 1 clientIP ClientIPConfig
ClientIPConfig: 1 timeoutSeconds int?
ServiceStatus: 1 loadBalancer LoadBalancerStatus, 2 conditions [Condition]@type
LoadBalancerStatus: 1 ingress [LoadBalancerIngress]
LoadBalancerIngress: 1 ip str, 2 hostname str, 3 ipMode str, 4 ports [PortStatus]
PortStatus: 1 port int, 2 protocol str, 3 error str?
Condition: 1 type str, 2 status str, 3 observedGeneration int, 4 lastTransitionTime Time, 5 reason str, 6 message str
ReplicationController: 1 metadata ObjectMeta, 2 spec ReplicationControllerSpec, 3 status ReplicationControllerStatus
ReplicationControllerSpec: 1 replicas int?, 2 selector {str}!, 3 template PodTemplateSpec, 4 minReadySeconds int
PodTemplateSpec: 1 metadata ObjectMeta, 2 spec PodSpec
ReplicationControllerStatus: 1 replicas int?, 2 fullyLabeledReplicas int, 3 observedGeneration int,
    4 readyReplicas int, 5 availableReplicas int, 6 conditions [ReplicationControllerCondition]@type
ReplicationControllerCondition: 1 type str, 2 status str, 3 lastTransitionTime Time, 4 reason str, 5 message str
PersistentVolume: 1 metadata ObjectMeta, 2 spec PersistentVolumeSpec, 3 status PersistentVolumeStatus
PersistentVolumeSpec: 1 capacity {Quantity}, 2 * PersistentVolumeSource, 3 accessModes [str],
    4 claimRef ObjectReference, 5 persistentVolumeReclaimPolicy str, 6 storageClassName str, 7 mountOptions [str],
    8 volumeMode str?, 9 nodeAffinity VolumeNodeAffinity, 10 volumeAttributesClassName str?
PersistentVolumeSource: 1 gcePersistentDisk GCEPersistentDiskVolumeSource,
    2 awsElasticBlockStore AWSElasticBlockStoreVolumeSource, 3 hostPath HostPathVolumeSource,
    4 glusterfs GlusterfsPersistentVolumeSource, 5 nfs NFSVolumeSource, 6 rbd RBDPersistentVolumeSource,
    7 iscsi ISCSIPersistentVolumeSource, 8 cinder CinderPersistentVolumeSource, 9 cephfs CephFSPersistentVolumeSource,
    10 fc FCVolumeSource, 11 flocker FlockerVolumeSource, 12 flexVolume FlexPersistentVolumeSource,
    13 azureFile AzureFilePersistentVolumeSource, 14 vsphereVolume VsphereVirtualDiskVolumeSource,
    15 quobyte QuobyteVolumeSource, 16 azureDisk AzureDiskVolumeSource,
    17 photonPersistentDisk PhotonPersistentDiskVolumeSource, 18 portworxVolume PortworxVolumeSource,
    19 scaleIO ScaleIOPersistentVolumeSource, 20 local LocalVolumeSource, 21 storageos StorageOSPersistentVolumeSource,
    22 csi CSIPersistentVolumeSource
GlusterfsPersistentVolumeSource: 1 endpoints str, 2 path str, 3 readOnly bool, 4 endpointsNamespace str?
RBDPersistentVolumeSource: 1 monitors [str], 2 image str, 3 fsType str, 4 pool str, 5 user str, 6 keyring str,
    7 secretRef SecretReference, 8 readOnly bool
SecretReference!: 1 name str, 2 namespace str
ISCSIPersistentVolumeSource: 1 targetPortal str, 2 iqn str, 3 lun int, 4 iscsiInterface str, 5 fsType str,
    6 readOnly bool, 7 portals [str], 8 chapAuthDiscovery bool, 10 secretRef SecretReference, 11 chapAuthSession bool,
    12 initiatorName str?
CinderPersistentVolumeSource: 1 volumeID str, 2 fsType str, 3 readOnly bool, 4 secretRef SecretReference
CephFSPersistentVolumeSource: 1 monitors [str], 2 path str, 3 user str, 4 secretFile str, 5 secretRef SecretReference,
    6 readOnly bool
FlexPersistentVolumeSource: 1 driver str, 2 fsType str, 3 secretRef SecretReference, 4 readOnly bool, 5 options {str}
AzureFilePersistentVolumeSource: 1 secretName str, 2 shareName str, 3 readOnly bool, 4 secretNamespace str?
ScaleIOPersistentVolumeSource: 1 gateway str, 2 system str, 3 secretRef SecretReference, 4 sslEnabled bool,
    5 protectionDomain str, 6 storagePool str, 7 storageMode str, 8 volumeName str, 9 fsType str, 10 readOnly bool
LocalVolumeSource: 1 path str, 2 fsType str?
StorageOSPersistentVolumeSource: 1 volumeName str, 2 volumeNamespace str, 3 fsType str, 4 readOnly bool,
    5 secretRef ObjectReference
ObjectReference!: 1 kind str, 2 namespace str, 3 name str, 4 uid str, 5 apiVersion str, 6 resourceVersion str,
    7 fieldPath str
CSIPersistentVolumeSource: 1 driver str, 2 volumeHandle str, 3 readOnly bool, 4 fsType str, 5 volumeAttributes {str},
    6 controllerPublishSecretRef SecretReference, 7 nodeStageSecretRef SecretReference,
    8 nodePublishSecretRef SecretReference, 9 controllerExpandSecretRef SecretReference,
    10 nodeExpandSecretRef SecretReference
VolumeNodeAffinity: 1 required NodeSelector
PersistentVolumeStatus: 1 phase str, 2 message str, 3 reason str, 4 lastPhaseTransitionTime Time
PersistentVolumeClaim: 1 metadata ObjectMeta, 2 spec PersistentVolumeClaimSpec, 3 status PersistentVolumeClaimStatus
PersistentVolumeClaimStatus: 1 phase str, 2 accessModes [str], 3 capacity {Quantity},
    4 conditions [PersistentVolumeClaimCondition]@type, 5 allocatedResources {Quantity},
    7 allocatedResourceStatuses {str}, 8 currentVolumeAttributesClassName str, 9 modifyVolumeStatus ModifyVolumeStatus
PersistentVolumeClaimCondition: 1 type str, 2 status str, 3 lastProbeTime Time, 4 lastTransitionTime Time,
    5 reason str, 6 message str
ModifyVolumeStatus: 1 targetVolumeAttributesClassName str, 2 status str
ConfigMap: 1 metadata ObjectMeta, 2 data {str}, 3 binaryData {bytes}, 4 immutable bool?
Secret: 1 metadata ObjectMeta, 2 data {bytes}, 3 type str, 4 stringData {str}, 5 immutable bool?
ServiceAccount: 1 metadata ObjectMeta, 2 secrets [ObjectReference]@name, 3 imagePullSecrets [LocalObjectReference],
    4 automountServiceAccountToken bool?
Event: 1 metadata ObjectMeta, 2 involvedObject ObjectReference, 3 reason str, 4 message str, 5 source EventSource,
    6 firstTimestamp Time, 7 lastTimestamp Time, 8 count int, 9 type str, 10 eventTime MicroTime,
    11 series EventSeries, 12 action str, 13 related ObjectReference, 14 reportingComponent str,
    15 reportingInstance str
EventSource: 1 component str, 2 host str
EventSeries: 1 count int, 2 lastObservedTime MicroTime
Binding: 1 metadata ObjectMeta, 2 target ObjectReference
events.Event: 1 metadata ObjectMeta, 2 eventTime MicroTime, 3 series events.EventSeries, 4 reportingController str,
    5 reportingInstance str, 6 action str, 7 reason str, 8 regarding ObjectReference, 9 related ObjectReference,
    10 note str, 11 type str, 12 deprecatedSource EventSource, 13 deprecatedFirstTimestamp Time,
    14 deprecatedLastTimestamp Time, 15 deprecatedCount int
events.EventSeries: 1 count int, 2 lastObservedTime MicroTime
ReplicaSet: 1 metadata ObjectMeta, 2 spec ReplicaSetSpec, 3 status ReplicaSetStatus
ReplicaSetSpec: 1 replicas int?, 2 selector LabelSelector, 3 template PodTemplateSpec, 4 minReadySeconds int
ReplicaSetStatus: 1 replicas int?, 2 fullyLabeledReplicas int, 3 observedGeneration int, 4 readyReplicas int,
    5 availableReplicas int, 6 conditions [ReplicaSetCondition]@type, 7 terminatingReplicas int
ReplicaSetCondition: 1 type str, 2 status str, 3 lastTransitionTime Time, 4 reason str, 5 message str
Deployment: 1 metadata ObjectMeta, 2 spec DeploymentSpec, 3 status DeploymentStatus
DeploymentSpec: 1 replicas int?, 2 selector LabelSelector, 3 template PodTemplateSpec, 4 strategy DeploymentStrategy,
    5 minReadySeconds int, 6 revisionHistoryLimit int?, 7 paused bool, 9 progressDeadlineSeconds int?
DeploymentStrategy: 1 type str, 2 rollingUpdate RollingUpdateDeployment
RollingUpdateDeployment: 1 maxUnavailable IntOrString, 2 maxSurge IntOrString
DeploymentStatus: 1 observedGeneration int, 2 replicas int, 3 updatedReplicas int, 4 availableReplicas int,
    5 unavailableReplicas int, 6 conditions [DeploymentCondition]@type, 7 readyReplicas int, 8 collisionCount int?,
    9 terminatingReplicas int?
DeploymentCondition: 1 type str, 2 status str, 4 reason str, 5 message str, 6 lastUpdateTime Time,
    7 lastTransitionTime Time
StatefulSet: 1 metadata ObjectMeta, 2 spec StatefulSetSpec, 3 status StatefulSetStatus
StatefulSetSpec: 1 replicas int?, 2 selector LabelSelector, 3 template PodTemplateSpec,
    4 volumeClaimTemplates [PersistentVolumeClaim], 5 serviceName str, 6 podManagementPolicy str,
    7 updateStrategy StatefulSetUpdateStrategy, 8 revisionHistoryLimit int?, 9 minReadySeconds int,
    10 persistentVolumeClaimRetentionPolicy StatefulSetPersistentVolumeClaimRetentionPolicy,
    11 ordinals StatefulSetOrdinals
StatefulSetUpdateStrategy: 1 type str, 2 rollingUpdate RollingUpdateStatefulSetStrategy
RollingUpdateStatefulSetStrategy: 1 partition int?, 2 maxUnavailable IntOrString
StatefulSetPersistentVolumeClaimRetentionPolicy: 1 whenDeleted str, 2 whenScaled str
StatefulSetOrdinals: 1 start int
StatefulSetStatus: 1 observedGeneration int, 2 replicas int?, 3 readyReplicas int, 4 currentReplicas int,
    5 updatedReplicas int, 6 currentRevision str, 7 updateRevision str, 9 collisionCount int?,
    10 conditions [StatefulSetCondition]@type, 11 availableReplicas int?
StatefulSetCondition: 1 type str, 2 status str, 3 lastTransitionTime Time, 4 reason str, 5 message str
DaemonSet: 1 metadata ObjectMeta, 2 spec DaemonSetSpec, 3 status DaemonSetStatus
DaemonSetSpec: 1 selector LabelSelector, 2 template PodTemplateSpec, 3 updateStrategy DaemonSetUpdateStrategy,
    4 minReadySeconds int, 6 revisionHistoryLimit int?
DaemonSetUpdateStrategy: 1 type str, 2 rollingUpdate RollingUpdateDaemonSet
RollingUpdateDaemonSet: 1 maxUnavailable IntOrString, 2 maxSurge IntOrString
DaemonSetStatus: 1 currentNumberScheduled int?, 2 numberMisscheduled int?, 3 desiredNumberScheduled int?,
    4 numberReady int?, 5 observedGeneration int, 6 updatedNumberScheduled int, 7 numberAvailable int,
    8 numberUnavailable int, 9 collisionCount int?, 10 conditions [DaemonSetCondition]@type
DaemonSetCondition: 1 type str, 2 status str, 3 lastTransitionTime Time, 4 reason str, 5 message str
ControllerRevision: 1 metadata ObjectMeta, 2 data Raw, 3 revision int
Job: 1 metadata ObjectMeta, 2 spec JobSpec, 3 status JobStatus
JobSpec: 1 parallelism int?, 2 completions int?, 3 activeDeadlineSeconds int?, 4 selector LabelSelector,
    5 manualSelector bool?, 6 template PodTemplateSpec, 7 backoffLimit int?, 8 ttlSecondsAfterFinished int?,
    9 completionMode str?, 10 suspend bool?, 11 podFailurePolicy PodFailurePolicy, 12 backoffLimitPerIndex int?,
    13 maxFailedIndexes int?, 14 podReplacementPolicy str?, 15 managedBy str?, 16 successPolicy SuccessPolicy
PodFailurePolicy: 1 rules [PodFailurePolicyRule]
PodFailurePolicyRule: 1 action str, 2 onExitCodes PodFailurePolicyOnExitCodesRequirement,
    3 onPodConditions [PodFailurePolicyOnPodConditionsPattern]
PodFailurePolicyOnExitCodesRequirement: 1 containerName str?, 2 operator str, 3 values [int]
PodFailurePolicyOnPodConditionsPattern: 1 type str, 2 status str
SuccessPolicy: 1 rules [SuccessPolicyRule]
SuccessPolicyRule: 1 succeededIndexes str?, 2 succeededCount int?
JobStatus: 1 conditions [JobCondition], 2 startTime Time, 3 completionTime Time, 4 active int, 5 succeeded int,
    6 failed int, 7 completedIndexes str, 8 uncountedTerminatedPods UncountedTerminatedPods, 9 ready int?,
    10 failedIndexes str?, 11 terminating int?
JobCondition: 1 type str, 2 status str, 3 lastProbeTime Time, 4 lastTransitionTime Time, 5 reason str, 6 message str
UncountedTerminatedPods: 1 succeeded [str], 2 failed [str]
PodDisruptionBudget: 1 metadata ObjectMeta, 2 spec PodDisruptionBudgetSpec, 3 status PodDisruptionBudgetStatus
PodDisruptionBudgetSpec: 1 minAvailable IntOrString, 2 selector LabelSelector, 3 maxUnavailable IntOrString,
    4 unhealthyPodEvictionPolicy str?
PodDisruptionBudgetStatus: 1 observedGeneration int, 2 disruptedPods {Time}, 3 disruptionsAllowed int?,
    4 currentHealthy int?, 5 desiredHealthy int?, 6 expectedPods int?, 7 conditions [Condition]@type
Eviction: 1 metadata ObjectMeta, 2 deleteOptions DeleteOptions
DeleteOptions: 1 gracePeriodSeconds int?, 2 preconditions Preconditions, 3 orphanDependents bool?,
    4 propagationPolicy str?, 5 dryRun [str], 6 ignoreStoreReadErrorWithClusterBreakingPotential bool?
Preconditions: 1 uid str?, 2 resourceVersion str?
PriorityClass: 1 metadata ObjectMeta, 2 value int?, 3 globalDefault bool, 4 description str, 5 preemptionPolicy str?
StorageClass: 1 metadata ObjectMeta, 2 provisioner str, 3 parameters {str}, 4 reclaimPolicy str?, 5 mountOptions [str],
    6 allowVolumeExpansion bool?, 7 volumeBindingMode str?, 8 allowedTopologies [TopologySelectorTerm]
TopologySelectorTerm!: 1 matchLabelExpressions [TopologySelectorLabelRequirement]
TopologySelectorLabelRequirement: 1 key str, 2 values [str]
CSINode: 1 metadata ObjectMeta, 2 spec CSINodeSpec
CSINodeSpec: 1 drivers [CSINodeDriver]@name
CSINodeDriver: 1 name str, 2 nodeID str, 3 topologyKeys [str], 4 allocatable VolumeNodeResources
VolumeNodeResources: 1 count int?
CSIDriver: 1 metadata ObjectMeta, 2 spec CSIDriverSpec
CSIDriverSpec: 1 attachRequired bool?, 2 podInfoOnMount bool?, 3 volumeLifecycleModes [str]@, 4 storageCapacity bool?,
    5 fsGroupPolicy str?, 6 tokenRequests [TokenRequest], 7 requiresRepublish bool?, 8 seLinuxMount bool?,
    9 nodeAllocatableUpdatePeriodSeconds int?, - preventPodSchedulingIfMissing bool?,
    - serviceAccountTokenInSecrets bool?
TokenRequest: 1 audience str, 2 expirationSeconds int?
CSIStorageCapacity: 1 metadata ObjectMeta, 2 nodeTopology LabelSelector, 3 storageClassName str, 4 capacity Quantity,
    5 maximumVolumeSize Quantity
VolumeAttachment: 1 metadata ObjectMeta, 2 spec VolumeAttachmentSpec, 3 status VolumeAttachmentStatus
VolumeAttachmentSpec: 1 attacher str, 2 source VolumeAttachmentSource, 3 nodeName str
VolumeAttachmentSource: 1 persistentVolumeName str?, 2 inlineVolumeSpec PersistentVolumeSpec
VolumeAttachmentStatus: 1 attached bool?, 2 attachmentMetadata {str}, 3 attachError VolumeError,
    4 detachError VolumeError
VolumeError: 1 time Time, 2 message str, 3 errorCode int
Lease: 1 metadata ObjectMeta, 2 spec LeaseSpec
LeaseSpec: 1 holderIdentity str?, 2 leaseDurationSeconds int?, 3 acquireTime MicroTime, 4 renewTime MicroTime,
    5 leaseTransitions int?, 6 strategy str?, 7 preferredHolder str?
Scale: 1 metadata ObjectMeta, 2 spec ScaleSpec, 3 status ScaleStatus
ScaleSpec: 1 replicas int
ScaleStatus: 1 replicas int?, 2 selector str
"""
