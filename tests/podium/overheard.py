"""What podium says to the API server, request by request, for tests that look at the protocol."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from simulator.apiserver import ApiServer
from simulator.apiserver.faults import Rule


@dataclass(frozen=True)
class Request:
    time: float
    verb: str
    path: str
    query: dict[str, str]


class Overheard(Rule):
    """Every request that came in since it was made; it does nothing to them."""

    def __init__(self, server: ApiServer) -> None:
        self.requests: list[Request] = []
        self.left = None
        server.faults._rules.append(self)

    def matches(self, verb: str, path: str) -> bool:
        parts = urlsplit(path)
        query = {key: values[0] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
        self.requests.append(Request(asyncio.get_running_loop().time(), verb, parts.path, query))
        return False

    def of(self, verb: str, path: str = "") -> list[Request]:
        """The requests of that verb whose path ends so."""
        return [each for each in self.requests if each.verb == verb and each.path.endswith(path)]
