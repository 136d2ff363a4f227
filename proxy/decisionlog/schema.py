"""The JSON Schema of a record: made from the words of the code, shipped as `record.schema.json`.

`python -m proxy.decisionlog.schema` writes the file; a test fails when the two differ. Each string is held to a
pattern that a path, a query, a header or a secret's value does not fit, where the field allows one.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

from addons.record import TLS_ALERT, UPSTREAM_TLS, EndedBy, Event, Mode, Signal, TlsCause
from grants.decision import Reason, Rule
from grants.model import Effect

from .lines import FIELDS

FILE = "record.schema.json"

_NAME = {"type": "string", "pattern": r"^[A-Za-z0-9._:-]{1,261}$"}  # a host stands in for a name that was left out
_HOST = {"type": "string", "pattern": r"^[a-z0-9_.:-]{1,261}$"}
_HASH = {"type": "string", "pattern": r"^[0-9a-f]{64}$"}
_OPERATION = {"type": "string", "minLength": 1, "description": "the operation's name, as the grant's author wrote it"}
_ROUTE = {"type": "string", "pattern": r"^/[^?#%\\\u0000-\u001f]*$", "description": "the template, never a path"}
_LABEL = {
    "anyOf": [
        {"enum": [side.value for side in EndedBy]},
        {"enum": [f"{UPSTREAM_TLS}{cause}" for cause in TlsCause]},
        {"type": "string", "pattern": rf"^{TLS_ALERT}[a-z-]{{1,40}}$"},
        {"type": "string", "pattern": r"^capability:[a-z][a-z0-9-]{0,62}$"},
        {"type": "string", "pattern": r"^word:[^\u0000-\u001f\u007f]{1,64}$"},
    ]
}
_LATER = frozenset({"upstream_status"})
"""What every record has, and older ones in the same file may not: a log outlives the program that began it."""
_COUNT = {"type": "integer", "minimum": 0}


def _or_null(schema: Mapping[str, object]) -> dict[str, object]:
    return {"anyOf": [dict(schema), {"type": "null"}]}


def build() -> dict[str, object]:
    """The schema (JSON Schema 2020-12)."""
    properties: dict[str, object] = {
        "id": {"type": "string", "pattern": r"^[A-Za-z0-9_-]{1,64}$"},
        "ts": {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$"},
        "seq": {"type": "integer", "minimum": 1},
        "chain": {"type": "string", "pattern": r"^[0-9a-f]{16}$"},
        "prev": dict(_HASH),
        "event": {"enum": [event.value for event in Event]},
        "mode": {"enum": [mode.value for mode in Mode]},
        "box": _or_null(_NAME),
        "endpoint": _or_null(_NAME),
        "host": _or_null(_HOST),
        "method": _or_null({"type": "string", "pattern": "^[A-Z][A-Z-]{0,31}$"}),
        "assurance": {"enum": ["semantic", "trusted-upstream", "tunnel", None]},
        "verdict": {"enum": ["allow", "deny"]},
        "rule": {"enum": [*(rule.value for rule in Rule), None]},
        "reason": {"enum": [*(word.value for word in Reason), None]},
        "operation": _or_null(_OPERATION),
        "effect": {"enum": [*(effect.value for effect in Effect), None]},
        "route": _or_null(_ROUTE),
        "resource_digest": _or_null(_HASH),
        "redirect_hops": dict(_COUNT),
        "final_host": _or_null(_HOST),
        "final_operation": _or_null(_OPERATION),
        "final_effect": {"enum": [*(effect.value for effect in Effect), None]},
        "final_route": _or_null(_ROUTE),
        "final_resource_digest": _or_null(_HASH),
        "status": _or_null({"type": "integer", "minimum": 100, "maximum": 599}),
        "upstream_status": _or_null({"type": "integer", "minimum": 100, "maximum": 599}),
        "bytes_out": dict(_COUNT),
        "bytes_in": dict(_COUNT),
        "duration_ms": {"type": "number", "minimum": 0},
        "secret_refs": {
            "type": "array",
            "uniqueItems": True,
            "items": {"type": "string", "pattern": r"^[A-Za-z0-9._/-]{1,256}$"},
        },
        "signals": {"type": "array", "uniqueItems": True, "items": {"enum": [signal.value for signal in Signal]}},
        "labels": {"type": "array", "uniqueItems": True, "items": dict(_LABEL)},
        "grant_digest": _or_null({"type": "string", "pattern": r"^sha256:[0-9a-f]{64}$"}),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:grantproxy:record",
        "title": "grantproxy decision record",
        "description": "One line of the decision log. Metadata only: no path, query, header, body or secret value.",
        "type": "object",
        "properties": {name: properties[name] for name in FIELDS},
        "required": [name for name in FIELDS if name not in _LATER],
        "additionalProperties": False,
    }


@cache
def load_schema() -> dict[str, object]:
    """The schema that ships in the package."""
    loaded: dict[str, object] = json.loads(files(__package__).joinpath(FILE).read_text("utf-8"))
    return loaded


def validate_record(record: object) -> str | None:
    """The first thing that keeps `record` from being a decision record, or None."""
    import jsonschema_rs

    try:
        jsonschema_rs.Draft202012Validator(load_schema()).validate(record)
    except jsonschema_rs.ValidationError as error:
        path = ".".join(str(part) for part in error.instance_path)
        return f"{path or 'record'}: {error.message}"
    return None


if __name__ == "__main__":
    (Path(__file__).parent / FILE).write_text(json.dumps(build(), indent=2) + "\n", "utf-8")
