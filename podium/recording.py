"""Recording: what came in and what was decided, in files of their own, for `podium replay`.

A recording is a directory of gzipped segments of JSON lines. Each begins with everything that the scheduler knows, so
that old segments can go: all of them together stay within a limit. The event loop only hands references over (objects
never change); a thread of its own encodes and writes. Where it cannot keep up, news are left out and a new segment
begins, so that what is in a segment is complete.

Owner: the command that runs the service. Only what scheduling looks at is in the objects: no environment, no secrets.
"""

from __future__ import annotations

import gzip
import logging
import queue
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from kube.api import codec
from podium.commands.config import effective_document
from podium.what_if.recorded_extenders import Heard, Saying
from podium.wiring import Service
from scheduler.decision_log import Decision
from scheduler.framework.extender import Extender

log = logging.getLogger(__name__)

VERSION = 1
PATTERN = "recording-*.jsonl.gz"
#: bytes of all segments together, and of one, as written
DEFAULT_LIMIT = 256 * 2**20
SEGMENTS = 8
#: news that may wait to be written
BACKLOG = 50_000

#: kind of line, and what it is about
Line = tuple[str, float, Any]


class RecordingError(Exception):
    """The directory cannot be written; the message is one line."""


class Recorder:
    """Records one service, from `attach` on. Use as a context manager."""

    def __init__(self, service: Service, directory: str, limit: int = DEFAULT_LIMIT) -> None:
        self._service = service
        """Raises RecordingError."""
        self._writer = _Writer(Path(directory), limit)
        self._writer.open()
        #: uid -> node of the pods that were assumed when last looked at
        self._assumed: dict[str, str] = {}
        self._complete = False
        self.left_out = 0

    def __enter__(self) -> Self:
        self._writer.start()
        self._attach()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._service.scheduler.decisions.listener = None
        for framework in self._service.scheduler.frameworks.values():
            framework.handle.extenders = tuple(_unheard(each) for each in framework.handle.extenders)
        self._writer.close()
        if self.left_out:
            log.warning("the recording leaves out %d news: its disk was too slow", self.left_out)

    def _attach(self) -> None:
        """After the scheduler's own handlers: what they changed is known when ours are called."""
        self._begin_segment()
        for informer in self._service.factory.informers:
            informer.add_handler(
                add=lambda obj: self._event("add", obj),
                update=lambda old, new: self._event("update", new),
                delete=lambda obj, unknown: self._event("delete", obj),
            )
        self._service.scheduler.decisions.listener = self._decided
        for framework in self._service.scheduler.frameworks.values():
            framework.handle.extenders = tuple(Heard(each, self._said) for each in framework.handle.extenders)

    # --- what is noted ------------------------------------------------------------------------------------

    def _event(self, kind: str, obj: Any) -> None:
        self._note_forgotten()
        self._put(kind, obj)

    def _decided(self, decision: Decision) -> None:
        """Called within the cycle, before the pod is assumed."""
        self._note_forgotten()
        self._put("decision", decision)
        if decision.node:
            self._assumed[decision.uid] = decision.node

    def _said(self, saying: Saying) -> None:
        """An extender answered: comes before the decision that it is about."""
        self._put("extender", saying)

    def _note_forgotten(self) -> None:
        """Assumed pods whose bind failed are no news of any informer."""
        cache = self._service.cache
        for uid in [uid for uid in self._assumed if not cache.is_assumed(uid)]:
            del self._assumed[uid]
            if uid not in cache.pods:
                self._put("forget", uid)

    def _put(self, kind: str, what: Any) -> None:
        if not self._complete or self._writer.wants_segment:
            self._begin_segment()
        self._complete = self._complete and self._writer.put((kind, time.time(), what))
        self.left_out += not self._complete

    # --- a segment ----------------------------------------------------------------------------------------

    def _begin_segment(self) -> None:
        """References to everything that is known now; nothing is encoded here."""
        service = self._service
        cache, nominator = service.cache, service.scheduler.queue.nominator
        head = {
            "recording": VERSION,
            "configuration": effective_document(service.effective.value, service.effective.known_plugins),
            "gates": dict(service.effective.gates),
            "seed": service.options.seed,
        }
        objects = [obj for informer in service.factory.informers for obj in informer.indexer.list()]
        lines: list[Line] = [("object", 0.0, obj) for obj in objects]
        lines += [("assumed", 0.0, [uid, cache.pods[uid].node_name]) for uid in cache.assumed]
        lines += [
            ("nominated", 0.0, [pod.uid, node]) for node, pods in nominator.nominated_nodes().items() for pod in pods
        ]
        self._complete = self._writer.put(("segment", time.time(), (head, lines)))


def _unheard(extender: Extender) -> Extender:
    return extender.inner if isinstance(extender, Heard) else extender


class _Writer:
    """The thread that writes. Lines come through a bounded queue."""

    def __init__(self, directory: Path, limit: int) -> None:
        self._directory = directory
        self._segment_limit = max(limit // SEGMENTS, 1)
        self._lines: queue.Queue[Line | None] = queue.Queue(BACKLOG)
        self._thread = threading.Thread(target=self._run, name="recording", daemon=True)
        self._number = 0
        self._file: Any = None
        self._raw: Any = None
        #: the segment is full: the loop is to begin another
        self.wants_segment = False

    def open(self) -> None:
        """Go on after what is there already. Raises RecordingError."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            known = sorted(self._directory.glob(PATTERN))
            self._number = int(known[-1].name.split("-")[1].split(".")[0]) if known else 0
            (self._directory / ".writable").touch()
            (self._directory / ".writable").unlink()
        except (OSError, ValueError) as problem:
            raise RecordingError(f"--record {self._directory}: cannot be written: {problem}") from problem

    def start(self) -> None:
        """From now on lines are written."""
        self._thread.start()

    def close(self) -> None:
        """Write what is left."""
        self._lines.put(None)
        self._thread.join()

    def put(self, line: Line) -> bool:
        """False where there is no room."""
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            return False
        if line[0] == "segment":
            self.wants_segment = False
        return True

    def _run(self) -> None:
        try:
            while (line := self._lines.get()) is not None:
                self._write(line)
        except OSError as problem:
            log.error("the recording ends here: %s", problem)
            while self._lines.get() is not None:
                pass
        finally:
            self._close_segment()

    def _write(self, line: Line) -> None:
        kind, moment, what = line
        if kind == "segment":
            self._open_segment(moment, *what)
            return
        self._file.write(_text(kind, moment, what))
        if not self.wants_segment and self._raw.tell() > self._segment_limit:
            self.wants_segment = True

    def _open_segment(self, moment: float, head: dict[str, Any], lines: Iterable[Line]) -> None:
        self._close_segment()
        self._number += 1
        self._raw = (self._directory / f"recording-{self._number:06}.jsonl.gz").open("wb")
        self._file = gzip.GzipFile(fileobj=self._raw, mode="wb", compresslevel=1, mtime=0)
        self._file.write(_text("segment", moment, head))
        for kind, _, what in lines:
            self._file.write(_text(kind, moment, what))
        self._file.write(_text("begin", moment, None))
        for old in sorted(self._directory.glob(PATTERN))[:-SEGMENTS]:
            old.unlink()

    def _close_segment(self) -> None:
        if self._file is not None:
            self._file.close()
            self._raw.close()
            self._file = self._raw = None


def _text(kind: str, moment: float, what: Any) -> bytes:
    """One line: {"k": kind, "t": seconds, "v": value}."""
    if hasattr(what, "KIND"):
        what = msgspec.Raw(codec.encode(what))
    return msgspec.json.encode({"k": kind, "t": round(moment, 6), "v": what}) + b"\n"
