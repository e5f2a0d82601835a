"""Schedules of CronJobs: whether one is written as it should be, and when it is due. The one user of croniter.

Five fields, or a word such as `@hourly`; in UTC unless a time zone is named. Pure functions.
"""

from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from croniter import CroniterError, croniter  # type: ignore[import-untyped]

from simulator.apiserver.errors import Cause, invalid_value, required

_FIELDS = 5


def problem_of(schedule: str, zone: str | None) -> Cause | None:
    """Give what is wrong with a schedule or its time zone."""
    if not schedule:
        return required("schedule")
    fields = schedule.split()
    if not croniter.is_valid(schedule) or not (schedule.startswith("@") or len(fields) == _FIELDS):
        return invalid_value("schedule", schedule, "five fields, or a word such as @hourly, are expected")
    if zone is not None:
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError):
            return invalid_value("timeZone", zone, f"unknown time zone {zone}")
    return None


def next_after(schedule: str, zone: str | None, moment: datetime) -> datetime | None:
    """Give the first time that is due after a moment; None for one that never comes (30 February)."""
    try:
        found: datetime = croniter(schedule, moment.astimezone(ZoneInfo(zone or "UTC"))).get_next(datetime)
    except CroniterError:
        return None
    return found
