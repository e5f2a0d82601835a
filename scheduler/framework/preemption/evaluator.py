"""The preemption of one profile: may this pod preempt, whom, and where (facts 2.8).

Called by PostFilter plugins, inside the scheduling cycle. The search is synchronous; evicting the victims is left to
`execution`. Offline there is nobody to evict for: then only the answer counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kube.api.core import Pod
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.extender import Extender
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import GroupPreemption, PostFilterResult, PreemptionGround
from scheduler.framework.pod_groups import Group
from scheduler.framework.preemption.budgets import Budgets
from scheduler.framework.preemption.candidates import Found, Search, number_of_candidates, spell_out
from scheduler.framework.preemption.choice import badness, choose
from scheduler.framework.preemption.dry_run import Candidate
from scheduler.framework.preemption.execution import Executor, is_terminating_by_preemption
from scheduler.framework.preemption.group import GroupSearch
from scheduler.framework.status import SUCCESS, Code, Status, error, unschedulable
from scheduler.snapshot.pod_info import PodInfo

NEVER = "not eligible due to preemptionPolicy=Never."
TERMINATING = "not eligible due to a terminating pod on the nominated node."

#: what a search or its end says: the result and the status of PostFilter
Answer = tuple[PostFilterResult | None, Status]


class Evaluator:
    """Owner: the plugin that preempts."""

    def __init__(self, plugin: str, handle: Handle, percentage: int, absolute: int) -> None:
        self._handle = handle
        self._percentage = percentage
        self._absolute = absolute
        # Asked for now, so that an informer has them before the first preemption.
        self._listed = handle.listers("PodDisruptionBudget")
        self._budgets = Budgets()
        self.executor = Executor(plugin, handle)

    # --- the steps ----------------------------------------------------------------------------------------

    def preempt(self, state: CycleState, diagnosis: Diagnosis) -> Answer:
        """Find a node, choose victims there and have them evicted."""
        found = self.find_candidates(state, diagnosis)
        if not isinstance(found, list):
            return found
        return self._settle(state, spell_out(choose(found)))

    async def preempt_with_extenders(self, state: CycleState, diagnosis: Diagnosis) -> Answer:
        """The same; extenders that know of preemption may take candidates or victims away before the choice."""
        found = self.find_candidates(state, diagnosis)
        if not isinstance(found, list):
            return found
        left = await self._ask_extenders(state.pod_info.pod, [spell_out(each) for each in found])
        if isinstance(left, Status):
            return None, left
        if not left:
            return None, unschedulable("no candidate node for preemption")
        return self._settle(state, spell_out(choose([(badness(each), each, 0) for each in left])))

    def find_candidates(self, state: CycleState, diagnosis: Diagnosis) -> list[Found] | Answer:
        """The candidates, or the answer where there are none."""
        refused = self._not_eligible(state.pod_info, diagnosis)
        if refused:
            return None, unschedulable(refused)
        self._budgets.refresh(self._listed.list())
        search = Search(self._handle, state, diagnosis, self._budgets)
        nodes = search.size
        start = self._handle.random.randrange(nodes) if nodes else 0
        found = search.run(start, number_of_candidates(nodes, self._percentage, self._absolute))
        if found:
            return found
        if search.errors:
            return None, error(*dict.fromkeys(reason for status in search.errors for reason in status.reasons))
        # A nomination that led nowhere is cleared.
        return PostFilterResult(nominated_node_name=""), unschedulable(search.message())

    def _settle(self, state: CycleState, chosen: Candidate) -> Answer:
        """Victims that are leaving already need no second push, so they are none of this preemption's doing."""
        victims = tuple(victim for victim in chosen.victims if not victim.terminating)
        self.executor.start(state.pod_info, chosen.node_name, victims)
        return PostFilterResult(chosen.node_name, victims), SUCCESS

    def preempt_for_group(
        self, group: Group, members: Sequence[PodInfo], ground: PreemptionGround
    ) -> GroupPreemption | Status:
        """Whom a whole group needs gone, anywhere; their eviction begins once the group is decided."""
        if (group.preemption_policy or members[0].pod.spec.preemption_policy) == "Never":
            return unschedulable(NEVER)
        self._budgets.refresh(self._listed.list())
        found = GroupSearch(self._handle, group, self._budgets, ground).run(members)
        if isinstance(found, GroupPreemption):
            self.executor.start_for_group(group, members, set(found.nodes.values()), found.victims)
        return found

    # --- who may preempt ----------------------------------------------------------------------------------

    def _not_eligible(self, preemptor: PodInfo, diagnosis: Diagnosis) -> str:
        """Why this pod may not preempt now, "" where it may.

        A pod whose victims are still leaving waits for them, unless its node became one that no eviction can mend.
        """
        pod = preemptor.pod
        if pod.spec.preemption_policy == "Never":
            return NEVER
        node_name = pod.status.nominated_node_name or self._handle.nominator.node_of(preemptor.uid)
        node = self._handle.snapshot.info(node_name) if node_name else None
        if node is None or diagnosis.code_of(node.row) is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return ""
        for other in node.pods.values():
            if other.priority < preemptor.priority and is_terminating_by_preemption(other.pod):
                return TERMINATING
        return ""

    # --- extenders ----------------------------------------------------------------------------------------

    async def _ask_extenders(self, pod: Pod, candidates: list[Candidate]) -> list[Candidate] | Status:
        """One extender sees what the one before it left."""
        left: Victims = {each.node_name: (each.victims, each.violations) for each in candidates}
        for extender in self._handle.extenders:
            if not extender.supports_preemption() or not extender.is_interested(pod):
                continue
            answer = await _ask_extender(extender, pod, left)
            if isinstance(answer, Status):
                return answer
            left = answer
            if not left:
                break
        return [Candidate(name, tuple(victims), violations) for name, (victims, violations) in left.items()]


#: node name -> (victims, PDB violations)
Victims = Mapping[str, tuple[Sequence[PodInfo], int]]


async def _ask_extender(extender: Extender, pod: Pod, victims: Victims) -> Victims | Status:
    """What the extender leaves; an ignorable one that fails leaves everything."""
    try:
        answer = await extender.process_preemption(pod, victims)
    except Exception as failure:  # any failure of a foreign service is a status here
        return victims if extender.ignorable else error(str(failure))
    empty = [name for name, (pods, _) in answer.items() if not pods]
    if empty and not extender.ignorable:
        return error(f'expected at least one victim pod on node "{empty[0]}"')
    return {name: each for name, each in answer.items() if name not in empty}
