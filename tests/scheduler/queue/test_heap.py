"""KeyedHeap: a heap with lazy deletion behaves like a sorted list with keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.queue.heap import KeyedHeap


def heap(*items: tuple[str, int]) -> KeyedHeap[tuple[str, int]]:
    made: KeyedHeap[tuple[str, int]] = KeyedHeap(lambda item: item[1])
    for item in items:
        made.push(item[0], item)
    return made


def drained(made: KeyedHeap[tuple[str, int]]) -> list[str]:
    return [item[0] for item in iter(made.pop, None)]


def test_the_smallest_order_leaves_first_and_equals_in_order_of_arrival() -> None:
    assert drained(heap(("b", 2), ("c", 1), ("a", 2), ("d", 0))) == ["d", "c", "b", "a"]


def test_pushing_a_known_key_replaces_the_item_and_its_place() -> None:
    made = heap(("a", 1), ("b", 2))
    made.push("a", ("a", 3))
    assert len(made) == 2
    assert made.get("a") == ("a", 3)
    assert drained(made) == ["b", "a"]


def test_a_removed_key_is_gone_even_if_it_was_first() -> None:
    made = heap(("a", 1), ("b", 2))
    assert made.remove("a") == ("a", 1)
    assert made.remove("a") is None
    assert "a" not in made
    assert made.peek() == ("b", 2)


def test_an_empty_heap_has_nothing_first() -> None:
    made = heap()
    assert made.peek() is None
    assert made.pop() is None


@pytest.mark.parametrize("step", [pytest.param(1, id="later and later"), pytest.param(-1, id="earlier and earlier")])
def test_a_key_that_is_pushed_over_and_over_does_not_grow_the_heap(step: int) -> None:
    made = heap(*(("a", step * order) for order in range(10_000)))
    assert len(made._row) + len(made._heap) < 200
    assert drained(made) == ["a"]


def test_what_comes_in_order_is_never_compared_with_all_the_others() -> None:
    made = heap(*((str(order), order) for order in range(100)), ("late", 50))
    assert (len(made._row), len(made._heap)) == (100, 1)
    assert drained(made) == [*map(str, range(51)), "late", *map(str, range(51, 100))]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("push"), st.sampled_from("abcde"), st.integers(0, 3)),
            st.tuples(st.just("remove"), st.sampled_from("abcde"), st.just(0)),
            st.tuples(st.just("pop"), st.just(""), st.just(0)),
        )
    )
)
def test_any_mix_of_calls_gives_what_a_sorted_list_gives(calls: list[tuple[str, str, int]]) -> None:
    made = heap()
    model: dict[str, int] = {}
    for call, key, order in calls:
        if call == "push":
            made.push(key, (key, order))
            model.pop(key, None)
            model[key] = order
        elif call == "remove":
            assert (made.remove(key) is None) == (model.pop(key, None) is None)
        else:
            first = min(model, key=lambda k: model[k], default=None)
            popped = made.pop()
            assert (popped[0] if popped else None) == first
            model.pop(first or "", None)
        assert {item[0] for item in made} == set(model)
