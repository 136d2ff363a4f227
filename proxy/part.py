"""What a limit of the whole program is for each of the processes that share it."""


def part(whole: int, of: int) -> int:
    """An equal part of a limit, rounded up, so that each has at least 1."""
    return -(-whole // of)
