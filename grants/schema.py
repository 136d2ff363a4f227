"""Full JSON Schemas (2020-12) of bodies, compiled once when a grant is loaded.

Nothing is ever fetched: the retriever refuses, so that a `$ref` stays within the file. Patterns run on an engine
that is linear in the text. Source: JSON Schema 2020-12; extension S in docs/reference/grants.md.
"""

from typing import Any, NoReturn, final

import jsonschema_rs

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PATTERN_BYTES = 1024 * 1024


class SchemaInvalid(ValueError):
    """Not a JSON Schema 2020-12 that can be compiled without leaving the file.

    Attributes:
        path: keys and indices of the place in the schema, as far as it is known.
    """

    def __init__(self, message: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.path = path


@final
class Schema:
    """A compiled schema.

    Raises:
        SchemaInvalid: `definition` is no JSON Schema 2020-12, names another dialect, holds a pattern that is not
            linear, or refers to something outside itself.
    """

    __slots__ = ("_validator",)

    def __init__(self, definition: Any) -> None:
        _refuse_other_dialects(definition, ())
        try:
            self._validator = jsonschema_rs.Draft202012Validator(
                definition,
                retriever=_refuse,
                pattern_options=jsonschema_rs.RegexOptions(size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES),
            )
        except jsonschema_rs.ValidationError as error:
            raise SchemaInvalid(_first_line(error.message), tuple(error.instance_path)) from None
        except Exception as error:
            raise SchemaInvalid(_first_line(str(error))) from None

    def first_error(self, value: Any) -> str | None:
        """The first keyword that `value` does not satisfy, or None.

        The text names the keyword's place in the schema and holds nothing of `value`.
        """
        try:
            # Most values hold, which takes less to find out than what does not.
            if self._validator.is_valid(value):
                return None
            error = next(iter(self._validator.iter_errors(value)))
        except Exception:
            # A value that the engine cannot even read (a lone surrogate, say) satisfies nothing.
            return "the value cannot be held to the schema"
        *place, keyword = [str(step) for step in error.schema_path] or ["false"]
        return f"`{keyword}` at `/{'/'.join(place)}` of the schema does not hold"


def _refuse(uri: str) -> NoReturn:
    raise ValueError("a reference leaves the file")


def _first_line(text: str) -> str:
    return text.split("\n", 1)[0]


def _refuse_other_dialects(definition: Any, path: tuple[str | int, ...]) -> None:
    """An embedded `$schema` switches the meaning of the keywords beside it, so only ours may stand."""
    if isinstance(definition, dict):
        named = definition.get("$schema")
        if isinstance(named, str) and named.removesuffix("#") != DIALECT:
            raise SchemaInvalid(f"`$schema` is not `{DIALECT}`", (*path, "$schema"))
        for key, child in definition.items():
            _refuse_other_dialects(child, (*path, key))
    elif isinstance(definition, list):
        for index, child in enumerate(definition):
            _refuse_other_dialects(child, (*path, index))
