"""The demo: a sample API over TLS on loopback, a proxy in front of it, and calls that show what a grant does."""
