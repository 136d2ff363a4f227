"""The names of the variables that lead clients to the proxy. Each is here because a client was seen to need it."""

PROXY = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
"""What holds the proxy's URL; each in lower case too, as curl reads `http_proxy` and others only capitals."""

NO_PROXY = ("NO_PROXY", "no_proxy")
LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""What they hold in any case: a client's own machine."""

BUNDLE = (
    "SSL_CERT_FILE",  # OpenSSL, Python's ssl, httpx, aiohttp, Go, gh, uv
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "AWS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
    "DENO_CERT",
    "npm_config_cafile",
    "NODE_EXTRA_CA_CERTS",  # added to Node's own; the others replace what the client has
)
"""What holds the file with the system's authorities and ours."""

NODE_PROXY = "NODE_USE_ENV_PROXY"
WGETRC = "WGETRC"
JAVA = "JAVA_TOOL_OPTIONS"
GIT_COUNT = "GIT_CONFIG_COUNT"

RESERVED = frozenset(
    {*PROXY, *(name.lower() for name in PROXY), *NO_PROXY, *BUNDLE, NODE_PROXY, WGETRC, JAVA, GIT_COUNT}
)
"""What no base URL can be put into."""
