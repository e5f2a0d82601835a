"""The real kube-controller-manager with a few of its controllers, for tests in which podium works together with them.

Started beside a `ControlPlane` by the conformance tests; serves its health on loopback and has the admin's rights.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tests.conformance.find import NotFoundError
from tests.conformance.server import Server
from tests.conformance.start import LOOPBACK, ControlPlane, free_ports

VOLUMES = "persistentvolume-binder"


def _command(plane: ControlPlane, controllers: Sequence[str], port: int) -> list[str]:
    binary = plane.binaries.kube_controller_manager
    if binary is None:
        raise NotFoundError(f"no kube-controller-manager beside {plane.binaries.kube_apiserver}")
    return [
        str(binary),
        f"--kubeconfig={plane.kubeconfig()}",
        f"--controllers={','.join(controllers)}",
        "--leader-elect=false",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--cert-dir={plane.folder}",
        "--pvclaimbinder-sync-period=1s",
        # It served plain HTTP on all interfaces, unless told otherwise, until that was removed.
        *(["--port=0"] if plane.version < (1, 24) else []),
    ]


@asynccontextmanager
async def controller_manager(plane: ControlPlane, *controllers: str) -> AsyncIterator[Server]:
    """The real controllers of these names, at work. Raises NotFoundError where there is no such program."""
    [port] = free_ports(1)
    log = plane.folder / f"kube-controller-manager-{port}.log"
    server = Server("kube-controller-manager", _command(plane, controllers, port), log)
    server.start()
    try:
        yield server
        server.must_run()
    finally:
        server.kill_now()
