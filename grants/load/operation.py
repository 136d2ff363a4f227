"""One operation. Source: "Grant file" in the specification."""

import re

from grants.model import Effect, Operation
from grants.place import Place

from .payload import load_body, load_response
from .redirects import load_origins
from .route import load_route
from .rules import load_headers, load_query

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


def load_operation(place: Place) -> Operation | None:
    """The operation, or None when it lacks something that it cannot be built without. Problems go to the report."""
    name, effect, method = place.get("name"), place.get("effect"), place.get("method")
    if name:
        if not name.text.strip():
            name.problem("is blank; write a name, such as `list-open-issues`")
        elif _CONTROL.search(name.text):
            name.problem("holds a control character; write a name on one line")
    route, query, headers = load_route(place), load_query(place), load_headers(place)
    body, response = load_body(place), load_response(place)
    origins = frozenset(load_origins(place, "origins")) if place.has("origins") else None
    if name is None or effect is None or method is None or route is None or response is None:
        return None
    return Operation(
        name=name.text,
        effect=Effect(effect.text),
        method=method.text,
        route=route,
        response=response,
        query=query,
        headers=headers,
        body=body,
        origins=origins,
    )
