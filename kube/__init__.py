"""Kubernetes itself: typed objects (`kube.api`) and the client (`kube.client`). Knows nothing of scheduling."""
