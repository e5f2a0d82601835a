"""Hollow kubelets: they report pods as running and run nothing. Start at `hollow.py`."""
