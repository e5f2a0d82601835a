"""Preemption: which pods of lower priority to evict from one node, so that a pod fits there (facts 2.8).

candidates  the nodes where eviction makes room, found by a walk from a random start
prospects   what is known of the nodes before any is tried
dry_run     one node: which victims, by asking the filters about a clone of it
room        the same by arithmetic, for all nodes at once, where free amounts are all that is lacking
budgets     which pods PodDisruptionBudgets protect
choice      the best of the candidates
execution   evicting the victims, beside the scheduling cycle
evaluator   puts these together for one profile; plugins use this one only
"""
