"""`broker`: the front that speaks the broker protocol, and what it holds for boxes.

Source: docs/reference/settings.md, "Broker".
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from grants.broker.payer import PayerKind
from grants.place import Place
from grants.problems import quoted
from proxy.settings.broker_capabilities import is_word, load_capabilities
from proxy.settings.broker_egress import load_secrets
from proxy.settings.broker_model import (
    DATABASE,
    FEEDBACK,
    BoxAnthropic,
    BoxFountain,
    BrokerSettings,
    Feedback,
    FeedbackFile,
    FeedbackForward,
    FeedbackOff,
    FeedbackWithheld,
    Inference,
    SqliteDatabase,
)
from proxy.settings.broker_parts import References, load_id, load_payer, load_service, load_url
from proxy.settings.database import parse_database
from proxy.settings.grantfiles import Grants
from proxy.settings.model import BoxSettings
from proxy.settings.values import parse_listen, parse_path, read


def load_broker(
    root: Place, boxes: Sequence[BoxSettings], *, directory: Path, state: Path, grants: Grants
) -> BrokerSettings | None:
    """The broker; None where there is none, or it has problems."""
    place = root.get("broker")
    if place is None:
        return None
    references = References(directory=directory, tokens={box.token: box.name for box in boxes})
    listen = read(place.get("listen"), partial(parse_listen, directory=directory))
    word = place.get("word")
    if word and not is_word(word.text):
        word.problem(f"is {quoted(word.text)}; write 1 to 64 characters without control characters")
    database = read(place.get("database"), partial(parse_database, state=state))
    anthropic, fountain = place.get("anthropic"), place.get("fountain")
    house = load_service(anthropic, references) if anthropic else None
    payer = load_payer(anthropic, PayerKind.SHARED) if anthropic else None
    operator = load_service(fountain, references) if fountain else None
    feedback = _feedback(place.get("feedback"), state)
    secrets = load_secrets(place, references, grants)
    capabilities = load_capabilities(place, references)
    if listen is None or word is None:
        return None
    return BrokerSettings(
        listen=listen,
        word=word.text,
        database=database or SqliteDatabase(path=state / DATABASE),
        feedback=feedback,
        anthropic=Inference(service=house, payer=payer) if house and payer else None,
        fountain=operator,
        secrets=secrets,
        capabilities=capabilities,
    )


def load_box_fountain(root: Place, box: Place) -> BoxFountain | None:
    """`fountain` of a box; None where there is none."""
    place = box.get("fountain")
    if place is None:
        return None
    _needs(root, box, "fountain")
    lists = {key: _ids(place, key) for key in ("conversations", "sandboxes", "vaults")}
    return BoxFountain(agent=load_id(place.get("agent")), **lists)


def load_box_anthropic(root: Place, box: Place, references: References) -> BoxAnthropic | None:
    """`anthropic` of a box; None where there is none, or it has problems."""
    place = box.get("anthropic")
    if place is None:
        return None
    _needs(root, box, "anthropic")
    credential, payer = references.read(place.get("credential")), load_payer(place, PayerKind.OWNER)
    return BoxAnthropic(credential=credential, payer=payer) if credential else None


def _needs(root: Place, box: Place, part: str) -> None:
    """A box's share of what the broker does not serve is a mistake."""
    broker = root.get("broker")
    if broker is None or not broker.has(part):
        box.key_problem(part, f"is for the broker, which has none; add `{part}` below `broker`, or leave this out")


def _ids(place: Place, key: str) -> frozenset[str]:
    return frozenset(found for item in place.items(key) if (found := load_id(item)) is not None)


def _feedback(place: Place | None, state: Path) -> Feedback:
    usual = FeedbackFile(path=state / FEEDBACK)
    if place is None:
        return usual
    if isinstance(place.value, str):
        if place.value == "off":
            return FeedbackOff()
        place.problem(f"is {quoted(place.value)}; write `off`, or a map such as `{{file: {FEEDBACK}}}`")
        return usual
    path = read(place.get("file"), partial(parse_path, directory=state))
    url, consent = load_url(place.get("url")), place.get("consent")
    if place.has("file") and place.has("url"):
        place.key_problem("url", "is one place for feedback, and `file` is another; keep one of them")
    if consent and consent.value is False:
        return FeedbackWithheld()
    if url:
        return FeedbackForward(origin=url.origin, base=url.base)
    return FeedbackFile(path=path) if path else usual
