"""What can go wrong between podium and the API server.

ApiError                  the answer was not a success, or there was none; one line of text, never a page of HTML
├── BadRequest            400
├── Unauthorized          401  (the client has refreshed its credentials and tried again before this is raised)
├── Forbidden             403
├── NotFound              404
├── AlreadyExists         409 with reason AlreadyExists
├── Conflict              409 with any other reason
├── Gone                  410  the resourceVersion or continue token is too old; as HTTP status or inside a watch alike
├── Invalid               422
├── TooManyRequests       429, with `retry_after`
├── ServerError           5xx, with `retry_after`
└── Unreachable           no usable answer: connect, timeout, TLS, a cut stream; `maybe_applied` tells whether the
                          request may have been carried out all the same

Every error that leaves `kube.client` while talking to the server is one of these, or `kube.api.codec.DecodeError` where
a successful answer held something else than was asked for. Raised by the REST client only; anybody may catch them.
"""

# ruff: noqa: N818 - the names are those of the reasons in Kubernetes' own Status objects.

import re

import msgspec
from aiohttp import ClientConnectorError, ClientError, ConnectionTimeoutError, ServerDisconnectedError

_MAX_TEXT = 300
_TAGS = re.compile(rb"<(script|style)\b.*?</\1\s*>|<!--.*?-->|<[^>]*>", re.DOTALL | re.IGNORECASE)


class StatusCause(msgspec.Struct, frozen=True, gc=False):
    """One reason inside a Status: which field, and what is wrong with it."""

    reason: str | None = ""
    message: str | None = ""
    field: str | None = ""


class StatusDetails(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Of what a Status speaks."""

    name: str | None = ""
    kind: str | None = ""
    causes: list[StatusCause] | None = None
    retry_after_seconds: int | None = None


class Status(msgspec.Struct, frozen=True, gc=False):
    """metav1.Status as an answer to a failed request or as the object of an ERROR watch event."""

    kind: str | None = ""
    code: int | None = 0
    reason: str | None = ""
    message: str | None = ""
    details: StatusDetails | None = None


class ApiError(Exception):
    """The API server did not do what it was asked. `str()` is one line fit for a log or a terminal."""

    def __init__(
        self, message: str, *, status: int = 0, reason: str = "", details: StatusDetails | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details
        self.request = ""  # "GET /api/v1/pods", filled in by the REST client

    @property
    def retry_after(self) -> float | None:
        """Seconds the server asked to wait, where it did."""
        seconds = self.details.retry_after_seconds if self.details is not None else None
        return float(seconds) if seconds else None

    def __str__(self) -> str:
        code = " ".join(part for part in (str(self.status or ""), self.reason) if part)
        return ": ".join(part for part in (self.request, code, self.message) if part)


class BadRequest(ApiError):
    """400: the request itself is wrong."""


class Unauthorized(ApiError):
    """401: the credentials were refused, freshly read ones too."""


class Forbidden(ApiError):
    """403: RBAC or admission says no."""


class NotFound(ApiError):
    """404: no such object, or no such resource."""


class Conflict(ApiError):
    """409: somebody else was faster."""


class AlreadyExists(ApiError):
    """409 on create: the name is taken."""


class Gone(ApiError):
    """410: the server no longer knows that resourceVersion or continue token; list again."""


class Invalid(ApiError):
    """422: validation refused the object."""


class TooManyRequests(ApiError):
    """429: wait `retry_after` seconds where given."""


class ServerError(ApiError):
    """5xx: the server, or something before it, failed."""


class Unreachable(ApiError):
    """There was no usable answer. `maybe_applied` is False only if the request surely never reached the server."""

    def __init__(self, message: str, *, maybe_applied: bool, reason: str = "Unreachable") -> None:
        super().__init__(message, reason=reason)
        self.maybe_applied = maybe_applied


_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


def from_response(status: int, body: bytes, retry_after: str | None = None) -> ApiError:
    """The error that an HTTP answer stands for, whatever its body is: a Status, a page of HTML, a text or nothing."""
    parsed = _parse_status(body) or Status(message=one_line(body))
    details = parsed.details or StatusDetails()
    if retry_after is not None and retry_after.strip().isdigit():
        details = msgspec.structs.replace(details, retry_after_seconds=int(retry_after))
    return _build(status, msgspec.structs.replace(parsed, details=details))


def from_watch_event(raw: bytes | msgspec.Raw) -> ApiError:
    """The error inside an ERROR watch event; reason Expired or Gone is 410 even where the code is missing."""
    status = _parse_status(bytes(raw)) or Status(message=one_line(bytes(raw)))
    code = status.code or (410 if status.reason in ("Expired", "Gone") else 500)
    return _build(code, status)


def from_exception(error: Exception) -> Unreachable:
    """The error that a failure of the transport stands for."""
    if isinstance(error, ClientConnectorError | ConnectionTimeoutError):
        return Unreachable(_transport_text(error), maybe_applied=False)
    if isinstance(error, TimeoutError):
        return Unreachable(_transport_text(error) or "no answer in time", maybe_applied=True, reason="Timeout")
    if isinstance(error, ServerDisconnectedError):
        return Unreachable("the server closed the connection without an answer", maybe_applied=True)
    return Unreachable(_transport_text(error) or type(error).__name__, maybe_applied=True)


TRANSPORT_ERRORS: tuple[type[Exception], ...] = (ClientError, OSError, TimeoutError)


def one_line(body: bytes) -> str:
    """A short text of any body: tags and line breaks go, the rest is cut."""
    text = _TAGS.sub(b" ", body[:65536]).decode(errors="replace")
    words = " ".join(text.split())
    return words if len(words) <= _MAX_TEXT else words[: _MAX_TEXT - 3] + "..."


def _parse_status(body: bytes) -> Status | None:
    try:
        status = msgspec.json.decode(body, type=Status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return status if status.kind == "Status" else None


def _build(code: int, status: Status) -> ApiError:
    reason = status.reason or ""
    kind = ServerError if code >= 500 else _BY_STATUS.get(code, ApiError)
    if kind is Conflict and reason == "AlreadyExists":
        kind = AlreadyExists
    return kind(one_line((status.message or "").encode()), status=code, reason=reason, details=status.details)


def _transport_text(error: Exception) -> str:
    return one_line(str(error).encode())
