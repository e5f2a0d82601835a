"""ReplicationControllers: ReplicaSets from before there were any. Their selector is a plain map of labels."""

from simulator.apiserver.errors import Object
from simulator.apiserver.selectors import LabelTest, label_selector
from simulator.controllers.replica_set import ReplicaSetController


class ReplicationControllerController(ReplicaSetController):
    """Keeps the number of pods of each ReplicationController."""

    name = "replication"
    owner_kind = "ReplicationController"
    resource = "replicationcontrollers"

    def selector_of(self, owner: Object) -> LabelTest:
        """What tells an owner's pods."""
        return label_selector({"matchLabels": owner["spec"].get("selector") or {}})
