"""The in-tree plugins, one module each, and their registry.

A plugin knows the framework and the snapshot, never the machinery.
"""
