"""`python -m tests.conformance.control_plane`: makes sure that a real control plane can be started here.

Called by `make control-plane`. Finds the binaries or builds them into the cache; ends with one line either way,
exit 1 where it can do neither. Starts no server.
"""

import sys

from tests.conformance.build import VERSION, BuildError, build, fetch_kubectl
from tests.conformance.find import HELP, Binaries, NotFoundError, cache, find, require


def find_or_build() -> Binaries:
    """The binaries that are here, else those of Debian's source package."""
    found = find()
    if found is not None:
        return found
    try:
        build(cache() / "build", cache() / VERSION)
    except (BuildError, OSError) as error:
        raise NotFoundError(f"no etcd and kube-apiserver found, and none built: {error}; {HELP}") from error
    return require()


def main() -> int:
    """Exit code of the command."""
    try:
        binaries = find_or_build()
        version = "{}.{}".format(*binaries.kubernetes_version())
    except NotFoundError as error:
        print(f"control plane: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("control plane: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    print(f"control plane: Kubernetes {version} from {binaries.origin}: {binaries.kube_apiserver.parent}")
    _fetch_kubectl()
    return 0


def _fetch_kubectl() -> None:
    """An old client is good to have, and no condition: where there is none, the newer ones are tried alone."""
    try:
        fetch_kubectl(cache() / "kubectl", cache() / VERSION)
    except (BuildError, OSError) as error:
        print(f"control plane: no kubectl {VERSION}: {error}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
