"""Settings: what `grantproxy serve` is told, checked in full before anything starts."""

from proxy.settings.changes import described, fixed_changes
from proxy.settings.load import SettingsInvalid, default_state, load_settings, settings_structure
from proxy.settings.model import (
    Assurance,
    Audit,
    BoxSettings,
    EndpointSettings,
    Limits,
    Listen,
    Settings,
    Sync,
    TcpListen,
    TunnelRule,
    Tunnels,
    UnixListen,
)
from proxy.settings.spec import settings_from_endpoints

__all__ = [
    "Assurance",
    "Audit",
    "BoxSettings",
    "EndpointSettings",
    "Limits",
    "Listen",
    "Settings",
    "SettingsInvalid",
    "Sync",
    "TcpListen",
    "TunnelRule",
    "Tunnels",
    "UnixListen",
    "default_state",
    "described",
    "fixed_changes",
    "load_settings",
    "settings_from_endpoints",
    "settings_structure",
]
