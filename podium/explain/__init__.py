"""Explain: why a pod is where it is, or nowhere, and what would change that.

view       the engine, asked without consequences
causes     who refused which nodes and why (label_causes, pod_causes, volume_causes)
changes    what would answer one refusal; nearest checks it by the engine
verdict    the one sentence
explain    puts these together into a document (documents), for a screen, an endpoint or a file
sources    from files, from a running podium, from the cluster
reasons    the same as labels of a metric
"""
