"""What every Kubernetes object carries: metadata, owners, label selectors, conditions, and the base of all types.

Anybody may import it. Values are frozen: a change is a new object (`msgspec.structs.replace`). A field that Go would
leave at its zero value has that zero here ("", 0, (), {}), so readers never test for None; `X | None` appears only
where Kubernetes itself tells absent from empty. Types list the fields podium reads, nothing else is kept: never PUT a
decoded object back to a real API server, patch it.
"""

# ruff: noqa: D101 - the types mirror Kubernetes' API reference, which documents them.

import math
from datetime import UTC, datetime
from functools import lru_cache
from typing import ClassVar

import msgspec
from msgspec import field


class Object(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    """Base of every API type: immutable, invisible to the garbage collector, camelCase on the wire."""


class OwnerReference(Object, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Object, frozen=True):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class ListMeta(Object, frozen=True):
    resource_version: str = ""
    # "continue" is a Python keyword.
    continue_token: str = field(default="", name="continue")
    remaining_item_count: int | None = None


class ApiObject(Object, frozen=True):
    """Base of everything that has its own path on the API server."""

    API_VERSION: ClassVar[str] = ""
    KIND: ClassVar[str] = ""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def key(self) -> str:
        """`namespace/name`, or `name` for cluster-scoped objects: client-go's MetaNamespaceKeyFunc."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


class LabelSelectorRequirement(Object, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Object, frozen=True):
    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class Condition(Object, frozen=True):
    """A condition of any object; pods and nodes share the shape as far as podium reads it."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    # Go writes an unset time as null.
    last_transition_time: str | None = None
    observed_generation: int = 0


class ObjectReference(Object, frozen=True):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


def find_condition(conditions: tuple[Condition, ...], type_: str) -> Condition | None:
    """The condition of this type, if the object has it."""
    return next((condition for condition in conditions if condition.type == type_), None)


def condition_is_true(conditions: tuple[Condition, ...], type_: str) -> bool:
    """Whether the condition is there and its status is "True"."""
    condition = find_condition(conditions, type_)
    return condition is not None and condition.status == "True"


def controller_of(meta: ObjectMeta) -> OwnerReference | None:
    """The one owner that manages the object (metav1.GetControllerOf)."""
    return next((owner for owner in meta.owner_references if owner.controller), None)


@lru_cache(maxsize=16384)
def parse_time(text: str) -> float:
    """Seconds since the epoch of an RFC 3339 time, with or without fraction (metav1.Time and MicroTime).

    Raises ValueError with one line for anything else; a time without an offset is not RFC 3339.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or "T" not in text.upper():
        raise ValueError(f"expected an RFC 3339 time such as 2026-01-02T15:04:05Z, got {text!r}")
    return moment.timestamp()


def format_time(seconds: float) -> str:
    """metav1.Time: whole seconds, UTC."""
    return f"{_to_the_second(int(seconds))}Z"


def format_micro_time(seconds: float) -> str:
    """metav1.MicroTime: always six decimals, UTC."""
    whole = math.floor(seconds)
    carry, micros = divmod(round((seconds - whole) * 1e6), 1_000_000)
    return f"{_to_the_second(whole + carry)}.{micros:06d}Z"


@lru_cache(maxsize=64)
def _to_the_second(seconds: int) -> str:
    """Kept, because what happens in one second is told of hundreds of times."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:-6]
