"""What was found out about one block of fields, for the next request that brings the very same block.

On a kept connection a client repeats its fields byte for byte, and the same operation reads them the same way again. So
whoever reads the requests of a connection hangs a memory on the heads whose fields are one object, and the judges look
there first. What is remembered follows from the fields alone, or from the fields and an operation of a loaded grant,
which is the same operation only if it is the same object: a reload makes new ones, and the old one is held here, so
none can come to stand in its place. A head made from another has fields of its own, for which a memory says nothing.
"""

from dataclasses import dataclass, field
from typing import final

from .decision import Deny
from .framing import Framing, read_framing
from .immutable import immutable
from .message import Fields, RequestHead
from .model import Operation


@final
@immutable
class Verdict:
    """What an operation says of the fields.

    Attributes:
        operation: compared by identity.
        strip: undeclared fields were left out instead of denied.
        credential: references may be sent where the request went.
        fields: what goes upstream, or the refusal.
    """

    operation: Operation
    strip: bool
    credential: bool
    fields: Fields | Deny = field(repr=False)


@final
@dataclass(slots=True, kw_only=True, eq=False)
class Memo:
    """A memory of one block of fields, with room for one answer to each question.

    Belongs to one connection: it is never handed to another, and goes with it.

    Attributes:
        fields: the block; nothing is said of any other, be it equal.
        verdict: that of the operation that judged the block last.
        free_of: a box's token that does not stand in the block in any form that is looked for.
    """

    fields: Fields = field(repr=False)
    verdict: Verdict | None = None
    free_of: bytes | None = field(default=None, repr=False)
    _framing: Framing | Deny | None = field(default=None, repr=False)

    @property
    def framing(self) -> Framing | Deny:
        """`read_framing` of the block."""
        if self._framing is None:
            self._framing = read_framing(self.fields)
        return self._framing

    def judged(self, operation: Operation, *, strip: bool, credential: bool) -> Fields | Deny | None:
        """The verdict on exactly this question, or None when the last one was on another."""
        last = self.verdict
        if last is None or last.operation is not operation or last.strip != strip or last.credential != credential:
            return None
        return last.fields


def memo_of(head: RequestHead) -> Memo:
    """The memory that a head carries, if it is about the head's own fields; else an empty one."""
    memo = head.memo
    return memo if memo is not None and memo.fields is head.fields else Memo(fields=head.fields)
