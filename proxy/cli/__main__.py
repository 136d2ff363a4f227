"""`python -m proxy.cli`, the same as `grantproxy`."""

from proxy.cli import main

main()
