"""mitmproxy's master with our chain and nothing else: none of its own addons is loaded."""

import logging
from collections.abc import Sequence

import mitmproxy.version
from mitmproxy import options
from mitmproxy.master import Master

log = logging.getLogger(__name__)

SUPPORTED = "12.3."


class SubstrateUnsupported(RuntimeError):
    """mitmproxy is of a version whose layers and hooks were not checked."""


def make_master(addons: Sequence[object]) -> Master:
    """A master with `addons` in their order. Call within a running event loop.

    Raises:
        SubstrateUnsupported: the installed mitmproxy is not the one that this was written for. Layers and `next_layer`
            are not its public interface, so another version is not tried.
    """
    if not mitmproxy.version.VERSION.startswith(SUPPORTED):
        raise SubstrateUnsupported(
            f"mitmproxy {mitmproxy.version.VERSION} is installed; this version of grantproxy needs {SUPPORTED}x"
        )
    # The watchdog only backs up the layers' own deadlines.
    master = Master(options.Options(tcp_timeout=600))
    master.addons.add(*addons)
    return master
