"""The state of an embedded cluster, kept in a file: loaded before the start, saved every so often and at the end.

    keeper = StateKeeper(cluster, path)
    keeper.load()                            # before cluster.start()
    group.create_task(keeper.run())          # until keeper.stop()
    keeper.save()                            # once nothing runs any more

A cluster that is killed loses what happened since the last save, and nothing else: the file is replaced in one step.
Owner: `podium cluster`.
"""

import asyncio
import logging
from pathlib import Path

from simulator.apiserver.state_file import StateFileError, take, write
from simulator.cluster import Cluster

log = logging.getLogger(__name__)
INTERVAL = 30.0


class StateKeeper:
    """Keeps the state of one cluster in one file."""

    def __init__(self, cluster: Cluster, path: Path, interval: float = INTERVAL) -> None:
        self._cluster = cluster
        self._path = path
        self._interval = interval
        self._saved = 0
        self._over = asyncio.Event()

    def load(self) -> int:
        """Take over what the file holds, if there is one; gives the number of objects.

        Raises a StateFileError, also where the file could not be written later.
        """
        try:
            count = self._cluster.load(self._path) if self._path.exists() else 0
        except OSError as error:
            raise StateFileError(f"{self._path}: cannot be read: {error.strerror}") from error
        self.save()
        return count

    def save(self) -> int:
        """Save now; gives the number of objects. Raises a StateFileError."""
        snapshot = take(self._cluster.server.store, self._cluster.server.registry)
        try:
            count = write(snapshot, self._path)
        except OSError as error:
            raise StateFileError(f"{self._path}: cannot be written: {error.strerror}") from error
        self._saved = snapshot.version
        return count

    async def run(self) -> None:
        """Save what is new every so often, beside all else, until `stop`."""
        while not await self._stopped_within(self._interval):
            store = self._cluster.server.store
            if store.version == self._saved:
                continue
            snapshot = take(store, self._cluster.server.registry)
            try:
                await asyncio.to_thread(write, snapshot, self._path)
                self._saved = snapshot.version
            except OSError as error:
                log.warning("the state cannot be saved now: %s", error)

    def stop(self) -> None:
        """No more; `run` returns once what it writes is written."""
        self._over.set()

    async def _stopped_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._over.wait()
        except TimeoutError:
            return False
        return True
