"""What the API server says no with: one exception that carries a `Status` object.

Every refusal of the embedded server is an `ApiError`, raised by whatever part knows the rule and turned into an HTTP
answer in one place (`http.py`). In-process callers of `ApiServer` meet the same exception. Nothing here knows HTTP.
"""

from dataclasses import dataclass
from typing import Any

import msgspec.json

Object = dict[str, Any]
"""A Kubernetes object as decoded JSON. What the store holds is shared: replace, never change in place."""

RETRY_LATER = "the object has been modified; please apply your changes to the latest version and try again"


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing wrong with one field, as it stands in `Status.details.causes`."""

    reason: str
    message: str
    field: str

    def __str__(self) -> str:
        """Spell the cause as it stands in a Status' message."""
        return f"{self.field}: {self.message}"


def required(field: str, hint: str = "") -> Cause:
    """A field that must be given."""
    return Cause("FieldValueRequired", f"Required value: {hint}" if hint else "Required value", field)


def invalid_value(field: str, value: object, why: str) -> Cause:
    """A field whose value breaks a rule."""
    return Cause("FieldValueInvalid", f"Invalid value: {_spell(value)}: {why}", field)


def unsupported(field: str, value: object, supported: tuple[str, ...]) -> Cause:
    """A field that takes one of a few words, and got another."""
    words = ", ".join(f'"{word}"' for word in supported)
    return Cause("FieldValueNotSupported", f"Unsupported value: {_spell(value)}: supported values: {words}", field)


def forbidden_field(field: str, why: str) -> Cause:
    """A field that may not be set, or not be changed."""
    return Cause("FieldValueForbidden", f"Forbidden: {why}", field)


def duplicate(field: str, value: object) -> Cause:
    """An entry of a list that is there twice."""
    return Cause("FieldValueDuplicate", f"Duplicate value: {_spell(value)}", field)


def _spell(value: object) -> str:
    """Spell a value as JSON does: strings quoted, the rest bare."""
    return msgspec.json.encode(value).decode()


class ApiError(Exception):
    """A refusal, with all that a `Status` says about it."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Object | None = None,
        retry_after: int | None = None,
        meta: Object | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.retry_after = retry_after
        self.meta = meta or {}

    def status(self) -> Object:
        """Give the `Status` object a client gets."""
        body: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.meta,
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        details = dict(self.details)
        if self.retry_after is not None:
            details["retryAfterSeconds"] = self.retry_after
        if details:
            body["details"] = details
        body["code"] = self.code
        return body


def _details(group: str, kind: str, name: str, **more: Any) -> Object:
    """Name the object an answer is about; empty parts are left out, as Go leaves them."""
    named = {"name": name, "group": group, "kind": kind, **more}
    return {key: value for key, value in named.items() if value}


def _qualified(group: str, plural: str) -> str:
    return f"{plural}.{group}" if group else plural


def not_found(group: str, plural: str, name: str) -> ApiError:
    """Say that there is no such object."""
    message = f'{_qualified(group, plural)} "{name}" not found'
    return ApiError(404, "NotFound", message, _details(group, plural, name))


def path_not_found() -> ApiError:
    """Say that nothing is served at this path."""
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def already_exists(group: str, plural: str, name: str) -> ApiError:
    """Say that the name is taken."""
    message = f'{_qualified(group, plural)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, _details(group, plural, name))


def conflict(group: str, plural: str, name: str, why: str = RETRY_LATER) -> ApiError:
    """Say that the write was made against another state than the present one."""
    message = f'Operation cannot be fulfilled on {_qualified(group, plural)} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(group, plural, name))


def apply_conflict(message: str, causes: list[Cause]) -> ApiError:
    """Say that fields of an applied object are owned by others, who want them otherwise."""
    return ApiError(409, "Conflict", message, {"causes": _cause_list(tuple(causes))})


def forbidden(group: str, plural: str, name: str, why: str, causes: tuple[Cause, ...] = ()) -> ApiError:
    """Say that an admission rule refuses the object."""
    subject = f'{_qualified(group, plural)} "{name}"' if name else _qualified(group, plural)
    details = _details(group, plural, name, causes=_cause_list(causes))
    return ApiError(403, "Forbidden", f"{subject} is forbidden: {why}", details)


def invalid(group: str, kind: str, name: str, causes: list[Cause]) -> ApiError:
    """Say which fields of an object are wrong, all at once."""
    texts = [str(cause) for cause in causes]
    listed = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    qualified = f"{kind}.{group}" if group else kind
    details = _details(group, kind, name, causes=_cause_list(tuple(causes)))
    return ApiError(422, "Invalid", f'{qualified} "{name}" is invalid: {listed}', details)


def _cause_list(causes: tuple[Cause, ...]) -> list[Object]:
    return [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes]


def bad_request(message: str) -> ApiError:
    """Say that the request cannot be understood."""
    return ApiError(400, "BadRequest", message)


def unprocessable(why: str) -> ApiError:
    """Say that a well-formed patch cannot be carried out on this object; the real server keeps the reason to itself."""
    error = ApiError(422, "Invalid", "the server rejected our request due to an error in our request")
    error.add_note(why)
    return error


def unauthorized() -> ApiError:
    """Say that the bearer token is missing or wrong."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def method_not_allowed() -> ApiError:
    """Say that the resource does not take this verb."""
    return ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def unsupported_media_type(offered: str, accepted: tuple[str, ...]) -> ApiError:
    """Say in which forms a body may come."""
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    details = {"causes": [{"reason": "UnexpectedServerResponse", "message": f"unsupported media type: {offered}"}]}
    return ApiError(415, "UnsupportedMediaType", message, details)


def not_acceptable(offered: tuple[str, ...]) -> ApiError:
    """Say in which forms an answer can go."""
    return ApiError(406, "NotAcceptable", f"only the following media types are accepted: {', '.join(offered)}")


def expired(message: str, token: str = "") -> ApiError:
    """Say that the state asked for is no longer kept (HTTP 410); `token` goes on from the present state instead."""
    return ApiError(410, "Expired", message, meta={"continue": token} if token else None)


def too_old(asked: int, oldest: int) -> ApiError:
    """Say that a watch cannot start that far back."""
    return expired(f"too old resource version: {asked} ({oldest})")


def too_new(asked: int, current: int) -> ApiError:
    """Say that the server has not come so far yet; the client should ask again."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return ApiError(504, "Timeout", message, {"causes": [cause]}, retry_after=1)


def too_many_requests(message: str, retry_after: int | None, causes: list[Object] | None = None) -> ApiError:
    """Say that the client should come back later."""
    details = {"causes": causes} if causes else None
    return ApiError(429, "TooManyRequests", message, details, retry_after=retry_after)


def internal(message: str) -> ApiError:
    """Say that the server itself failed."""
    return ApiError(500, "InternalError", f"Internal error occurred: {message}")
