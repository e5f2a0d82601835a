"""What controllers of pods share: who is told of a pod, and making and deleting many under expectations.

ReplicaSets, ReplicationControllers, DaemonSets and Jobs build on it; a StatefulSet names its pods and needs no
expectations. Owner of nothing; a `PodOwner` is a controller like any other.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar

from simulator.apiserver.errors import ApiError, Object
from simulator.apiserver.watch_cache import Key
from simulator.controllers.api import key_of
from simulator.controllers.controller import Context, Controller
from simulator.controllers.expectations import Expectations
from simulator.controllers.informer import by_controller, controller_of
from simulator.controllers.pods import is_terminating, keys_of, slow_start


class PodOwner(Controller):
    """A controller whose objects own pods that look alike. Keys are the owners'."""

    owner_kind: ClassVar[str] = ""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.expectations = Expectations()
        self._pods = self.informers("pods")
        self._pods.add_index("controller", by_controller)
        self._pods.add_handler(self._on_pod)

    def owner_key(self, pod: Object) -> Key | None:
        """The key of a pod's owner, None where it is not one of ours."""
        owner = controller_of(pod)
        if owner is None or owner.get("kind") != self.owner_kind:
            return None
        return pod["metadata"]["namespace"], owner["name"]

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        key = None if pod is None else self.owner_key(pod)
        if pod is None or key is None:
            return
        if old is None:
            self.expectations.creation_observed(key)
        if new is None or is_terminating(new):
            self.expectations.deletion_observed(key, key_of(pod))
        self.queue.add(key)

    def create_many(self, key: Key, count: int, create: Callable[[], None]) -> ApiError | None:
        """Call `create` so often, in slow-start batches; gives the first refusal."""
        self.expectations.expect_creations(key, count)
        created, refusal = slow_start(count, create)
        for _ in range(count - created):
            self.expectations.creation_observed(key)
        return refusal

    def delete_many(
        self, key: Key, pods: Sequence[Object], done: Callable[[Object], None] = lambda pod: None
    ) -> ApiError | None:
        """Delete pods, and tell `done` of each; gives the first refusal."""
        self.expectations.expect_deletions(key, keys_of(pods))
        refusal: ApiError | None = None
        for pod in pods:
            try:
                deleted = self.api.delete("pods", pod)
            except ApiError as error:
                deleted, refusal = False, refusal or error
            if deleted:
                done(pod)
            else:
                self.expectations.deletion_observed(key, key_of(pod))
        return refusal
