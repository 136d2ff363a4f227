"""The one way in which isolating a program is refused."""


class IsolationRefused(Exception):
    """The program cannot be isolated as asked. The text says why, and what would help."""
