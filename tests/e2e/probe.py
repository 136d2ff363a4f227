"""What an isolated program finds: run by tests of `run --isolate` in its place, it prints a JSON document.

Its argument is a JSON document as well: what the host has that must not be found.
"""

import ctypes
import json
import os
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

host = json.loads(sys.argv[1])
found = {"environment": dict(os.environ)}
for name in ("NO_PROXY", "no_proxy"):  # the upstream of these tests is called localhost
    os.environ.pop(name)


def attempt(name, action):
    try:
        found[name] = action() or "done"
    except Exception as error:
        found[name] = type(error).__name__


def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.settimeout(3)
        sock.connect(address)


def send():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(1)
        sock.sendto(b"out", ("127.0.0.1", host["udp"]))
        sock.sendto(b"out", ("192.0.2.1", 53))


def call(url, **options):
    request = urllib.request.Request(url, headers={"Authorization": "Bearer @secret:api"})
    opener = urllib.request.OpenerDirector()
    for handler in (*options.get("handlers", ()), urllib.request.HTTPHandler(), urllib.request.HTTPSHandler()):
        opener.add_handler(handler)
    opener.addheaders = []
    with opener.open(request, timeout=20) as answer:
        return answer.read().decode()


target = "/repos/acme/widgets/issues?state=open"
attempt("tcp", lambda: connect(socket.AF_INET, ("127.0.0.1", host["tcp"])))
attempt("route", lambda: connect(socket.AF_INET, ("192.0.2.1", 80)))
attempt("udp", send)
attempt("dns", lambda: socket.getaddrinfo("example.com", 80))
attempt("abstract", lambda: connect(socket.AF_UNIX, "\0" + host["abstract"]))
attempt("unix", lambda: connect(socket.AF_UNIX, host["unix"]))
attempt("opt", lambda: connect(socket.AF_UNIX, host["opt"]))
attempt("base-url", lambda: call(os.environ["API_BASE_URL"] + target))
attempt(
    "forward-proxy",
    lambda: call(
        host["upstream"] + target, handlers=[urllib.request.ProxyHandler({"https": os.environ["HTTPS_PROXY"]})]
    ),
)
run = {"shell": True, "check": True, "capture_output": True, "text": True, "env": found["environment"]}
attempt("curl", lambda: subprocess.run(host["curl"], **run).stdout)

for name, path in host["read"].items():
    attempt(f"read {name}", lambda path=path: Path(path).read_bytes().decode("latin-1"))
for name, path in host["list"].items():
    attempt(f"list {name}", lambda path=path: sorted(os.listdir(path)))
for name, path in host["write"].items():
    attempt(f"write {name}", lambda path=path: Path(path).write_text("changed") and "done")
for name, (path, other) in host["rename"].items():
    attempt(f"rename {name}", lambda path=path, other=other: os.rename(path, other))


def opened(place):
    """What can be opened for writing in `place`, links left out, as those lead elsewhere."""
    for folder, folders, files in os.walk(place):
        folders[:] = [name for name in folders if not os.path.islink(os.path.join(folder, name))]
        for name in files:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                try:
                    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                except OSError:
                    continue
                yield path


def read(path):
    try:
        return Path(path).read_bytes().decode("latin-1")
    except OSError as error:
        return type(error).__name__


found["kernel"] = sorted(opened("/proc")) + sorted(opened("/sys"))
found["masked"] = {
    name: sorted(os.listdir(f"/proc/{name}")) if os.path.isdir(f"/proc/{name}") else read(f"/proc/{name}")
    for name in host["masked"]
    if os.access(f"/proc/{name}", os.F_OK) and (os.access(f"/proc/{name}", os.R_OK))
}
found["etc"] = {path: read(path) for path in host["etc"]}


def search_keys():
    libc = ctypes.CDLL(None, use_errno=True)
    number, search, session = host["keyctl"], 10, -3
    found = libc.syscall(
        ctypes.c_long(number), ctypes.c_long(search), ctypes.c_long(session), b"user", host["key"].encode(), None
    )
    if found < 0:
        raise OSError(ctypes.get_errno(), "no key")


attempt("keys", search_keys)
found["pids"] = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
found["first"] = Path("/proc/1/environ").read_bytes().decode("latin-1")
status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
found["capabilities"] = [status[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")]
found["no-new-privs"] = status["NoNewPrivs"].strip()
found["devices"] = sorted(os.listdir("/dev"))
found["work"] = os.getcwd()
found["input"] = sys.stdin.read()
found["namespaces"] = {
    name: os.readlink(f"/proc/self/ns/{name}") for name in ("net", "pid", "ipc", "uts", "mnt", "user")
}
attempt("nested", lambda: os.unshare(os.CLONE_NEWUSER))
print(json.dumps(found))
sys.exit(23)
