"""The credentials of the broker: where each is, by the key of its vault, and what messages call it."""

from dataclasses import dataclass
from typing import Final, final

from proxy.settings.broker_model import EgressSecret
from proxy.settings.model import Settings

KEY: Final = ":broker"
"""How the key of each of its vaults begins, which no endpoint's name does."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A credential of the broker.

    Attributes:
        name: in its vault.
        text: where it is.
        whose: what messages call it.
    """

    name: str
    text: str
    whose: str

    def called(self, _name: str) -> str:
        """What messages call it: there is one alone in its vault."""
        return self.whose


def references(settings: Settings) -> dict[str, Reference]:
    """Every credential of the broker, by the key of its vault."""
    broker = settings.broker
    if broker is None:
        return {}
    found: dict[str, Reference] = {}

    def add(key: str, name: str, text: str, whose: str) -> None:
        found[key] = Reference(name=name, text=text, whose=whose)

    if broker.anthropic is not None:
        text = broker.anthropic.service.credential
        add(f"{KEY}.anthropic", "anthropic", text, "broker: the credential of `anthropic`")
    if broker.fountain is not None:
        add(f"{KEY}.fountain", "fountain", broker.fountain.credential, "broker: the credential of `fountain`")
    for secret in broker.secrets:
        of = f" of box `{secret.box}`" if secret.box is not None else ""
        add(secret_key(secret), secret.name, secret.value, f"broker: secret `{secret.name}`{of}")
    for capability in broker.capabilities:
        name, text = capability.extra.name, capability.service.credential
        add(f"{KEY}.capabilities.{name}", name, text, f"broker: the credential of capability `{name}`")
    for box in settings.boxes:
        if box.anthropic is not None:
            whose = f"box `{box.name}`: its credential of `anthropic`"
            add(f"{KEY}.owner.{box.name}", "owner", box.anthropic.credential, whose)
    return found


def secret_key(secret: EgressSecret) -> str:
    """The key of the vault of a secret."""
    return f"{KEY}.secrets.{secret.name}" + (f".{secret.box}" if secret.box is not None else "")
