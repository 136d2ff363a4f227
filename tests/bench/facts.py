"""What of the machine bears on the numbers."""

import importlib.metadata
import os
import platform
import ssl
import subprocess

from bench import nginx
from bench.processes import CORES
from bench.upstream import Upstream


def facts(upstream: Upstream) -> dict[str, str]:
    """By name, as the report tells them."""
    return {
        "machine": f"{platform.system()} {platform.machine()}, {CORES} cores, {_processor()}",
        "busy before": f"load average {os.getloadavg()[0]:.1f}",
        "Python": f"{platform.python_version()}, {ssl.OPENSSL_VERSION}, uvloop {_version('uvloop')}",
        "mitmproxy": _version("mitmproxy"),
        "nginx": _nginx(),
        "upstream": f"{upstream.kind}, TLS with a P-256 key, on loopback; shares the cores with the load and the proxy",
    }


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown processor"


def _nginx() -> str:
    if nginx.BINARY is None:
        return "not installed"
    done = subprocess.run([nginx.BINARY, "-v"], capture_output=True, text=True, check=False)
    return done.stderr.strip().rpartition("/")[2]
