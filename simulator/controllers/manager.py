"""All controllers of a cluster, with the informers that they share: built, run and stopped together.

    manager = ControllerManager(server)
    manager.start()                  # informers; the handlers fill the queues
    group.create_task(manager.run()) # until `stop`

Owner: `Cluster`, or a test.
"""

import asyncio
from dataclasses import dataclass

from simulator.apiserver.server import ApiServer
from simulator.controllers.api import Api
from simulator.controllers.controller import Context, Controller
from simulator.controllers.cron_job import CronJobController
from simulator.controllers.daemon_set import DaemonSetController
from simulator.controllers.deployment import DeploymentController
from simulator.controllers.device_driver import DeviceDriver
from simulator.controllers.disruption import DisruptionController
from simulator.controllers.ephemeral_volumes import EphemeralVolumeController
from simulator.controllers.garbage_collector import GarbageCollector
from simulator.controllers.informer import Informers
from simulator.controllers.job import JobController
from simulator.controllers.node_lifecycle import NodeLifecycleController, TaintEvictionController
from simulator.controllers.pod_gc import PodGarbageCollector
from simulator.controllers.pod_groups import PodGroupController
from simulator.controllers.provisioner import Provisioner
from simulator.controllers.replica_set import ReplicaSetController
from simulator.controllers.replication_controller import ReplicationControllerController
from simulator.controllers.resource_claims import ResourceClaimController
from simulator.controllers.revisions import serve as serve_revisions
from simulator.controllers.stateful_set import StatefulSetController
from simulator.controllers.volume_protection import VolumeProtectionController
from simulator.controllers.volumes import VolumeController


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be chosen. `lag`: how late informers learn of everything. Times in seconds."""

    lag: float = 0.0
    events: bool = True
    provisioning_delay: float = 0.0
    device_delay: float = 0.0
    node_grace: float = 50.0
    node_period: float = 5.0


class ControllerManager:
    """kube-controller-manager, small."""

    def __init__(self, server: ApiServer, settings: Settings | None = None) -> None:
        chosen = settings or Settings()
        serve_revisions(server)
        self.informers = Informers(server, chosen.lag)
        context = Context(Api(server), self.informers, chosen.events)
        self.provisioner = Provisioner(context, chosen.provisioning_delay)
        self.device_driver = DeviceDriver(context, prepare_seconds=chosen.device_delay)
        self.garbage_collector = GarbageCollector(context)
        self.controllers: tuple[Controller, ...] = (
            DeploymentController(context),
            ReplicaSetController(context),
            ReplicationControllerController(context),
            StatefulSetController(context),
            DaemonSetController(context),
            JobController(context),
            CronJobController(context),
            self.garbage_collector,
            DisruptionController(context),
            VolumeController(context),
            VolumeProtectionController(context),
            self.provisioner,
            EphemeralVolumeController(context),
            ResourceClaimController(context),
            self.device_driver,
            NodeLifecycleController(context, grace=chosen.node_grace, period=chosen.node_period),
            TaintEvictionController(context),
            PodGarbageCollector(context),
            PodGroupController(context),
        )

    def start(self) -> None:
        """Take in what there is and follow the store from now on; needs a running event loop."""
        self.informers.start()
        self.garbage_collector.start()

    async def run(self) -> None:
        """Work until `stop`."""
        async with asyncio.TaskGroup() as group:
            for controller in self.controllers:
                group.create_task(controller.run(), name=f"controller {controller.name}")

    def stop(self) -> None:
        """Follow nothing any more; `run` returns."""
        self.informers.stop()
        for controller in self.controllers:
            controller.stop()

    @property
    def failures(self) -> int:
        """How often a sync failed by a bug."""
        return sum(controller.failures for controller in self.controllers)
