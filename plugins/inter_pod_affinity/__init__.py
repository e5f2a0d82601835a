"""InterPodAffinity: pods that want to be near others, or far from them, and what running pods want of newcomers."""

from plugins.inter_pod_affinity.plugin import InterPodAffinity

__all__ = ["InterPodAffinity"]
