"""Typed API objects and the rules of Kubernetes that concern single objects: quantities, selectors, tolerations."""
