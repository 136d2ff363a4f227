"""The program's environment: what is there, less the credentials, and what leads it to the proxy. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, final

from proxy.client_env.variables import variables
from proxy.run.messages import Ready

# What a variable that holds a secret by chance could be: shorter values stand in others without meaning anything.
_TELLING_CHARACTERS: Final = 8

HOST_SOCKETS: Final = frozenset(
    {
        *("SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS"),
        *("XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DOCKER_HOST", "CONTAINER_HOST", "TMUX"),
        *("PULSE_SERVER", "SESSION_MANAGER", "LISTEN_FDS", "LISTEN_PID", "NOTIFY_SOCKET", "VSCODE_IPC_HOOK_CLI"),
        *("TMPDIR", "TMP", "TEMP"),
    }
)
"""What names things of the host that an isolated program does not reach."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What the program gets.

    Attributes:
        variables: the whole environment.
        also: what was left out because it holds the value of a variable that a secret comes from, with that one.
    """

    variables: Mapping[str, str] = field(repr=False)
    also: Mapping[str, str]


def environment(base: Mapping[str, str], ready: Ready, *, without: Iterable[str] = ()) -> Environment:
    """The environment for the program.

    Args:
        base: ours, secrets included.
        without: further names that are left out.
    """
    secret = {name: base[name] for name in ready.hidden.variables if len(base.get(name, "")) >= _TELLING_CHARACTERS}
    left = ready.hidden.variables | frozenset(without)
    also: dict[str, str] = {}
    kept: dict[str, str] = {}
    for name, text in base.items():
        if name in left:
            continue
        held = next((source for source, value in sorted(secret.items()) if value in text), None)
        if held is None:
            kept[name] = text
        else:
            also[name] = held
    own = variables(
        proxy_url=ready.addresses.proxy_url,
        files=ready.trust,
        base_urls=ready.addresses.base_urls,
        git_urls=ready.addresses.git_urls,
        environment=kept,
    )
    return Environment(variables={**kept, **own}, also=also)
