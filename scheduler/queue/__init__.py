"""The scheduling queue: pods that wait for a node."""
