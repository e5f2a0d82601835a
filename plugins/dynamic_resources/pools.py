"""Resource pools: which devices a node can use, and in what state the pools behind them are (facts A3, "Pools").

`SliceIndex` keeps the slices by pool and pools by node. `gather` puts a node's pools together; its answer holds until
a slice of one of them or the node's labels change (`manager` keeps it that long).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kube.api.quantity import nanos
from kube.api.resource import ResourceSlice
from plugins.dynamic_resources.devices import CounterKey, DeviceView, PoolId, SliceView
from plugins.dynamic_resources.features import Features


@dataclass(slots=True)
class Pool:
    """A pool as one node sees it."""

    id: PoolId
    #: devices on slices for this node, in the order in which they are tried
    devices: tuple[DeviceView, ...] = ()
    incomplete: bool = False
    invalid: bool = False
    #: what all devices of the pool share
    counters: Mapping[CounterKey, int] = field(default_factory=dict)
    #: devices of the whole pool, other nodes' included, that take from the counters
    consumers: tuple[DeviceView, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether devices may be taken from it."""
        return not self.incomplete and not self.invalid


class SliceIndex:
    """ResourceSlices by pool, and pools by the nodes they concern. Owner: the manager."""

    def __init__(self, features: Features) -> None:
        self._features = features
        self._slices: dict[str, SliceView] = {}
        self._pools: dict[PoolId, dict[str, SliceView]] = {}
        #: node -> pools that have a slice for it alone
        self._of_node: dict[str, set[PoolId]] = {}
        #: pools with a slice that may concern any node
        self._shared: set[PoolId] = set()

    def put(self, resource_slice: ResourceSlice) -> tuple[PoolId, ...]:
        """Store a slice; the pools that changed."""
        name = resource_slice.metadata.name
        known = self._slices.get(name)
        if known is not None and known.object.spec == resource_slice.spec:
            return ()
        touched = self.remove(name)
        view = self._slices[name] = SliceView(resource_slice)
        self._pools.setdefault(view.pool, {})[name] = view
        self._place(view.pool)
        return tuple(dict.fromkeys((*touched, view.pool)))

    def remove(self, name: str) -> tuple[PoolId, ...]:
        """Forget a slice; the pools that changed."""
        view = self._slices.pop(name, None)
        if view is None:
            return ()
        slices = self._pools[view.pool]
        del slices[name]
        if view.only_node is not None:
            pools = self._of_node.get(view.only_node, set())
            pools.discard(view.pool)
            if not pools:
                self._of_node.pop(view.only_node, None)
        self._place(view.pool)
        if not slices:
            del self._pools[view.pool]
        return (view.pool,)

    def pools_of_slice(self, name: str) -> tuple[PoolId, ...]:
        """The pool a known slice is in."""
        view = self._slices.get(name)
        return () if view is None else (view.pool,)

    def _place(self, pool: PoolId) -> None:
        shared = False
        for view in self._pools[pool].values():
            if view.only_node is None:
                shared = True
            else:
                self._of_node.setdefault(view.only_node, set()).add(pool)
        (self._shared.add if shared else self._shared.discard)(pool)

    def nodes_of(self, pool: PoolId) -> set[str] | None:
        """The nodes that see this pool; None: any may."""
        if pool in self._shared:
            return None
        return {view.only_node for view in self._pools.get(pool, {}).values() if view.only_node is not None}

    def nodes_of_devices(self, pool: PoolId) -> set[str] | None:
        """The nodes for which it matters which of the pool's devices are in use; None: any."""
        names = set()
        for view in self._pools.get(pool, {}).values():
            if view.has_counters:
                continue
            if view.only_node is None:
                return None
            names.add(view.only_node)
        return names

    def gather(self, node_name: str, labels: Mapping[str, str]) -> tuple[Pool, ...]:
        """The node's pools in the order in which they are searched; those with binding conditions come last."""
        candidates = self._shared | self._of_node.get(node_name, set())
        pools = (self._pool(pool, node_name, labels) for pool in sorted(candidates))
        return tuple(sorted((pool for pool in pools if pool is not None), key=self._waits))

    def _waits(self, pool: Pool) -> bool:
        return self._features.binding_conditions and any(device.body.binding_conditions for device in pool.devices)

    def _pool(self, pool_id: PoolId, node_name: str, labels: Mapping[str, str]) -> Pool | None:
        every = [self._pools[pool_id][name] for name in sorted(self._pools[pool_id])]
        if not self._features.partitionable_devices:
            every = [view for view in every if not view.per_device and not view.has_counters]
        relevant = [view for view in every if view.has_counters or view.is_for(node_name, labels)]
        if not relevant:
            return None
        generation = max(view.generation for view in relevant)
        relevant = [view for view in relevant if view.generation == generation]
        wanted = relevant[0].spec.pool.resource_slice_count
        if len(relevant) != wanted and any(view.generation > generation for view in every):
            # The driver is replacing this generation, and the next one has nothing for this node yet.
            return None
        current = [view for view in every if view.generation == generation]
        pool = Pool(pool_id, tuple(device for view in relevant for device in view.devices))
        pool.incomplete = len(relevant) != wanted and len(current) != wanted
        _add_counters(pool, current)
        pool.invalid = pool.invalid or _repeats(device.id for device in pool.devices)
        return pool


def _add_counters(pool: Pool, slices: list[SliceView]) -> None:
    sets = [counter_set for view in slices for counter_set in view.spec.shared_counters]
    pool.counters = {
        (each.name, name): nanos(counter.value or "0") for each in sets for name, counter in each.counters.items()
    }
    pool.consumers = tuple(device for view in slices for device in view.devices if device.counters)
    names = {each.name for each in sets}
    pool.invalid = len(names) != len(sets) or any(
        consumption.counter_set not in names
        for device in pool.consumers
        for consumption in device.body.consumes_counters
    )
    pool.invalid = pool.invalid or any(
        key not in pool.counters for device in pool.consumers for key, _ in device.counters
    )


def _repeats(items: Iterable[object]) -> bool:
    seen = list(items)
    return len(set(seen)) != len(seen)
