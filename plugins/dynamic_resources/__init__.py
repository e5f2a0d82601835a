"""Dynamic Resource Allocation: devices for pods. The package's one public name is the plugin."""

from plugins.dynamic_resources.plugin import DynamicResources

__all__ = ["DynamicResources"]
