"""What clients are told, so that unmodified programs use the proxy: variables, and files with the CA in them."""
