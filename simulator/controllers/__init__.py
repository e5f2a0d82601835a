"""The controllers of the embedded cluster: what kube-controller-manager does, small. Start at `manager.py`.

    store events ──► Informer (index) ──► handlers ──► WorkQueue ──► sync(key) ──► Api ──► store

Each controller has the structure of the real one (informers, a rate-limited work queue, a `sync` that brings one object
nearer to what it should be) and runs in the API server's process. A sync never awaits, so it is atomic; between two of
them the event loop has its turn. Controllers know the API, never each other, the kubelet or the command line.
"""
