"""Hollow kubelets: they do all that a kubelet does except run anything. Start at `hollow.py`.

hollow.py        all nodes of a server: who hears of which pod, failing and recovering nodes
sync_loop.py     one node: what to do about config, lifecycle, ticker and housekeeping events
pod_workers.py   one pod: start, restart, terminate, always by its newest state
claims.py        a pod's claims on devices, prepared before it starts
admission.py     may the pod start here?          runtime.py     the containers, as timers
pod_status.py    what the API is told of a pod    heartbeats.py  Leases and node status
timers.py        one clock for all of it
"""
