"""What an error is made of, once it is dealt with.

A frame often holds the very error whose traceback holds the frame: a local, a list of causes, a future, `TaskGroup`
itself. Then all that these frames hold, the request and its whole connection, would stay until a collection. Nothing
shows a traceback here, since its values may be secret: so whoever deals with an error drops it.
"""


def forget(error: BaseException) -> None:
    """Drop the tracebacks of an error, and of whatever it holds or came of."""
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.__traceback__ = None
        pending += (one.__cause__, one.__context__)
        if isinstance(one, BaseExceptionGroup):
            pending += one.exceptions


def leaves(error: BaseException) -> list[BaseException]:
    """What a group of exceptions holds, however deep."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for inner in error.exceptions for leaf in leaves(inner)]


def expected(error: BaseException, kinds: tuple[type[BaseException], ...]) -> list[BaseException]:
    """What `error` holds, where all of it is of these kinds: then it is dealt with. Else it is raised again."""
    causes = leaves(error)
    if not all(isinstance(cause, kinds) for cause in causes):
        raise error
    forget(error)
    return causes


def first[E: BaseException](causes: list[BaseException], kind: type[E]) -> E | None:
    """The first of a kind."""
    return next((cause for cause in causes if isinstance(cause, kind)), None)
