"""What the broker must remember: boxes, their last reports, visitor grants, and what each box owns at Fountain."""

from .errors import BoxExists, BoxUnknown, StoreUnavailable, StoreUnsure
from .store import Store
from .values import IssuedGrant, StoredBox, StoredReport, VisitorGrant

__all__ = [
    "BoxExists",
    "BoxUnknown",
    "IssuedGrant",
    "Store",
    "StoreUnavailable",
    "StoreUnsure",
    "StoredBox",
    "StoredReport",
    "VisitorGrant",
]
