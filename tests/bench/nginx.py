"""nginx, as the upstream and as the proxy to compare with: one worker, everything in a folder of its own."""

import os
import shutil
from contextlib import ExitStack
from pathlib import Path

from bench.processes import await_port, started

BINARY = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")

_CONFIG = """\
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
worker_processes 1;
worker_rlimit_nofile 8192;
{user}events {{ worker_connections 4096; }}
http {{
  access_log off;
  server_tokens off;
  types {{}}
  default_type application/json;
  keepalive_requests 1000000000;
  keepalive_timeout 300s;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/temp;
  fastcgi_temp_path {folder}/temp;
  uwsgi_temp_path {folder}/temp;
  scgi_temp_path {folder}/temp;
{http}}}
"""

_UPSTREAM = """\
  open_file_cache max=16;
  server {{
    listen 127.0.0.1:{port} ssl backlog=4096;
    ssl_certificate {chain};
    ssl_certificate_key {chain};
    ssl_protocols TLSv1.2 TLSv1.3;
    root {root};
{locations}  }}
"""

_PROXY = """\
  upstream api {{
    server 127.0.0.1:{upstream};
    keepalive 256;
    keepalive_requests 1000000000;
  }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass https://api;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host localhost:{upstream};
      proxy_ssl_verify on;
      proxy_ssl_trusted_certificate {ca};
      proxy_ssl_name localhost;
      proxy_ssl_server_name on;
      proxy_buffers 16 128k;
      proxy_buffer_size 128k;
      proxy_busy_buffers_size 256k;
      proxy_max_temp_file_size 0;
    }}
  }}
"""


def serve_files(stack: ExitStack, folder: Path, port: int, chain: Path, names: list[str]) -> int:
    """Serve `folder`/root/NAME.json for each `/NAME/ID`, over TLS; the process id."""
    root = folder / "root"
    locations = "".join(f"    location ~ ^/{name}/[0-9]+$ {{ try_files /{name}.json =404; }}\n" for name in names)
    return _start(stack, folder, port, _UPSTREAM.format(port=port, chain=chain, root=root, locations=locations))


def serve_proxy(stack: ExitStack, folder: Path, port: int, upstream: int, ca: Path) -> int:
    """Relay from http to the upstream over TLS, verified and kept alive; the process id."""
    return _start(stack, folder, port, _PROXY.format(port=port, upstream=upstream, ca=ca))


def _start(stack: ExitStack, folder: Path, port: int, http: str) -> int:
    assert BINARY is not None
    user = "user root;\n" if os.geteuid() == 0 else ""  # the worker reads files that only we may
    file, log = folder / "nginx.conf", folder / "nginx.log"
    file.write_text(_CONFIG.format(folder=folder, http=http, user=user))
    command = [BINARY, "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(file)]
    process = stack.enter_context(started(command, log))
    await_port(port, process, log)
    return process.pid
