"""What is asked and answered: JSON of an exact size, and the grants that allow exactly that.

Paths are `/SIZE/ID`. Ids go round over 1,000 values which the grant allows by a pattern, so that no memory of whole
requests helps.
"""

import json
from typing import Any

SIZES = {"1k": 1024, "64k": 65536, "1m": 1048576}
"""Bytes of an answer, by the word that stands for it in the path."""
IDS = 1000
SECRETS = {"api": "bench-token-0123456789"} | {f"s{number}": f"other-token-{number}-9876543210" for number in range(4)}
"""What an endpoint with all checks holds; others hold the first."""
FIELDS = (("Authorization", "Bearer @secret:api"), ("Accept", "application/json"), ("User-Agent", "bench/1.0"))


def document(size: int) -> bytes:
    """A JSON object in exactly `size` bytes: records of the kind that APIs list, then padding."""
    items: list[str] = []
    left = size - len(_text(items, 0))
    while True:
        number = 1000 + len(items)
        item = _json(_item(number))
        left -= len(item) + bool(items)
        if left < 0:
            return _text(items, left + len(item) + bool(items))
        items.append(item)


def _item(number: int) -> dict[str, object]:
    """One of the list: some 300 bytes in 9 values, which is less text a value than most APIs have."""
    return {
        "id": number,
        "url": f"https://api.example.test/shops/acme/items/{number}",
        "name": f"Item number {number}",
        "description": 'Some words about the item, as a person writes them into a form; "quoted" here and there.',
        "price": 12.5,
        "tags": ["new", "small"],
        "open": True,
        "created": "2025-01-02T03:04:05Z",
    }


def _text(items: list[str], padding: int) -> bytes:
    return f'{{"id":1,"name":"widget{"x" * padding}","items":[{",".join(items)}]}}'.encode()


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def grant(sizes: list[str], *, others: int = 0, full: bool = False) -> str:
    """A grant for these sizes after so many other operations. `full`: header patterns and a whole schema."""
    before = [
        _operation(f"other-{number}", f"/other{number}/{{id}}", 65536, [_AUTHORIZATION]) for number in range(others)
    ]
    headers = [_AUTHORIZATION, *(_PATTERNS if full else _VALUES), _CHANGING]
    asked = [_operation(f"get-{size}", f"/{size}/{{id}}", 2 * SIZES[size], headers) for size in sizes]
    if full:
        for operation in asked:
            operation["response"]["schema"] = SCHEMA
    return _json({"operations": before + asked})  # one line of JSON, which is YAML: 2,000 operations have to fit


def _operation(name: str, route: str, limit: int, headers: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": name,
        "effect": "read",
        "method": "GET",
        "route": route,
        "pathParameters": {"id": {"pattern": "[0-9]{1,9}", "maxBytes": 9}},
        "headers": headers,
        "response": {
            "statuses": [200],
            "contentTypes": ["application/json"],
            "maxBytes": limit,
            "credentialDisclosure": "deny-exact",
            "json": _OBJECT,
        },
    }


_AUTHORIZATION = {"name": "Authorization", "required": True, "pattern": "Bearer @secret:[a-z0-9]+", "maxBytes": 64}
_CHANGING = {"name": "X-Request-Id", "pattern": "[0-9]+", "maxBytes": 20}
_VALUES = [{"name": "Accept", "values": ["application/json"]}, {"name": "User-Agent", "values": ["bench/1.0"]}]
_PATTERNS = [
    {"name": "Accept", "pattern": "[a-z]+/[a-z+*]+(, ?[a-z]+/[a-z+*]+)*", "maxBytes": 128},
    {"name": "User-Agent", "pattern": "[A-Za-z0-9./ ()_-]+", "maxBytes": 128},
]
_OBJECT = {
    "type": "object",
    "properties": {"id": "integer", "name": "string", "items": "array"},
    "required": ["id", "items"],
    "additionalProperties": False,
}
_ITEM = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "url": {"type": "string", "pattern": "^https://"},
        "name": {"type": "string", "maxLength": 100},
        "description": {"type": "string", "maxLength": 1000},
        "price": {"type": "number", "minimum": 0},
        "tags": {"type": "array", "items": {"enum": ["new", "small", "large"]}, "maxItems": 8},
        "open": {"type": "boolean"},
        "created": {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T"},
    },
    "required": ["id", "url", "name", "price", "tags", "open"],
    "additionalProperties": False,
}
SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": "string"},
        "items": {"type": "array", "items": _ITEM},
    },
    "required": ["id", "name", "items"],
    "additionalProperties": False,
}
"""A full schema, which holds every item of the answer."""
