"""Settings of the broker: what each key means, and what is refused with its place and its remedy."""

# ruff: noqa: E501 - one case is one row

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.certificates import make_certificates

from grants.broker.extra import PathPattern, Scope
from grants.broker.payer import Payer, PayerKind
from grants.message import Origin
from proxy.settings import Audit, Limits, Settings, SettingsInvalid, TcpListen, UnixListen, fixed_changes, load_settings
from proxy.settings.broker_model import (
    BoxAnthropic,
    BoxFountain,
    BrokerSettings,
    EgressSecret,
    FeedbackFile,
    FeedbackForward,
    FeedbackOff,
    FeedbackWithheld,
    Inference,
    PostgresDatabase,
    Service,
    SqliteDatabase,
)
from proxy.settings.database import parse_database
from proxy.settings.terms import Terms
from proxy.settings.values import ValueInvalid

ROOT = Path(__file__).parents[3]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "github.grant.yaml").write_text((ROOT / "examples" / "github-issues.grant.yaml").read_text())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def broker(more: str = "", *, listen: str = "127.0.0.1:9100", before: str = "") -> str:
    """Settings with a broker: `broker:` in line 2 (after `before`), its own keys from column 3, `more` from line 5."""
    return f"state: st\n{before}broker:\n  listen: {listen}\n  word: lobby\n{more}"


def loaded(here: Path, text: str) -> Settings:
    (here / "s.yaml").write_text(text)
    return load_settings(Path("s.yaml"))


def its(here: Path, text: str) -> BrokerSettings:
    found = loaded(here, text).broker
    assert found is not None
    return found


def told(here: Path, text: str) -> list[str]:
    with pytest.raises(SettingsInvalid) as caught:
        loaded(here, text)
    return str(caught.value).splitlines()


# --- what the keys mean ---


def test_the_reference_s_example_loads(here: Path) -> None:
    """Every key of the page's broker means what the page says."""
    page = (ROOT / "docs" / "reference" / "settings.md").read_text()
    found = loaded(here, page.split("## Broker")[1].split("```yaml\n")[1].split("```")[0])
    served = found.broker
    assert served is not None
    assert (served.listen, served.word) == (TcpListen(host="127.0.0.1", port=9100), "lobby")
    assert served.database == SqliteDatabase(path=here / "state/broker.db")
    anthropic = Service(
        origin=Origin(scheme="https", host="api.anthropic.com", port=443),
        base=(),
        credential="env:ANTHROPIC_API_KEY",
        terms=Terms(concurrent=64, connect=5.0, total=7200.0, idle=1200.0),
    )
    assert served.anthropic == Inference(service=anthropic, payer=Payer(kind=PayerKind.SHARED))
    assert served.fountain == Service(
        origin=Origin(scheme="https", host="fountain.example", port=443), base=(), credential="env:FOUNTAIN_KEY"
    )
    assert served.feedback == FeedbackFile(path=here / "state/feedback.jsonl")
    stripe, github = served.secrets
    host = Origin(scheme="https", host="api.stripe.com", port=443)
    assert stripe == EgressSecret(name="STRIPE", box="agent-1", host=host, value="env:STRIPE_KEY")
    assert (github.box, github.grant_path) == (None, Path("github.grant.yaml"))
    assert github.grant is not None
    (search,) = served.capabilities
    assert (search.extra.name, search.extra.routes, search.header) == ("search", (b"/search",), "X-Api-Key")
    assert search.extra.scopes == (
        Scope(method=b"GET", path=PathPattern(segments=(b"search", b"v1", b"query")), words=("read",)),
    )
    assert (search.service.origin.host, search.service.credential) == ("search.example", "env:SEARCH_KEY")
    (box,) = found.boxes
    assert box.fountain == BoxFountain(agent="a-1", conversations=frozenset({"c-1"}), vaults=frozenset({"v-1"}))
    owner = Payer(kind=PayerKind.OWNER, principal="github:owner")
    assert box.anthropic == BoxAnthropic(credential="env:OWNER_KEY", payer=owner)
    assert found.endpoints == ()


def test_a_part_that_is_left_out_is_not_served(here: Path) -> None:
    """Nothing but feedback is served by itself; the database is a file below the state directory."""
    assert its(here, broker()) == BrokerSettings(
        listen=TcpListen(host="127.0.0.1", port=9100),
        word="lobby",
        database=SqliteDatabase(path=here / "st/broker.db"),
        feedback=FeedbackFile(path=here / "st/feedback.jsonl"),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("off", FeedbackOff(), id="off"),
        pytest.param("{consent: false}", FeedbackWithheld(), id="no-consent"),
        pytest.param("{consent: false, file: a}", FeedbackWithheld(), id="no-consent-goes-first"),
        pytest.param("{consent: true, file: a}", FeedbackFile(path=Path("st/a")), id="file"),
        pytest.param("{file: /a/b}", FeedbackFile(path=Path("/a/b")), id="whole-path"),
        pytest.param("{}", FeedbackFile(path=Path("st/feedback.jsonl")), id="empty"),
        pytest.param(
            "{url: 'http://localhost:1/in'}",
            FeedbackForward(origin=Origin(scheme="http", host="localhost", port=1), base=("in",)),
            id="url",
        ),
    ],
)
def test_where_feedback_goes(here: Path, text: str, expected: object) -> None:
    """A file, a URL, nowhere, or refused for want of consent."""
    found = its(here, broker(f"  feedback: {text}\n")).feedback
    if isinstance(found, FeedbackFile) and found.path.is_relative_to(here):
        found = FeedbackFile(path=found.path.relative_to(here))
    assert found == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", Payer(kind=PayerKind.SHARED), id="left-out"),
        pytest.param(", payer: {kind: owner}", Payer(kind=PayerKind.OWNER), id="kind"),
        pytest.param(", payer: {kind: shared, principal: ~}", Payer(kind=PayerKind.SHARED), id="tilde"),
        pytest.param(
            ", payer: {kind: shared, principal: 'null'}",
            Payer(kind=PayerKind.SHARED, principal="null"),
            id="somebody-called-null",
        ),
        pytest.param(
            ", payer: {kind: shared, principal: github:ada}",
            Payer(kind=PayerKind.SHARED, principal="github:ada"),
            id="somebody",
        ),
    ],
)
def test_who_pays(here: Path, text: str, expected: Payer) -> None:
    """The house's credential is shared, and nobody is named, unless the settings say so."""
    served = its(here, broker(f"  anthropic: {{url: 'https://a.example', credential: env:K{text}}}\n")).anthropic
    assert served is not None
    assert served.payer == expected


SOMEWHERE = "https://a.example"
UPSTREAMS = [
    pytest.param("  anthropic: {{url: {url}, credential: env:K{more}}}\n", id="anthropic"),
    pytest.param("  fountain: {{url: {url}, credential: env:K{more}}}\n", id="fountain"),
    pytest.param("  secrets: [{{name: K, host: {url}, value: env:K{more}}}]\n", id="secret"),
    pytest.param(
        "  capabilities: [{{name: k, routes: [/k], scopes: [{{method: GET, path: /k/x, words: []}}], "
        "upstream: {{url: {url}, credential: {{header: X-K, value: env:K}}{more}}}}}]\n",
        id="capability",
    ),
]


def terms_of(served: BrokerSettings) -> Terms:
    """Those of the one upstream that there is."""
    found = [served.anthropic.service.terms] if served.anthropic else []
    found += [served.fountain.terms] if served.fountain else []
    found += [secret.terms for secret in served.secrets]
    found += [capability.service.terms for capability in served.capabilities]
    (terms,) = found
    return terms


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param("", Terms(), id="left-out"),
        pytest.param(", concurrent: 3", Terms(concurrent=3), id="concurrent"),
        pytest.param(", timeout: {connect: 2s}", Terms(connect=2.0), id="connect"),
        pytest.param(", timeout: {total: 3s}", Terms(total=3.0), id="total"),
        pytest.param(", timeout: {idle: 500ms}", Terms(idle=0.5), id="idle"),
        pytest.param(", ca: ca.pem", Terms(ca=Path("ca.pem")), id="ca"),
    ],
)
def test_how_an_upstream_is_called(here: Path, upstream: str, more: str, expected: Terms) -> None:
    """The keys of an endpoint, at each upstream of the broker."""
    make_certificates(here).ca.rename(here / "ca.pem")
    assert terms_of(its(here, broker(upstream.format(url=SOMEWHERE, more=more)))) == expected


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize(
    ("url", "more", "expected"),
    [
        pytest.param(SOMEWHERE, ", concurrent: 0", "concurrent", id="no-request"),
        pytest.param(SOMEWHERE, ", timeout: {connect: 5}", "is `5`; write a number and its unit", id="no-unit"),
        pytest.param(SOMEWHERE, ", timeout: {read: 5s}", "is an unknown key", id="unknown"),
        pytest.param(
            SOMEWHERE, ", ca: none.pem", "`none.pem` does not exist; write the path of a PEM bundle", id="no-file"
        ),
        pytest.param(
            SOMEWHERE, ", ca: s.yaml", "`s.yaml` holds no certificate; write the path of a PEM bundle", id="no-pem"
        ),
        pytest.param("http://a.example", ", ca: ca.pem", "is for an https upstream; leave it out", id="http"),
    ],
)
def test_what_an_upstream_cannot_be_called_by(here: Path, upstream: str, url: str, more: str, expected: str) -> None:
    """Refused at its place, as an endpoint's is."""
    make_certificates(here).ca.rename(here / "ca.pem")
    (line,) = told(here, broker(upstream.format(url=url, more=more)))
    assert expected in line


def test_under_a_grant_there_is_no_stream_that_could_be_idle(here: Path) -> None:
    """What bounds a judged exchange is its total time."""
    text = "  secrets: [{name: K, host: 'https://api.github.com', value: env:K, grant: github.grant.yaml, timeout: {idle: 1s}}]\n"
    (line,) = told(here, broker(text))
    assert line.endswith("is for relayed streams; leave it out, `total` is the bound under a grant")


@pytest.mark.parametrize("listen", ["0.0.0.0:9100", "'[::]:9100'", "unix:sock"])
def test_the_broker_may_listen_anywhere(here: Path, listen: str) -> None:
    """Every request there shows a box's token, whether or not the settings list boxes."""
    assert isinstance(its(here, broker(listen=listen)).listen, TcpListen | UnixListen)


def test_a_box_s_own_secret_goes_first(here: Path) -> None:
    """Of one name a box has its own, and others have everybody's."""
    rows = [
        "{name: K, host: 'https://all.example', value: env:ALL}",
        "{name: K, host: 'https://own.example', value: env:OWN, box: a}",
        "{name: L, host: 'https://all.example', value: env:ALL}",
    ]
    served = its(here, broker("  secrets:\n" + "".join(f"    - {row}\n" for row in rows)))
    assert [(secret.name, secret.value) for secret in served.secrets_of("a")] == [("K", "env:OWN"), ("L", "env:ALL")]
    assert [(secret.name, secret.value) for secret in served.secrets_of("b")] == [("K", "env:ALL"), ("L", "env:ALL")]


@pytest.mark.parametrize(
    ("text", "path", "shown"),
    [
        pytest.param("sqlite:///b.db", "st/b.db", "sqlite:///st/b.db", id="relative"),
        pytest.param("sqlite:////b/c.db", "/b/c.db", "sqlite:////b/c.db", id="whole"),
        pytest.param("sqlite:///../b.db", "st/../b.db", "sqlite:///st/../b.db", id="outside"),
    ],
)
def test_sqlite_is_a_file(text: str, path: str, shown: str) -> None:
    """Three slashes: relative to the state directory; four: a whole path."""
    database = parse_database(text, state=Path("st"))
    assert (database, str(database)) == (SqliteDatabase(path=Path(path)), shown)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("postgresql://db.example/b", "postgresql://db.example/b", id="plain"),
        pytest.param("postgresql://u@db.example:5433/b", "postgresql://u@db.example:5433/b", id="user"),
        pytest.param("postgresql://u:hunter2@db.example/b", "postgresql://u:***@db.example/b", id="password"),
        pytest.param("postgresql://u:hunter2@x@db/b", "postgresql://u:***@db/b", id="password-with-an-at"),
        pytest.param("postgresql:///b?host=/run/pg&password=hunter2", "postgresql:///b?host=/run/pg", id="socket"),
    ],
)
def test_postgresql_is_shown_without_its_password(text: str, shown: str) -> None:
    """The URL is kept as it was written, and printed without what may be a password."""
    database = parse_database(text, state=Path("st"))
    assert isinstance(database, PostgresDatabase)
    assert (database.url, str(database)) == (text, shown)
    assert "hunter2" not in repr(database)


@given(st.text() | st.text().map("postgresql://{}".format) | st.text().map("sqlite:///{}".format))
@settings(deadline=None, max_examples=200)
def test_any_text_is_a_database_or_refused_in_silence(text: str) -> None:
    """One error type, whose text holds nothing of the value; what is taken can be shown."""
    said = ""
    try:
        assert str(parse_database(text, state=Path("st")))
    except ValueInvalid as invalid:
        said = str(invalid)
    assert not said or said.replace(DATABASE, "") in SAID


# --- what is refused ---

REFERENCE = "does not say where the secret is; write `env:NAME`, `file:PATH` or `exec:COMMAND`"
URL = "is not a URL; write `https://host`"
SAID = {
    "is no database's URL; ",
    "has a `#` that is not encoded, or a port of 0; ",
    "has a host or a port that cannot be read; ",
    "holds white space or a control character; ",
    "names a driver, which is not chosen here, or no known database; ",
    "names no SQLite file; write `sqlite:///broker.db`, or four slashes for a whole path",
}
DATABASE = "write `sqlite:///broker.db` or `postgresql://user@host/name`"


def secret(**fields: str) -> str:
    """A broker with one secret in line 6, each key's value as YAML."""
    row = {"name": "K", "host": "'https://h.example'", "value": "env:V"} | fields
    return broker("  secrets:\n    - {" + ", ".join(f"{key}: {value}" for key, value in row.items() if value) + "}\n")


def capability(
    name: str = "search",
    routes: str = "[/search]",
    path: str = "/search/q",
    words: str = "[read]",
    header: str = "X-Key",
    method: str = "GET",
) -> str:
    """A broker with one capability: its name in line 6, routes 7, header and value in 8, the scope in 10."""
    return broker(
        f"  capabilities:\n    - name: {name}\n      routes: {routes}\n"
        f"      upstream: {{url: 'https://s.example', credential: {{header: {header}, value: env:S}}}}\n"
        f"      scopes:\n        - {{method: {method}, path: {path}, words: {words}}}\n"
    )


C = "broker.capabilities[0]."
REFUSED = [
    pytest.param(
        "state: st\n",
        [
            "s.yaml:1:1: endpoints: is missing; add a list: the upstreams that may be used, such as `- upstream: https://api.github.com`"
        ],
        id="neither-endpoints-nor-broker",
    ),
    pytest.param(
        "broker: {}\n",
        [
            "s.yaml:1:9: broker.listen: is missing; add a text: the broker's address, such as `127.0.0.1:9100`",
            "s.yaml:1:9: broker.word: is missing; add a text: the broker word that boxes' reports must name, such as `lobby`",
        ],
        id="empty",
    ),
    pytest.param(
        broker(listen="9100"),
        ["s.yaml:3:11: broker.listen: is not a listen address; write `127.0.0.1:8080`, `[::1]:8080` or `unix:path`"],
        id="listen",
    ),
    pytest.param(
        broker(before="admin: 127.0.0.1:9100\n"),
        ["s.yaml:4:11: broker.listen: is the address of `admin` already; choose another port"],
        id="listen-twice",
    ),
    pytest.param(
        "broker:\n  listen: 127.0.0.1:1\n  word: ''\n",
        ["s.yaml:3:9: broker.word: is ``; write 1 to 64 characters without control characters"],
        id="word",
    ),
    pytest.param(
        broker("  databse: x\n"),
        ["s.yaml:5:3: broker.databse: is an unknown key; did you mean `database`?"],
        id="unknown-key",
    ),
    *(
        pytest.param(broker(f"  database: {url}\n"), [f"s.yaml:5:13: broker.database: {what}"], id=f"database-{index}")
        for index, (url, what) in enumerate(
            [
                ("hunter2", f"is no database's URL; {DATABASE}"),
                ("mysql://u:hunter2@h/b", f"is no database's URL; {DATABASE}"),
                (
                    "postgresql+asyncpg://u:hunter2@h/b",
                    f"names a driver, which is not chosen here, or no known database; {DATABASE}",
                ),
                (
                    "postgres://u:hunter2@h/b",
                    f"names a driver, which is not chosen here, or no known database; {DATABASE}",
                ),
                ("'postgresql://u:hunter2 @h/b'", f"holds white space or a control character; {DATABASE}"),
                ("'postgresql://u:hunter2@h:99999/b'", f"has a host or a port that cannot be read; {DATABASE}"),
                ("'postgresql://u:hunter2@h/b#c'", f"has a `#` that is not encoded, or a port of 0; {DATABASE}"),
                ("'postgresql://u:hunter2@[h/b'", f"has a host or a port that cannot be read; {DATABASE}"),
                *(
                    (text, "names no SQLite file; write `sqlite:///broker.db`, or four slashes for a whole path")
                    for text in (
                        "'sqlite://'",
                        "'sqlite:///'",
                        "sqlite://b.db",
                        "'sqlite:///:memory:'",
                        "'sqlite:///b.db?mode=ro'",
                        "'sqlite:///b/'",
                    )
                ),
            ]
        )
    ),
    pytest.param(
        broker("  anthropic: {url: hunter2, credential: hunter2}\n  fountain: {}\n"),
        [
            f"s.yaml:5:20: broker.anthropic.url: {URL}",
            f"s.yaml:5:41: broker.anthropic.credential: {REFERENCE}",
            "s.yaml:6:13: broker.fountain.url: is missing; add a text: where it is, such as `https://fountain.example`",
            "s.yaml:6:13: broker.fountain.credential: is missing; add a text: where the operator's key is, such as `env:FOUNTAIN_KEY`",
        ],
        id="upstreams",
    ),
    pytest.param(
        broker("  anthropic: {url: 'https://a', credential: env:K, payer: {kind: visitor, principal: a b}}\n"),
        [
            "s.yaml:5:66: broker.anthropic.payer.kind: `visitor` is said by a visitor's grant alone; write `shared` or `owner`",
            "s.yaml:5:86: broker.anthropic.payer.principal: is not 1 to 200 visible ASCII characters; write such as `github:login`, or `null`",
        ],
        id="payer",
    ),
    pytest.param(
        broker("  anthropic: {url: 'https://a', credential: env:K, payer: {principal: é}}\n"),
        [
            "s.yaml:5:59: broker.anthropic.payer.kind: is missing; add one of `shared`, `owner`: whose credential it is",
            "s.yaml:5:71: broker.anthropic.payer.principal: is not 1 to 200 visible ASCII characters; write such as `github:login`, or `null`",
        ],
        id="payer-without-a-kind",
    ),
    pytest.param(
        broker("  feedback: on\n"),
        ["s.yaml:5:13: broker.feedback: is `on`; write `off`, or a map such as `{file: feedback.jsonl}`"],
        id="feedback",
    ),
    pytest.param(
        broker("  feedback: {file: a, url: 'https://a'}\n"),
        ["s.yaml:5:23: broker.feedback.url: is one place for feedback, and `file` is another; keep one of them"],
        id="feedback-twice",
    ),
    pytest.param(
        broker('  feedback: {file: "a\\0"}\n'),
        ["s.yaml:5:20: broker.feedback.file: is empty or holds a NUL; write a path"],
        id="feedback-nul",
    ),
    # secrets
    pytest.param(
        broker("  secrets: [{}]\n"),
        [
            "s.yaml:5:13: broker.secrets[0].name: is missing; add a text: what the scope of `egress` lists, such as `STRIPE`",
            "s.yaml:5:13: broker.secrets[0].host: is missing; add a text: the one host that it may be sent to, such as `https://api.stripe.com`",
            "s.yaml:5:13: broker.secrets[0].value: is missing; add a text: where it is, such as `env:STRIPE_KEY`",
        ],
        id="empty-secret",
    ),
    *(
        pytest.param(
            secret(name=name),
            [
                f"s.yaml:6:14: broker.secrets[0].name: is `{shown}`; write at most 40 of `A` to `Z`, `0` to `9` and `_`, a letter first"
            ],
            id=f"secret-name-{index}",
        )
        for index, (name, shown) in enumerate(
            [("stripe", "stripe"), ("1A", "1A"), ("A-B", "A-B"), ("A" * 41, "A" * 41), ('"A\\n"', "A\\n")]
        )
    ),
    pytest.param(secret(value="hunter2"), [f"s.yaml:6:51: broker.secrets[0].value: {REFERENCE}"], id="secret-value"),
    pytest.param(
        secret(host="'https://h.example/v1'"),
        ["s.yaml:6:23: broker.secrets[0].host: has a path, and a secret is for a whole host; leave the path out"],
        id="secret-path",
    ),
    pytest.param(
        secret(host="'http://h.example'", grant="github.grant.yaml"),
        ["s.yaml:6:23: broker.secrets[0].host: is not https, which a semantic endpoint needs; write `https://host`"],
        id="secret-grant-over-http",
    ),
    pytest.param(
        secret(grant="none.yaml"),
        ["s.yaml:6:65: broker.secrets[0].grant: `none.yaml` does not exist; write the path of a grant file"],
        id="secret-without-its-grant",
    ),
    pytest.param(
        secret(box="a/b"),
        [
            "s.yaml:6:63: broker.secrets[0].box: is `a/b`, which is no box's name; write the name of one, or leave it out"
        ],
        id="secret-of-no-box",
    ),
    pytest.param(
        secret() + "    - {name: K, host: 'https://i.example', value: env:W}\n",
        [
            "s.yaml:7:14: broker.secrets[1].name: is `K`, as the secret in line 6, for the same boxes; name it differently"
        ],
        id="secret-twice",
    ),
    pytest.param(
        secret(name="ANTHROPIC") + "  anthropic: {url: 'https://a', credential: env:K}\n",
        [
            "s.yaml:6:14: broker.secrets[0].name: is `ANTHROPIC`, whose variables are those of `broker.anthropic`; name it differently"
        ],
        id="secret-with-the-name-of-inference",
    ),
    pytest.param(
        broker(
            "  secrets: [{name: K, host: 'https://h', value: env:T}]\n  fountain: {url: 'https://f', credential: env:T}\n",
            before="boxes: [{name: a, token: env:T}]\n",
        ),
        [
            "s.yaml:6:49: broker.secrets[0].value: is the token of box `a` too, which no upstream may receive; name another secret",
            "s.yaml:7:44: broker.fountain.credential: is the token of box `a` too, which no upstream may receive; name another secret",
        ],
        id="secret-that-is-a-token",
    ),
    # capabilities
    pytest.param(
        broker("  capabilities: [{}]\n"),
        [
            "s.yaml:5:18: broker.capabilities[0].name: is missing; add a text: what reports call it, such as `search`",
            "s.yaml:5:18: broker.capabilities[0].routes: is missing; add a list: what its paths begin with, such as `- /search`",
            "s.yaml:5:18: broker.capabilities[0].upstream: is missing; add a map: where its requests go, such as `url: https://search.example`",
            "s.yaml:5:18: broker.capabilities[0].scopes: is missing; add a list: which words a request needs; one that is in no entry is a 404, such as `- method: GET`",
        ],
        id="empty-capability",
    ),
    pytest.param(
        capability(name="Search"),
        [f"s.yaml:6:13: {C}name: is `Search`; write at most 63 of `a` to `z`, `0` to `9` and `-`, a letter first"],
        id="capability-name",
    ),
    pytest.param(
        capability(name="egress"),
        [f"s.yaml:6:13: {C}name: is `egress`, which is the protocol's own; name it differently"],
        id="capability-of-the-protocol",
    ),
    *(
        pytest.param(
            capability(routes=f"[/search, {route}]"),
            [f"s.yaml:7:25: {C}routes[1]: is `{route}`; write the path that they begin with, such as `/search`"],
            id=f"route-{index}",
        )
        for index, route in enumerate(["search", "/", "/a//b", "/a/../b", "/a/%41", "/a?b"])
    ),
    *(
        pytest.param(
            capability(routes=f"[/search, {route}]"),
            [
                f"s.yaml:7:25: {C}routes[1]: is `{route}`, below the protocol's own `/{route.split('/')[1]}`; choose another path"
            ],
            id=f"route-of-the-protocol-{index}",
        )
        for index, route in enumerate(["/api", "/api/x", "/llm/x", "/decide", "/egress", "/fountain/x"])
    ),
    pytest.param(
        capability(routes="[/search, /search/v2]"),
        [f"s.yaml:7:25: {C}routes[1]: is `/search/v2`, which meets `/search` of `search`; keep them apart"],
        id="route-twice",
    ),
    pytest.param(
        capability(path="/other"),
        [
            f"s.yaml:10:31: {C}scopes[0].path: is `/other`, below none of `routes`; add the prefix there, or correct this"
        ],
        id="path-outside",
    ),
    pytest.param(
        capability(path="/search/**/x"),
        [
            f"s.yaml:10:31: {C}scopes[0].path: is `/search/**/x`: `**` is not a segment; write it literally, as `{{name}}`, or `**` at the end"
        ],
        id="path-pattern",
    ),
    pytest.param(
        capability(method="get"),
        [
            f"s.yaml:10:20: {C}scopes[0].method: is `get`; write one of `GET`, `HEAD`, `POST`, `PUT`, `PATCH`, `DELETE`, `OPTIONS`"
        ],
        id="method",
    ),
    pytest.param(
        capability(words="['', a]"),
        [f"s.yaml:10:50: {C}scopes[0].words[0]: is ``; write 1 to 64 characters without control characters"],
        id="word-of-a-scope",
    ),
    pytest.param(
        capability(words=f"[{', '.join(f'w{n}' for n in range(51))}]"),
        [f"s.yaml:10:42: {C}scopes[0].words: has more than 50, which no report can list; leave some out"],
        id="words",
    ),
    pytest.param(
        capability() + "        - {method: GET, path: /search/q, words: []}\n",
        [f"s.yaml:11:11: {C}scopes[1]: has the method and path of another one; put the words into one entry"],
        id="scope-twice",
    ),
    pytest.param(
        capability(header="'a b'"),
        [f"s.yaml:8:65: {C}upstream.credential.header: is `a b`, which is no header's name; write such as `X-Api-Key`"],
        id="header",
    ),
    pytest.param(
        capability(header="Host"),
        [
            f"s.yaml:8:65: {C}upstream.credential.header: is `Host`, which the connection needs; write such as `X-Api-Key`"
        ],
        id="header-of-the-connection",
    ),
    # boxes
    pytest.param(
        broker(before="boxes: [{name: a, token: env:T, fountain: {agent: '', vault: v}}]\n")
        + "  fountain: {url: 'https://f', credential: env:F}\n",
        [
            "s.yaml:2:51: boxes[0].fountain.agent: is ``; write the id as Fountain shows it",
            "s.yaml:2:55: boxes[0].fountain.vault: is an unknown key; write `vaults` with a list of ids",
        ],
        id="box-fountain",
    ),
    pytest.param(
        broker(before="boxes: [{name: a, token: env:T, fountain: {}, anthropic: {credential: env:O}}]\n"),
        [
            "s.yaml:2:33: boxes[0].fountain: is for the broker, which has none; add `fountain` below `broker`, or leave this out",
            "s.yaml:2:47: boxes[0].anthropic: is for the broker, which has none; add `anthropic` below `broker`, or leave this out",
        ],
        id="box-parts-that-are-not-served",
    ),
    pytest.param(
        broker(
            "  anthropic: {url: 'https://a', credential: env:K}\n",
            before="boxes: [{name: a, token: env:T, anthropic: {credential: env:T}}]\n",
        ),
        [
            "s.yaml:2:57: boxes[0].anthropic.credential: is the token of box `a` too, which no upstream may receive; name another secret"
        ],
        id="owner-credential-that-is-the-token",
    ),
    pytest.param(
        broker(
            "  anthropic: {url: 'https://a', credential: env:K}\n",
            before="boxes: [{name: a, token: env:T, anthropic: {credential: env:U}}, {name: b, token: env:U}]\n",
        ),
        ["s.yaml:2:83: boxes[1].token: is the credential of a box's owner too; give each box a token of its own"],
        id="token-that-is-an-owner-credential",
    ),
]


@pytest.mark.parametrize(("text", "expected"), REFUSED)
def test_what_is_wrong_is_told_with_its_remedy(here: Path, text: str, expected: list[str]) -> None:
    """Each rule, with file, line, column, path and remedy, nothing besides, and never what may be a secret."""
    assert told(here, text) == expected


# --- a reload ---


def _with(database: str | None, state: str = "st") -> Settings:
    served = None
    if database is not None:
        served = BrokerSettings(
            listen=TcpListen(host="127.0.0.1", port=1),
            word="lobby",
            database=parse_database(database, state=Path(state)),
            feedback=FeedbackOff(),
        )
    audit = Audit(path=Path(state) / "decisions.jsonl")
    return Settings(state=Path(state), directory=Path(), endpoints=(), audit=audit, limits=Limits(), broker=served)


def test_a_reload_keeps_the_database() -> None:
    """It is held open. A password is not shown, and a file that moves with the state directory is one change."""
    old = _with("sqlite:///b.db")
    remedy = "; start it anew, or put that back"
    assert old.broker is not None
    assert fixed_changes(old, replace(old, broker=replace(old.broker, word="other"))) == []
    assert fixed_changes(old, _with("postgresql://u:hunter2@h/b")) == [
        f"`broker.database` is `postgresql://u:***@h/b`, and the running program has `sqlite:///st/b.db`{remedy}"
    ]
    assert fixed_changes(old, _with(None)) == [
        f"`broker.database` is `none`, and the running program has `sqlite:///st/b.db`{remedy}"
    ]
    moved = fixed_changes(old, _with("sqlite:///b.db", "other"))
    assert moved == [f"`state` is `other`, and the running program has `st`{remedy}"]
