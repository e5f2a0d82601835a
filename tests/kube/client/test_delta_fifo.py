"""The queue between a reflector and its informer."""

import asyncio

import pytest

from kube.api.core import Pod
from kube.client import delta_fifo
from kube.client.backoff import TimeSlice
from kube.client.delta_fifo import MAX_TRIES, DeletedFinalStateUnknown, DeltaFIFO
from kube.client.indexer import Indexer
from tests.builders import make_pod


class Consumer:
    """What an informer does with deltas, written down instead."""

    def __init__(self) -> None:
        self.known: Indexer[Pod] = Indexer()
        self.fifo = DeltaFIFO(self.known)
        self.story: list[str] = []

    def process(self, key, deltas) -> None:
        for delta in deltas:
            if delta.type.value == "Deleted":
                unknown = isinstance(delta.object, DeletedFinalStateUnknown)
                self.known.delete(key)
                self.story.append(f"{key} Deleted{' unseen' if unknown else ''}")
            else:
                self.known.add(delta.object)
                self.story.append(f"{key} {delta.type.value} on {delta.object.spec.node_name or '-'}")

    def drain(self) -> list[str]:
        while self.fifo.pop_now(self.process):
            pass
        told, self.story = self.story, []
        return told


@pytest.fixture
def consumer():
    return Consumer()


def test_all_that_happened_to_a_key_comes_out_together_in_order_of_arrival(consumer):
    consumer.fifo.add(make_pod("a"))
    consumer.fifo.add(make_pod("b"))
    consumer.fifo.update(make_pod("a", node_name="n1"))
    assert consumer.drain() == ["default/a Added on -", "default/a Updated on n1", "default/b Added on -"]


def test_runs_of_updates_and_of_deletes_collapse(consumer):
    consumer.fifo.add(make_pod("a"))
    for node in ("n1", "n2", "n3"):
        consumer.fifo.update(make_pod("a", node_name=node))
    consumer.fifo.delete(make_pod("a"))
    consumer.fifo.delete_key("default/a")
    assert consumer.drain() == ["default/a Added on -", "default/a Updated on n3", "default/a Deleted"]


def test_an_object_deleted_and_added_again_is_both(consumer):
    consumer.fifo.add(make_pod("a"))
    consumer.drain()
    consumer.fifo.delete(make_pod("a"))
    consumer.fifo.add(make_pod("a", node_name="n1"))
    assert consumer.drain() == ["default/a Deleted", "default/a Added on n1"]


def test_the_delete_of_something_nobody_knows_is_nothing(consumer):
    consumer.fifo.delete(make_pod("ghost"))
    consumer.fifo.delete_key("default/ghost")
    assert consumer.drain() == []


async def test_a_new_list_deletes_what_is_missing_in_it_known_or_still_queued(consumer):
    await consumer.fifo.replace([make_pod("a"), make_pod("b")])
    consumer.drain()
    consumer.fifo.add(make_pod("queued"))
    await consumer.fifo.replace([make_pod("b", node_name="n1"), make_pod("c")])
    assert consumer.drain() == [
        "default/queued Added on -",
        "default/queued Deleted unseen",
        "default/b Replaced on n1",
        "default/c Replaced on -",
        "default/a Deleted unseen",
    ]


async def test_a_key_that_the_list_had_but_nobody_could_read_is_kept(consumer):
    await consumer.fifo.replace([make_pod("a"), make_pod("b")])
    consumer.drain()
    await consumer.fifo.replace([make_pod("b")], keep=["default/a"])
    assert consumer.drain() == ["default/b Replaced on -"]


async def test_it_has_synced_when_the_whole_first_list_was_processed(consumer):
    assert not consumer.fifo.has_synced
    await consumer.fifo.replace([make_pod("a"), make_pod("b")])
    consumer.fifo.pop_now(consumer.process)
    assert not consumer.fifo.has_synced
    consumer.fifo.pop_now(consumer.process)
    assert consumer.fifo.has_synced


async def test_an_empty_first_list_is_synced_at_once(consumer):
    await consumer.fifo.replace([])
    assert consumer.fifo.has_synced


async def test_resync_reminds_of_what_is_known_and_has_no_news(consumer):
    await consumer.fifo.replace([make_pod("a"), make_pod("b")])
    consumer.drain()
    consumer.fifo.update(make_pod("a", node_name="n1"))
    consumer.fifo.resync()
    assert consumer.drain() == ["default/a Updated on n1", "default/b Sync on -"]


def test_what_could_not_be_processed_comes_back_before_newer_news(consumer):
    failures = [RuntimeError("not now")]

    def process(key, deltas):
        if failures:
            consumer.fifo.update(make_pod("a", node_name="n1"))
            raise failures.pop()
        consumer.process(key, deltas)

    consumer.fifo.add(make_pod("a"))
    consumer.fifo.pop_now(process)
    assert consumer.drain() == ["default/a Added on -", "default/a Updated on n1"]


async def test_what_can_never_be_processed_is_dropped_in_the_end_and_counted(consumer):
    tries = []

    def process(key, deltas):
        tries.append(key)
        raise RuntimeError("never")

    await consumer.fifo.replace([make_pod("a")])
    while consumer.fifo.pop_now(process):
        pass
    assert (len(tries), consumer.fifo.dropped) == (MAX_TRIES, 1)
    assert consumer.fifo.has_synced


async def test_pop_waits_for_news(consumer):
    popped = asyncio.ensure_future(consumer.fifo.pop(consumer.process))
    await asyncio.sleep(0)
    assert not popped.done()
    consumer.fifo.add(make_pod("a"))
    assert await popped == "default/a"


async def test_a_long_list_gives_way_and_what_was_taken_out_meanwhile_is_not_waited_for(consumer, monkeypatch):
    monkeypatch.setattr(delta_fifo, "TimeSlice", lambda: TimeSlice(seconds=0.0))
    pods = [make_pod(f"p{i}") for i in range(20)]
    listing = asyncio.ensure_future(consumer.fifo.replace(pods))
    turns = 0
    while not listing.done():
        consumer.drain()
        assert not consumer.fifo.has_synced
        turns += 1
        await asyncio.sleep(0)
    assert turns > len(pods)
    consumer.drain()
    assert consumer.fifo.has_synced
    assert len(consumer.known) == len(pods)
