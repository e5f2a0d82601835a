"""What a pod's group waits for: which members are missing, and which of those that are there do not fit.

Asks the scheduler's own group cycle, as a rehearsal: the members are placed together on the snapshot and taken off it
again. Used by `explain`; synchronous, and without consequences.
"""

from __future__ import annotations

from collections.abc import Iterator

from kube.api.core import Pod
from plugins.coscheduling import Coscheduling
from plugins.coscheduling.groups import LABEL, CoschedulingGroups
from plugins.coscheduling.groups import group_of as label_group
from podium.explain.amounts import listed, plural
from podium.explain.documents import MAX_NAMES, Group, GroupMember
from podium.explain.view import View
from scheduler.framework.pod_groups import Group as PodGroup
from scheduler.framework.pod_groups import Groups, Members, PodGroups, group_key
from scheduler.pod_group_cycle import PodGroupCycle
from scheduler.pod_group_trial import GroupAttempt, Member, Outcome
from scheduler.snapshot.pod_info import PodInfo


def group_of(view: View, pod: Pod, most: int | None = None) -> Group | None:
    """The group of a pod that waits; None where groups mean nothing, or the pod has none.

    A group with more than `most` members to try is not tried: what its condition says has to do.
    """
    key = group_key(pod) if any(view.handle.gate(name) for name in ("GenericWorkload", "GangScheduling")) else ""
    if not key:
        return _by_label(view, pod, most)
    members = view.snapshot.index(PodGroups).of(key)
    name = Groups.name_of(pod)
    group = Groups(view.handle).of(pod)
    if group is None:
        text = f'it waits for its pod group "{name}", which does not exist'
        return Group(name=name, min_count=0, known=members.count, running=0, fitting=0, text=text)
    waiting = [info for uid, info in members.pending.items() if uid not in members.scheduled]
    gated = {info.uid: status.message for info in waiting if (status := view.engine.run_pre_enqueue(info.pod))}
    free = sorted((info for info in waiting if info.uid not in gated), key=lambda info: -info.priority)
    attempt = None
    if free and (most is None or len(free) <= most):
        attempt = PodGroupCycle(view.cache).rehearse(view.engine, free, group)
    return _document(group, members, waiting, gated, attempt)


def _by_label(view: View, pod: Pod, most: int | None) -> Group | None:
    """A group of the Coscheduling plugin: who has a place or waits with one, and who of the others would fit beside."""
    key = label_group(pod)
    if not key or not any(isinstance(plugin, Coscheduling) for plugin in view.engine.permit):
        return None
    groups = CoschedulingGroups(view.handle)
    obj, pods, assigned = groups.get(key), groups.pods(key), groups.assigned.of(key)
    name, known, placed = pod.metadata.labels[LABEL], len(pods), len(assigned)
    if obj is None:
        text = f'it waits for its PodGroup "{name}", which does not exist'
        return Group(name=name, min_count=0, known=known, running=placed, fitting=placed, text=text)
    others = sorted((each for each in pods if each.metadata.uid not in assigned), key=lambda each: each.metadata.name)
    free = [view.info(each) for each in others if not _barred(each, pod)]
    attempt = None
    if known >= obj.spec.min_member and free and (most is None or len(free) <= most):
        ordered = sorted(free, key=lambda info: -info.priority)
        attempt = PodGroupCycle(view.cache).rehearse(view.engine, ordered, None)
    tried = attempt.members if attempt is not None else []
    lacking = [member for member in tried if not _fits(member)]
    fitting = placed + len(tried) - len(lacking)
    members = (
        *_not_fitting(tried),
        *(GroupMember(name=m.metadata.name, state=state, text=text) for m in others for state, text in _barred(m, pod)),
        *(GroupMember(name=_name(member), state="fits") for member in tried if _fits(member)),
        *_waiting(view, {each.metadata.uid for each in pods}),
    )
    text = _text_by_label(name, obj.spec.min_member, known, placed)
    if attempt is not None:
        text = f'its PodGroup "{name}" needs {obj.spec.min_member} members together, and '
        text += (
            f"{'' if fitting >= obj.spec.min_member else 'only '}{fitting} of {known} fit{'s' if fitting == 1 else ''}"
        )
    if lacking:
        names = listed([_name(member) for member in lacking], 3)
        text += f": {names} {'does' if len(lacking) == 1 else 'do'} not fit"
    return Group(
        name=name,
        min_count=obj.spec.min_member,
        known=known,
        running=placed,
        fitting=fitting,
        text=text,
        members=members[:MAX_NAMES],
    )


def _barred(member: Pod, asked: Pod) -> list[tuple[str, str]]:
    """The state of a member that this scheduler does not try, and why; empty for one that it does."""
    gates = ", ".join(gate.name for gate in member.spec.scheduling_gates)
    if gates:
        return [("gated", f"waiting for scheduling gates: {gates}")]
    if member.spec.scheduler_name != asked.spec.scheduler_name:
        return [("foreign", f'scheduler "{member.spec.scheduler_name}" has to place it')]
    return []


def _waiting(view: View, uids: set[str]) -> Iterator[GroupMember]:
    for waiting in view.handle.waiting_pods:
        if waiting.pod_info.uid in uids:
            text = f"holds its room on {waiting.node_name} and waits for the others"
            yield GroupMember(name=waiting.pod_info.pod.metadata.name, state="fits", text=text)


def _text_by_label(name: str, wanted: int, known: int, placed: int) -> str:
    missing = max(wanted - known, 0)
    text = f'its PodGroup "{name}" needs {wanted} members together: {known} exist, {placed} of them on a node'
    return text + (f"; {plural(missing, 'member')} {'is' if missing == 1 else 'are'} missing" if missing else "")


def _document(
    group: PodGroup,
    members: Members,
    waiting: list[PodInfo],
    gated: dict[str, str],
    attempt: GroupAttempt | None,
) -> Group:
    running = len(members.scheduled)
    tried = attempt.members if attempt is not None else []
    fitting = [member for member in tried if _fits(member)]
    told = [*_not_fitting(tried), *_gated(waiting, gated), *(GroupMember(name=_name(m), state="fits") for m in fitting)]
    known = members.count
    return Group(
        name=group.name,
        min_count=group.min_count,
        known=known,
        running=running,
        fitting=running + len(fitting),
        text=_text(group, known, running, running + len(fitting), attempt, len(gated)),
        members=tuple(told[:MAX_NAMES]),
    )


def _fits(member: Member) -> bool:
    """Whether it found a place beside the members before it."""
    return member.assumed is not None


def _name(member: Member) -> str:
    return member.info.pod.metadata.name


def _not_fitting(members: list[Member]) -> Iterator[GroupMember]:
    for member in members:
        if not _fits(member):
            text = member.failure.message if member.failure is not None else ""
            yield GroupMember(name=_name(member), state="unschedulable", text=text)


def _gated(waiting: list[PodInfo], gated: dict[str, str]) -> Iterator[GroupMember]:
    for info in waiting:
        if info.uid in gated:
            yield GroupMember(name=info.pod.metadata.name, state="gated", text=gated[info.uid])


def _text(group: PodGroup, known: int, running: int, fitting: int, attempt: GroupAttempt | None, gated: int) -> str:
    """One sentence, as part of the verdict."""
    what = f'its pod group "{group.name}"'
    if not group.min_count:
        return f"{what} is a basic one, whose members start one by one ({fitting} of {known} fit or run)"
    if known < group.min_count:
        missing = plural(group.min_count - known, "member")
        return f"{what} needs {group.min_count} members, {known} exist: it waits for {missing} more to be created"
    if attempt is not None and attempt.outcome is Outcome.SCHEDULED:
        return f"{what} needs {group.min_count} members together, and {fitting} of {known} fit"
    if attempt is not None and not any(_fits(member) for member in attempt.members) and _as_a_whole(attempt):
        return f"{what} needs {group.min_count} members together: {attempt.message}"
    if attempt is None and gated < known - running:
        said = [condition.message for condition in group.obj.status.conditions] if group.obj is not None else []
        return f"{what} needs {group.min_count} members together, {known} exist" + (f": {said[0]}" if said else "")
    lacking = [_name(member) for member in attempt.members if not _fits(member)] if attempt is not None else []
    why = [f"{listed(lacking, 3)} {'does' if len(lacking) == 1 else 'do'} not fit"] if lacking else []
    why += [f"{plural(gated, 'member')} {'is' if gated == 1 else 'are'} gated"] if gated else []
    return (
        f"{what} needs {group.min_count} members together, and only {fitting} of {known} "
        f"{'fits' if fitting == 1 else 'fit'}: {' and '.join(why)}"
    )


def _as_a_whole(attempt: GroupAttempt) -> bool:
    """Refused before any member was looked at."""
    return all(member.attempt is None for member in attempt.members)
