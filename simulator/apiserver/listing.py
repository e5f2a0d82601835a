"""Lists: which version of the past is asked for, pages and their continue tokens, and the plain answer.

All pages of one list show the version of the first, as long as the past reaches back that far; after that a token is
answered with 410 and a new token that goes on from the present. Reads the store, never writes it.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from simulator.apiserver.errors import ApiError, Object, bad_request, expired
from simulator.apiserver.resources import Resource
from simulator.apiserver.store import Store
from simulator.apiserver.watch_cache import Key, Revision, View

PRESENT = -1  # in a token: go on from whatever is there now
_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. Start a new list, or use the "
    "continue token in this response to go on from the present state, which may miss or repeat what has "
    "changed since."
)


class _Token(msgspec.Struct, frozen=True):
    rv: int
    start: Key


@dataclass(frozen=True, slots=True)
class ListRequest:
    """The query of a list."""

    limit: int = 0
    token: str = ""
    resource_version: str = ""
    match: str = ""

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> "ListRequest":
        """Read the query parameters; raises a 400 for what makes no sense."""
        request = cls(
            parse_int(query, "limit"),
            query.get("continue", ""),
            query.get("resourceVersion", ""),
            query.get("resourceVersionMatch", ""),
        )
        parse_version(request.resource_version)
        if request.token and request.resource_version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        if request.match and not request.resource_version:
            raise bad_request("resourceVersionMatch is forbidden unless resourceVersion is provided")
        if request.match not in ("", "Exact", "NotOlderThan"):
            raise bad_request(f"resourceVersionMatch {request.match!r} is not one of Exact, NotOlderThan")
        return request


def parse_int(query: Mapping[str, str], name: str) -> int:
    """Read a whole number from the query, 0 where there is none."""
    text = query.get(name) or "0"
    if not text.isdecimal():
        raise bad_request(f"{name}: a whole number, 0 or more, is expected, got {text!r}")
    return int(text)


def parse_bool(query: Mapping[str, str], name: str) -> bool:
    """Read a flag as the real server does: present, and neither false nor 0."""
    text = query.get(name)
    return text is not None and text.lower() not in ("false", "0")


def parse_version(text: str) -> int | None:
    """Read a resourceVersion; None where none is given."""
    if not text:
        return None
    if not text.isdecimal():
        raise bad_request(f'invalid resource version "{text}": a whole number is expected')
    return int(text)


@dataclass(frozen=True, slots=True)
class Listed:
    """What a list found, before it is encoded."""

    revisions: list[Revision]
    version: int
    token: str = ""
    remaining: int = 0

    def metadata(self) -> Object:
        """Give the metadata of the list."""
        metadata: Object = {"resourceVersion": str(self.version)}
        if self.token:
            metadata["continue"] = self.token
        if self.remaining:
            metadata["remainingItemCount"] = self.remaining
        return metadata


def list_objects(store: Store, resource: Resource, view: View, request: ListRequest) -> Listed:
    """Find what a list shows."""
    collection = store.collection(resource.collection)
    after, version = _position(request)
    if version is not None:
        store.check_reached(version)
    exact = version if request.token or request.match == "Exact" else None
    if exact is not None and exact < collection.cache.oldest:
        if after is not None:
            raise expired(_TOO_OLD, _encode_token(PRESENT, after))
        store.check_kept(collection, exact)
    page = collection.page(view, request.limit, after, exact)
    shown = store.version if exact is None else exact
    token = _encode_token(shown, page.next_key) if page.next_key else ""
    remaining = page.remaining if page.next_key and view.selector is None else 0
    return Listed(page.revisions, shown, token, remaining)


def _position(request: ListRequest) -> tuple[Key | None, int | None]:
    """Tell behind which key to begin, and at which version."""
    if not request.token:
        return None, parse_version(request.resource_version)
    token = _decode_token(request.token)
    return token.start, None if token.rv == PRESENT else token.rv


def encode_list(resource: Resource, listed: Listed) -> bytes:
    """Join already encoded objects into a list; items carry no kind and apiVersion, as in the real server."""
    cut = len(resource.head)
    items = b",".join([b"{" + revision.encoded(resource)[cut:] for revision in listed.revisions])
    head = {"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": listed.metadata()}
    return b'%b,"items":[%b]}' % (msgspec.json.encode(head)[:-1], items)


def _encode_token(version: int, start: Key) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(_Token(version, start))).decode().rstrip("=")


def _decode_token(text: str) -> _Token:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Token)
    except (ValueError, msgspec.DecodeError) as error:
        raise _bad_token() from error


def _bad_token() -> ApiError:
    return bad_request("continue key is not valid")
