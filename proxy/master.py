"""What holds our chain for mitmproxy: its addon manager and its options, and nothing else of it.

mitmproxy's own `Master` brings every addon that it has, with a web server, LDAP and QUIC: to import them takes longer
than all the rest of a start.
"""

from collections.abc import Sequence
from typing import final

import mitmproxy.version
from mitmproxy import hooks, options
from mitmproxy.addonmanager import AddonManager
from mitmproxy.command import CommandManager

SUPPORTED = "12.3."


class SubstrateUnsupported(RuntimeError):
    """mitmproxy is of a version whose layers and hooks were not checked."""


@final
class Master:
    """Stands in for `mitmproxy.master.Master` where its addon manager needs one.

    Raises:
        SubstrateUnsupported: the installed mitmproxy is not the one that this was written for. Layers and `next_layer`
            are not its public interface, so another version is not tried.
    """

    def __init__(self, addons: Sequence[object]) -> None:
        if not mitmproxy.version.VERSION.startswith(SUPPORTED):
            raise SubstrateUnsupported(
                f"mitmproxy {mitmproxy.version.VERSION} is installed; this version of grantproxy needs {SUPPORTED}x"
            )
        self.options = options.Options()
        self.commands = CommandManager(self)
        self.addons = AddonManager(self)
        self.addons.add(*addons)

    async def done(self) -> None:
        """Tell the addons that the program ends."""
        await self.addons.trigger_event(hooks.DoneHook())
