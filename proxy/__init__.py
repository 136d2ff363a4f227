"""Wiring: command line, settings, listeners, secrets, log. Imports `addons` and `grants`; neither imports this."""
