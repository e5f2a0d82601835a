"""PodTopologySpread: pods of a group spread evenly over the domains of a topology key."""

from plugins.pod_topology_spread.plugin import PodTopologySpread

__all__ = ["PodTopologySpread"]
