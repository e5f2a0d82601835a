"""Coscheduling: gangs by label and custom resource, as the scheduler-plugins project has them (facts B6)."""

from plugins.coscheduling.plugin import Coscheduling

__all__ = ["Coscheduling"]
