"""Loaders: files of any kind become typed API objects, as an API server and its controllers would have made them."""

from simulator.load.cluster_objects import ClusterObjects, load, load_pods
from simulator.load.problems import LoadError

__all__ = ["ClusterObjects", "LoadError", "load", "load_pods"]
