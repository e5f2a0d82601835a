"""What if: questions about a cluster that is changed on paper, answered by the engine.

cluster_changes  nodes drained, removed and added
capacity         how many copies of pods fit, how many nodes a workload needs
compare          the same pods under two configurations
from_cluster     the objects of a live cluster, read once
snapshot         a dump of them, and the same without names
"""
