"""What a failed bind means. A call that failed may have been carried out: ask past all caches, then decide.

| answer | what is done |
|---|---|
| 409, and the pod is bound to our node | success: an earlier try of ours arrived |
| 409, and the pod is bound elsewhere, being deleted, gone or replaced | dropped: the informer will say so, too |
| 409 of another kind | scheduled again at once |
| 404 | as 409 |
| 5xx, a timeout, a cut connection | the pod is read: bound here is success, bound elsewhere is dropped, else an error |
| never reached the server; 422 and other refusals; 429 after the client's own tries | an error, retried after backoff |

Called by the binding cycle. The pod keeps its room on the node for as long as nobody can be asked: it may be bound.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Callable

from kube.api.codec import DecodeError
from kube.api.core import Pod
from kube.client.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    NotFound,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from scheduler.framework.extender import ExtenderError
from scheduler.framework.handle import Client

log = logging.getLogger(__name__)

FIRST_DELAY = 0.2
MAX_DELAY = 5.0

#: what a bind can fail with
BIND_FAILURES = (ApiError, ExtenderError)


class Verdict(enum.Enum):
    """What becomes of a pod whose bind failed."""

    BOUND = "it is bound to our node"
    DROP = "it is not ours to bind any more"
    AT_ONCE = "somebody changed it meanwhile: schedule it again at once"
    RETRY = "schedule it again after its backoff"


def is_conflict(failure: Exception) -> bool:
    """Whether the API server said that the world is another one by now."""
    return isinstance(failure, Conflict | AlreadyExists)


async def judge(failure: Exception, pod: Pod, node_name: str, client: Client, undecided: Callable[[], bool]) -> Verdict:
    """Ask until somebody answers, or until `undecided` is False: then the informer knows (DROP is no harm then)."""
    if not _may_be_applied(failure):
        return Verdict.RETRY
    delay = FIRST_DELAY
    while undecided():
        try:
            now = await client.get("Pod", pod.metadata.name, pod.metadata.namespace)
        except NotFound:
            return Verdict.DROP
        except (ServerError, Unreachable, TooManyRequests, DecodeError) as silent:
            log.warning("pod %s may be bound to %s or not, and cannot be read: %s", pod.key, node_name, silent)
            await asyncio.sleep(delay)
            delay = min(2 * delay, MAX_DELAY)
        except ApiError:
            return Verdict.RETRY
        else:
            return _by_sight(failure, pod, now, node_name)
    return Verdict.DROP


def _may_be_applied(failure: Exception) -> bool:
    if isinstance(failure, Unreachable):
        return failure.maybe_applied
    return is_conflict(failure) or isinstance(failure, NotFound | ServerError | ExtenderError)


def _by_sight(failure: Exception, pod: Pod, now: Pod, node_name: str) -> Verdict:
    """From the pod as the API server has it."""
    if now.metadata.uid != pod.metadata.uid:
        return Verdict.DROP
    if now.spec.node_name:
        return Verdict.BOUND if now.spec.node_name == node_name else Verdict.DROP
    if now.metadata.deletion_timestamp is not None:
        return Verdict.DROP
    return Verdict.AT_ONCE if is_conflict(failure) else Verdict.RETRY
