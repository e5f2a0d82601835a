"""The binaries of a whole control plane, or a skip with the one clear line."""

import pytest

from tests.conformance.find import Binaries, NotFoundError, require


@pytest.fixture(scope="session")
def binaries() -> Binaries:
    try:
        found = require()
    except NotFoundError as error:
        pytest.skip(str(error))
    if found.kube_controller_manager is None or found.kube_scheduler is None:
        pytest.skip(f"no kube-controller-manager and kube-scheduler beside {found.kube_apiserver}")
    return found
