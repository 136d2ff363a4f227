"""Secrets: what each source gives, what is said when it gives nothing, and what a vault holds over time."""

import asyncio
import os
import threading
import time
import timeit
from pathlib import Path

import pytest
from support.waits import HANG_SECONDS, turns, until

from addons.ports import Held
from grants.secret import Secret
from proxy.secrets import EndpointVault, EnvSource, ExecSource, FileSource, ReferenceInvalid, parse_source
from proxy.secrets import source as source_module
from proxy.secrets.source import SecretUnreadable
from proxy.secrets.vault import KEEP_SECONDS, KEEP_VALUES

CANARY = b"canary-5f0c1e2d"


def _reveal(held: Held) -> dict[str, bytes]:
    return {name: secret.reveal() for name, secret in held.values.items()}


class Clock:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("env:GITHUB_TOKEN", EnvSource(name="GITHUB_TOKEN"), id="variable"),
        pytest.param("file:token", FileSource(path=Path("/etc/gp/token")), id="relative-file"),
        pytest.param("file:/run/token", FileSource(path=Path("/run/token")), id="absolute-file"),
        pytest.param("file:a b", FileSource(path=Path("/etc/gp/a b")), id="file-with-space"),
        pytest.param(
            "exec:vault read 'a b' $X", ExecSource(arguments=("vault", "read", "a b", "$X"), directory=Path("/etc/gp")),
            id="command-without-shell",
        ),
    ],
)  # fmt: skip
def test_a_reference_names_its_source(text: str, expected: object) -> None:
    """`env:NAME`, `file:PATH` relative to the settings file, `exec:` split into words without a shell."""
    assert parse_source(text, Path("/etc/gp")) == expected


def test_a_home_directory_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` in a file source is the user's home."""
    monkeypatch.setenv("HOME", "/home/somebody")
    assert parse_source("file:~/token", Path("/etc")) == FileSource(path=Path("/home/somebody/token"))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(CANARY.decode(), id="the-value-itself"),
        pytest.param(f"vault:{CANARY.decode()}", id="unknown-kind"),
        pytest.param("env:", id="no-name"),
        pytest.param(f"env:{CANARY.decode()}", id="no-variable-name"),
        pytest.param("file: ", id="no-path"),
        pytest.param("exec:", id="no-command"),
        pytest.param("exec:''", id="empty-command"),
        pytest.param(f"exec:echo '{CANARY.decode()}", id="open-quote"),
        pytest.param("file:a\0b", id="nul"),
        pytest.param("", id="empty"),
    ],
)
def test_a_bad_reference_is_refused_without_repeating_it(text: str) -> None:
    """What is no reference may be the credential itself, so the message never repeats it."""
    with pytest.raises(ReferenceInvalid) as caught:
        parse_source(text, Path("/"))
    assert CANARY.decode() not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        pytest.param(CANARY, CANARY, id="bare"),
        pytest.param(CANARY + b"\n", CANARY, id="one-line-end"),
        pytest.param(CANARY + b"\r\n", CANARY, id="crlf"),
        pytest.param(b"two words here\n", b"two words here", id="inner-space"),
    ],
)
def test_files_and_commands_drop_one_final_line_end(tmp_path: Path, written: bytes, value: bytes) -> None:
    """`file:` and `exec:` drop one final line end."""
    (tmp_path / "token").write_bytes(written)
    assert parse_source("file:token", tmp_path).read().reveal() == value
    assert parse_source("exec:cat token", tmp_path).read().reveal() == value


@pytest.mark.parametrize(
    ("written", "says"),
    [
        pytest.param(b"", "empty", id="empty"),
        pytest.param(b"\n", "empty", id="only-a-line-end"),
        pytest.param(b"short\n", "8 bytes", id="too-short"),
        pytest.param(CANARY + b"\n\n", "white space", id="two-line-ends"),
        pytest.param(b" " + CANARY, "white space", id="outer-space"),
        pytest.param(CANARY + b"\n" + CANARY, "visible ASCII", id="inner-line-end"),
        pytest.param(CANARY + b"\0", "visible ASCII", id="nul"),
        pytest.param(CANARY + "é".encode(), "visible ASCII", id="not-ascii"),
        pytest.param(CANARY * 5000, "64 KiB", id="too-long"),
    ],
)
def test_a_value_that_cannot_serve_is_refused_when_it_is_read(tmp_path: Path, written: bytes, says: str) -> None:
    """A secret value is visible ASCII without outer white space and at least 8 bytes, or it is refused."""
    (tmp_path / "token").write_bytes(written)
    sources = [parse_source("file:token", tmp_path), parse_source("exec:cat token", tmp_path)]
    for source in sources:
        with pytest.raises(SecretUnreadable) as caught:
            source.read()
        assert says in str(caught.value)
        assert CANARY.decode() not in str(caught.value)
        assert CANARY.decode() not in repr(caught.value.__context__)
    if b"\0" not in written:
        with pytest.raises(SecretUnreadable) as caught:
            EnvSource(name="TOKEN", environment={b"TOKEN": written + b" "}).read()
        assert CANARY.decode() not in str(caught.value)


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        pytest.param(
            "env:NO_SUCH_TOKEN",
            "environment variable `NO_SUCH_TOKEN` is not set; export it or name another source",
            id="unset-variable",
        ),
        pytest.param(
            "file:absent",
            "file `{base}/absent` cannot be read: no such file or directory; make it readable or name another source",
            id="missing-file",
        ),
        pytest.param("file:.", "`{base}` is not a regular file; name one, or use exec:", id="directory"),
        pytest.param(
            "exec:no-such-program x",
            "command `no-such-program` cannot be started: no such file or directory; install it or name another source",
            id="missing-program",
        ),
        pytest.param(
            f"exec:sh -c 'echo {CANARY.decode()}; echo {CANARY.decode()} >&2; exit 3'",
            "command `sh` ended with status 3; run it by hand to see why",
            id="failing-program",
        ),
        pytest.param(
            "exec:sh -c 'yes canary-5f0c1e2d'",
            "command `sh` prints more than 64 KiB; print the credential alone",
            id="endless-output",
        ),
    ],
)
def test_an_unreadable_secret_is_named_with_cause_and_remedy(tmp_path: Path, reference: str, problem: str) -> None:
    """At start each unreadable secret is named by endpoint and reference, with cause and remedy, never the value."""
    vault = EndpointVault("github", {"api": parse_source(reference, tmp_path)})
    assert vault.check() == (f"endpoint `github`: secret `api`: {problem.format(base=tmp_path)}",)
    assert asyncio.run(vault.open()) == Held(values={})


def test_every_unreadable_secret_is_named(tmp_path: Path) -> None:
    """All problems come at once."""
    vault = EndpointVault("e", {name: parse_source(f"file:{name}", tmp_path) for name in ("a", "b", "c")})
    (tmp_path / "b").write_bytes(CANARY)
    assert [problem.split("`")[3] for problem in vault.check()] == ["a", "c"]


def test_a_command_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    """`exec:` is bounded in time, and a child that keeps the pipe open does not hold it."""
    source = ExecSource(
        arguments=("sh", "-c", f"sleep 3600 & echo $! > {tmp_path}/child; wait"), directory=tmp_path, seconds=0.3
    )
    with pytest.raises(SecretUnreadable, match=r"`sh` did not end within 0\.3 seconds"):
        source.read()
    child = int((tmp_path / "child").read_text())
    for _ in range(100):
        try:
            gone = Path(f"/proc/{child}/stat").read_text().split()[2] == "Z"
        except FileNotFoundError:
            gone = True
        if gone:
            break
        time.sleep(0.02)
    assert gone


def test_a_command_that_closes_its_output_and_goes_on_is_ended(tmp_path: Path) -> None:
    """The bound on time holds for the end of the command too, not only for its output."""
    source = ExecSource(
        arguments=("sh", "-c", "echo canary-5f0c1e2d; exec >&-; sleep 60"), directory=tmp_path, seconds=0.3
    )
    with pytest.raises(SecretUnreadable, match="did not end"):
        source.read()


def test_a_fifo_does_not_hang(tmp_path: Path) -> None:
    """A file source opens without waiting and takes regular files only."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SecretUnreadable, match="not a regular file"):
        FileSource(path=tmp_path / "pipe").read()


def test_a_rotated_file_is_seen_and_its_old_value_stays_forbidden(tmp_path: Path) -> None:
    """A rotated file is seen without restart; the value before the rotation is still searched for in answers."""
    (tmp_path / "token").write_bytes(b"value-before\n")
    clock = Clock()
    vault = EndpointVault("e", {"api": FileSource(path=tmp_path / "token")}, clock=clock)

    async def run() -> None:
        first = await vault.open()
        assert _reveal(first) == {"api": b"value-before"}
        (tmp_path / "token").write_bytes(b"value-after!\n")
        assert await vault.open() is first
        clock.now += 1.5
        second = await vault.open()
        assert _reveal(second) == {"api": b"value-after!"}
        assert {needle.reveal() for needle in second.needles} == {b"value-before", b"value-after!"}
        assert _reveal(first) == {"api": b"value-before"}, "what was handed out does not change"
        clock.now += KEEP_SECONDS + 1
        assert [needle.reveal() for needle in (await vault.open()).needles] == [b"value-after!"]

    asyncio.run(run())


def test_a_name_that_cannot_be_read_is_absent_and_its_last_value_stays_forbidden(tmp_path: Path) -> None:
    """A name that cannot be read now is absent; it comes back when it can be read again."""
    token = tmp_path / "token"
    token.write_bytes(CANARY)
    clock = Clock()
    vault = EndpointVault("e", {"api": FileSource(path=token)}, clock=clock)

    async def run() -> None:
        before = await vault.open()
        token.unlink()
        clock.now += 2
        gone = await vault.open()
        assert gone.values == {}
        assert gone.needles == (Secret(CANARY),)
        clock.now += 2
        assert await vault.open() is gone
        token.write_bytes(CANARY)
        clock.now += 2
        assert (await vault.open()) == before

    asyncio.run(run())


def test_nothing_changed_gives_the_same_object(tmp_path: Path) -> None:
    """Callers cache by identity: reading again what did not change returns the very same object."""
    (tmp_path / "token").write_bytes(CANARY)
    clock = Clock()
    vault = EndpointVault("e", {"api": FileSource(path=tmp_path / "token")}, clock=clock)
    assert vault.check() == ()

    async def run() -> None:
        held = await vault.open()
        for _ in range(5):
            clock.now += 2
            assert await vault.open() is held

    asyncio.run(run())


def test_opening_is_cheap() -> None:
    """Opening costs next to nothing while nothing is due."""
    vault = EndpointVault("e", {"api": EnvSource(name="TOKEN", environment={b"TOKEN": CANARY})})
    assert vault.check() == ()

    def once() -> None:
        try:
            vault.open().send(None)
        except StopIteration:
            return

    assert min(timeit.repeat(once, number=2000, repeat=5)) / 2000 < 20e-6  # measured: 0.3 µs; room for a busy machine


def test_only_so_many_replaced_values_are_kept(tmp_path: Path) -> None:
    """A source that gives a new value each time does not make the search grow without end."""
    token = tmp_path / "token"
    clock = Clock()
    vault = EndpointVault("e", {"api": FileSource(path=token)}, clock=clock)
    for number in range(KEEP_VALUES * 2):
        token.write_text(f"value-{number:06}")
        assert vault.check() == ()
    needles = asyncio.run(vault.open()).needles
    assert len(needles) == KEEP_VALUES + 1
    assert needles[0].reveal() == f"value-{KEEP_VALUES * 2 - 1:06}".encode()
    assert Secret(b"value-000000") not in needles


def test_a_reload_keeps_what_the_old_vault_held(tmp_path: Path) -> None:
    """After a reload, also one that takes the reference away, answers are searched for the old values."""
    (tmp_path / "token").write_bytes(b"value-one")
    old = EndpointVault("e", {"api": FileSource(path=tmp_path / "token")})
    assert old.check() == ()
    (tmp_path / "token").write_bytes(b"value-two")
    assert old.check() == ()
    for sources in ({}, {"other": EnvSource(name="T", environment={b"T": b"value-three"})}):
        new = EndpointVault("e", sources)
        new.succeed(old)
        assert new.check() == ()
        assert {b"value-one", b"value-two"} <= {n.reveal() for n in asyncio.run(new.open()).needles}
        third = EndpointVault("e", {})
        third.succeed(new)
        assert {b"value-one", b"value-two"} <= {n.reveal() for n in asyncio.run(third.open()).needles}


class Counting:
    """A source that counts its reads, can be broken, and ends none while its gate is shut."""

    lasts = 1.0
    grace = 0.0

    def __init__(self) -> None:
        self.reads = 0
        self.gate = threading.Event()
        self.gate.set()
        self.error: BaseException | None = None

    def read(self) -> Secret:
        self.reads += 1
        assert self.gate.wait(HANG_SECONDS), "the loop is held"
        if self.error is not None:
            raise self.error
        return Secret(CANARY)


def test_many_openers_share_one_read_and_the_loop_goes_on() -> None:
    """A slow source is read once in a thread; the event loop is not held, and one cancelled caller harms no other."""
    counting = Counting()
    counting.gate.clear()
    vault = EndpointVault("e", {"api": counting})

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(vault.open()) for _ in range(20)]
            await asyncio.sleep(0)
            tasks[0].cancel()
            counting.gate.set()
        assert all(_reveal(task.result()) == {"api": CANARY} for task in tasks[1:])

    asyncio.run(run())
    assert counting.reads == 1


@pytest.mark.parametrize("fault", [RuntimeError, SystemExit])
def test_a_source_that_breaks_makes_its_name_absent(fault: type[BaseException]) -> None:
    """Opening never raises: a fault in a source is a secret that cannot be read, and its text is not shown."""
    counting = Counting()
    counting.error = fault(CANARY.decode())
    vault = EndpointVault("e", {"api": counting})
    assert asyncio.run(vault.open()) == Held(values={})
    counting.error = RuntimeError(CANARY.decode())
    [problem] = vault.check()
    assert CANARY.decode() not in problem


def test_no_secret_shows_in_a_text(tmp_path: Path) -> None:
    """No repr or message of vault, source or what they hold shows a value."""
    sources = {
        "env": EnvSource(name="TOKEN", environment={b"TOKEN": CANARY}),
        "exec": ExecSource(arguments=("echo", CANARY.decode()), directory=tmp_path),
    }
    vault = EndpointVault("e", sources)
    assert vault.check() == ()
    held = asyncio.run(vault.open())
    assert _reveal(held) == {"env": CANARY, "exec": CANARY}
    assert CANARY.decode() not in f"{vault!r} {held!r} {held} {sources!r} {vars(vault)!r}"


def test_the_environment_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """`env:` is read once per start."""
    monkeypatch.setenv("GP_TEST_TOKEN", CANARY.decode())
    clock = Clock()
    vault = EndpointVault("e", {"api": parse_source("env:GP_TEST_TOKEN", Path())}, clock=clock)
    assert vault.check() == ()
    monkeypatch.delenv("GP_TEST_TOKEN")
    clock.now += 1e6
    assert _reveal(asyncio.run(vault.open())) == {"api": CANARY}


def test_a_failed_command_is_tried_again_soon(tmp_path: Path) -> None:
    """A command's value lasts a minute; a failure is tried again after seconds."""
    clock = Clock()
    vault = EndpointVault("e", {"api": parse_source("exec:cat token", tmp_path)}, clock=clock)
    assert len(vault.check()) == 1
    (tmp_path / "token").write_bytes(CANARY)
    clock.now += source_module.RETRY_SECONDS
    assert _reveal(asyncio.run(vault.open())) == {"api": CANARY}
    (tmp_path / "token").write_bytes(b"value-two")
    clock.now += source_module.RETRY_SECONDS
    assert _reveal(asyncio.run(vault.open())) == {"api": CANARY}
    clock.now += 2 * source_module.EXEC_TTL_SECONDS
    assert _reveal(asyncio.run(vault.open())) == {"api": b"value-two"}


def test_a_command_runs_again_while_its_value_still_serves() -> None:
    """A slow command holds no request for another minute; then requests wait for it."""
    counting = Counting()
    counting.lasts, counting.grace = 60.0, 60.0
    clock = Clock()
    vault = EndpointVault("e", {"api": counting}, clock=clock)
    assert vault.check() == ()

    async def run() -> None:
        counting.gate.clear()
        clock.now += 61
        held = await vault.open()
        assert await vault.open() is held
        counting.gate.set()
        await until(lambda: vault._reading is None)
        assert counting.reads == 2
        counting.gate.clear()
        clock.now += 121
        opening = asyncio.get_running_loop().create_task(vault.open())
        await until(lambda: counting.reads == 3)
        await turns()
        assert not opening.done()
        counting.gate.set()
        await opening

    asyncio.run(run())
