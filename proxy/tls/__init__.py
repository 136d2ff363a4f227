"""TLS towards clients of the forward proxy: the installation's own CA, and leaves for the hosts of endpoints."""
