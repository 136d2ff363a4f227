"""Where credentials come from: `env:`, `file:` and `exec:` references, and the vault of one endpoint."""

from .source import EnvSource, ExecSource, FileSource, ReferenceInvalid, Source, parse_source
from .vault import EndpointVault

__all__ = [
    "EndpointVault",
    "EnvSource",
    "ExecSource",
    "FileSource",
    "ReferenceInvalid",
    "Source",
    "parse_source",
]
