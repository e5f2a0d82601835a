"""Cluster IPs and node ports of Services, given out at creation and never twice.

Nothing behind them listens: they are there because clients look at them. Reads the store, never writes it; the service
handed in is changed in place, for the caller owns it.
"""

from collections.abc import Iterator
from ipaddress import IPv4Network

from simulator.apiserver.errors import Object
from simulator.apiserver.store import Store
from simulator.apiserver.watch_cache import View

CLUSTER_NETWORK = IPv4Network("10.96.0.0/16")
_NODE_PORTS = range(30000, 32768)
_WITH_NODE_PORTS = ("NodePort", "LoadBalancer")
# Of an update that says nothing about them, as `kubectl replace` sends it.
_KEPT = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")


def allocate(store: Store, service: Object) -> None:
    """Give a new service what it has not chosen itself."""
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return
    others = [revision.obj["spec"] for revision in store.collection("services").seen(View())]
    if not spec.get("clusterIP"):
        taken = {other.get("clusterIP") for other in others}
        spec["clusterIP"] = next(address for address in _addresses() if address not in taken)
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec.get("type") in _WITH_NODE_PORTS:
        spec.setdefault("externalTrafficPolicy", "Cluster")
        _allocate_ports(spec, others)


def keep(service: Object, old: Object) -> None:
    """Let an updated service keep the addresses that it does not mention."""
    if service["spec"].get("type") != "ExternalName":
        for key in _KEPT:
            if not service["spec"].get(key) and old["spec"].get(key):
                service["spec"][key] = old["spec"][key]


def _addresses() -> Iterator[str]:
    return (str(address) for address in CLUSTER_NETWORK.hosts())


def _allocate_ports(spec: Object, others: list[Object]) -> None:
    taken = {port.get("nodePort") for other in others for port in other.get("ports") or ()}
    free = (port for port in _NODE_PORTS if port not in taken)
    for port in spec.get("ports") or ():
        if not port.get("nodePort"):
            port["nodePort"] = next(free)
