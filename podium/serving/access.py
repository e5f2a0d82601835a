"""Who asks, and whether they may: left to the API server, as every Kubernetes component leaves it.

A bearer token is shown to a TokenReview; certificates are the business of `trust`; whoever shows nothing is anonymous.
Then a SubjectAccessReview is asked about the path. Answers are remembered for ten seconds, tokens only by their hash.
Owner: the Guard of a secure endpoint.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from kube.client.errors import ApiError
from kube.client.rest import Client

log = logging.getLogger(__name__)

#: seconds for which an answer counts, as kube-scheduler's own flags have it
TTL = 10.0
#: answers remembered at most
BOUND = 1_024
#: seconds the API server has for an answer
REVIEW_TIMEOUT = 10.0
MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class User:
    """Somebody, as the API server knows them."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)


ANONYMOUS = User("system:anonymous", (UNAUTHENTICATED,))


@dataclass(frozen=True, slots=True)
class Ages:
    """Seconds for which answers count: whose token it is, that somebody may, that somebody may not."""

    token: float = TTL
    yes: float = TTL
    no: float = TTL


class Remembered(Generic[K, V]):
    """Answers that count for a while, at most BOUND of them; the oldest go. Owner: one Access."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._answers: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """None where there is none that still counts."""
        until, answer = self._answers.get(key, (float("-inf"), None))
        return answer if self._now() < until else None

    def put(self, key: K, answer: V, seconds: float) -> None:
        """Remember it from now on, for so long."""
        self._answers.pop(key, None)
        self._answers[key] = (self._now() + seconds, answer)
        while len(self._answers) > BOUND:
            self._answers.popitem(last=False)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of a token (`user` or nobody) or of a request (`allowed`, and why not)."""

    user: User | None = None
    allowed: bool = False
    reason: str = ""


class ReviewError(Exception):
    """The API server gave no verdict; one line."""


class Access:
    """Asks the API server through one client for tokens and one for paths (mostly the same)."""

    def __init__(self, tokens: Client, paths: Client, now: Callable[[], float], ages: Ages | None = None) -> None:
        self._tokens = tokens
        self._paths = paths
        self._ages = ages or Ages()
        self._known: Remembered[bytes, Verdict] = Remembered(now)
        self._judged: Remembered[tuple[User, str, str], Verdict] = Remembered(now)

    async def user_of_token(self, token: str) -> User | None:
        """Whose token it is; None where the API server does not know it. Raises ReviewError."""
        key = hashlib.sha256(token.encode()).digest()
        verdict = self._known.get(key)
        if verdict is None:
            status = await self._review(self._tokens, "authentication.k8s.io", "TokenReview", {"token": token})
            verdict = Verdict(_user(status.get("user", {})) if status.get("authenticated") else None)
            self._known.put(key, verdict, self._ages.token)
        return verdict.user

    async def may(self, user: User, verb: str, path: str) -> Verdict:
        """Whether somebody may do that. Raises ReviewError."""
        if MASTERS in user.groups:
            return Verdict(allowed=True)
        verdict = self._judged.get((user, verb, path))
        if verdict is None:
            spec = {
                "user": user.name,
                "groups": list(user.groups),
                "uid": user.uid,
                "extra": {name: list(values) for name, values in user.extra.items()},
                "nonResourceAttributes": {"path": path, "verb": verb},
            }
            status = await self._review(self._paths, "authorization.k8s.io", "SubjectAccessReview", spec)
            verdict = Verdict(allowed=bool(status.get("allowed")), reason=str(status.get("reason") or ""))
            self._judged.put((user, verb, path), verdict, self._ages.yes if verdict.allowed else self._ages.no)
        return verdict

    async def _review(self, client: Client, group: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
        body = msgspec.json.encode({"apiVersion": f"{group}/v1", "kind": kind, "spec": spec})
        try:
            async with asyncio.timeout(REVIEW_TIMEOUT):
                answer = await client.request("POST", f"/apis/{group}/v1/{kind.lower()}s", body=body)
            status = msgspec.json.decode(answer).get("status")
        except (ApiError, TimeoutError, msgspec.DecodeError, AttributeError) as problem:
            # Never the spec: it holds the token.
            line = f"{kind}: {str(problem) or 'no answer in time'}"
            log.warning("%s", line)
            raise ReviewError(line) from problem
        return status if isinstance(status, dict) else {}


def _user(said: Mapping[str, Any]) -> User:
    extra = {name: tuple(values) for name, values in (said.get("extra") or {}).items()}
    return User(said.get("username", ""), tuple(said.get("groups") or ()), said.get("uid", ""), extra)
