"""What an error is made of, and that it lets go of what it has seen."""

import asyncio
import gc
import weakref

import pytest

from addons.causes import expected, first, forget, leaves
from addons.streams import ClientLeft


def raised(error: BaseException) -> BaseException:
    """The error, with a traceback."""
    try:
        raise error
    except BaseException as caught:
        return caught


def test_every_part_of_an_error_loses_its_traceback() -> None:
    """Members of groups, causes and contexts, in circles too."""
    inner, cause, context = raised(KeyError("a")), raised(ValueError("b")), raised(ClientLeft())
    inner.__cause__, cause.__context__, context.__context__ = cause, context, inner
    group = raised(BaseExceptionGroup("all", [BaseExceptionGroup("some", [inner]), raised(TimeoutError())]))
    every = [group, inner, cause, context, *leaves(group)]
    assert all(error.__traceback__ is not None for error in every)
    forget(group)
    assert all(error.__traceback__ is None for error in every)


def test_what_a_task_group_saw_is_free_behind_it() -> None:
    """`TaskGroup` holds the error that it raises, and its traceback the frame that holds it."""

    class Held:
        """Something of a request."""

    async def fail(held: Held) -> None:
        raise ClientLeft

    async def work() -> weakref.ref[Held]:
        held = Held()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail(held))
        except BaseExceptionGroup as error:
            forget(error)
        return weakref.ref(held)

    gc.disable()
    try:
        assert asyncio.run(work())() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("error", "kinds"),
    [
        pytest.param(KeyError("a"), [KeyError], id="one"),
        pytest.param(ExceptionGroup("g", [KeyError("a"), ValueError("b")]), [KeyError, ValueError], id="a group"),
        pytest.param(
            ExceptionGroup("g", [ExceptionGroup("h", [KeyError("a")]), ValueError("b")]),
            [KeyError, ValueError],
            id="a group in a group",
        ),
    ],
)
def test_leaves_are_what_happened(error: BaseException, kinds: list[type[BaseException]]) -> None:
    """However deep; the first of a kind is found among them."""
    found = leaves(error)
    assert [type(leaf) for leaf in found] == kinds
    assert first(found, KeyError) is found[0]
    assert first(found, OSError) is None


def test_an_error_is_dealt_with_only_where_all_of_it_is_expected() -> None:
    """Else it goes on as it is, with its traceback."""
    group = raised(BaseExceptionGroup("all", [raised(KeyError("a")), raised(ClientLeft())]))
    with pytest.raises(BaseExceptionGroup) as caught:
        expected(group, (ClientLeft,))
    assert caught.value is group
    assert all(leaf.__traceback__ is not None for leaf in leaves(group))
    assert expected(group, (ClientLeft, KeyError)) == leaves(group)
    assert all(error.__traceback__ is None for error in (group, *leaves(group)))
