"""When a worker that ended is replaced, and when no longer."""

from proxy.workers.places import MOST_QUICK_ENDS, QUICK_SECONDS, Places


def test_all_are_filled_at_once() -> None:
    """At the start nobody waits."""
    places = Places(3)
    assert places.due(0.0) == [0, 1, 2]
    for place in range(3):
        places.fill(place)
    assert (places.due(1e9), places.next) == ([], None)


def test_later_each_time_and_at_last_not_at_all() -> None:
    """The pause doubles up to two seconds; the fifth quick end in a row is one too many."""
    places, now, pauses = Places(1), 100.0, []
    places.fill(0)
    for number in range(1, MOST_QUICK_ENDS + 1):
        assert places.leave(0, 0.5, now) is (number < MOST_QUICK_ENDS)
        assert places.next is not None
        pauses.append(round(places.next - now, 3))
        assert places.due(places.next - 0.001) == []
        assert places.due(places.next) == [0]
        places.fill(0)
    assert pauses == [0.2, 0.4, 0.8, 1.6, 2.0]


def test_one_that_served_for_a_while_begins_anew() -> None:
    """Only ends in a row count, and only those of one place."""
    places = Places(2)
    for place in (0, 1):
        places.fill(place)
    for _ in range(3):
        for lived in (0.1, 0.1, 0.1, 0.1, QUICK_SECONDS):
            assert places.leave(0, lived, 0.0)
            places.fill(0)
    for _ in range(MOST_QUICK_ENDS - 1):
        assert places.leave(1, 0.1, 0.0)
        places.fill(1)
    assert places.leave(0, 0.1, 0.0)
