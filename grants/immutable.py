"""Values that are made for every request: immutable by the type checker, at the cost of a plain object.

A frozen dataclass sets each field through `object.__setattr__`, which takes five times as long as an assignment; a
request makes a dozen values with some hundred fields. The checker, which every change has to pass, refuses an
assignment to these just the same (PEP 681, `frozen_default`). What lives longer than a request is frozen at run time.
"""

from dataclasses import dataclass, field
from typing import dataclass_transform


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def immutable[T](cls: type[T]) -> type[T]:
    """A dataclass with slots and keyword arguments only, hashable, that nobody may assign to."""
    return dataclass(slots=True, kw_only=True, unsafe_hash=True)(cls)
