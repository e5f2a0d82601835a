"""Podium against a real etcd and kube-apiserver."""
