"""What an `exec:` command's arguments name, as a shell would read them."""

from pathlib import Path

import pytest

from proxy.run import words
from proxy.run.commands import clean, hold_command
from proxy.run.refused import IsolationRefused
from proxy.run.words import names_in
from proxy.secrets.source import ExecSource

NAMES, UNCLEAR = "names something in the working directory", "only a shell fills in"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`my proj` is the working directory, and `tools/cur` leads there; the settings are in `conf`."""
    home = tmp_path / "home"
    for name in ("my proj", "conf", "tools", "bin", "other"):
        (home / name).mkdir(parents=True)
    (home / "tools" / "cur").symlink_to(home / "my proj")
    (home / "proj").symlink_to(home / "my proj")
    monkeypatch.setenv("HOME", str(home))
    return home


ARGUMENTS = [
    pytest.param("cat /etc/hosts | head -n1", None, id="plain"),
    pytest.param("$HOME/bin/tok.sh", None, id="variable-elsewhere"),
    pytest.param("${HOME}/bin/tok.sh", None, id="variable-in-braces-elsewhere"),
    pytest.param("for f in $HOME/bin/tok*; do cat $f; done", None, id="pattern-elsewhere"),
    pytest.param("cd $HOME/other && pass show proj", None, id="another-directory"),
    pytest.param("op read op://vault/item/token?attribute=otp", None, id="address-with-a-question"),
    pytest.param("jq -r '.items[0].token'", None, id="filter"),
    pytest.param("security x | awk '{print $2}'", None, id="field"),
    pytest.param("sed -e 's/^token: //' -e 's/ *$//' /etc/x", None, id="end-of-a-line"),
    pytest.param('curl -d \'{"scope":"a/b","x":1}\' https://a.example', None, id="json"),
    pytest.param("T=/etc/x; cat $T", None, id="variable-of-its-own"),
    pytest.param("$HOME/proj/tok.sh", NAMES, id="variable"),
    pytest.param("${HOME}/proj/tok.sh", NAMES, id="variable-in-braces"),
    pytest.param('"$HOME"/proj/tok.sh', NAMES, id="quotes-around-the-variable"),
    pytest.param('"$HOME/my proj/tok.sh"', NAMES, id="blank-in-quotes"),
    pytest.param("$HOME/my\\ proj/tok.sh", NAMES, id="blank-with-a-backslash"),
    pytest.param("$ROOT_OF_ALL/../proj/tok.sh", NAMES, id="variable-and-back"),
    pytest.param("~/proj/tok.sh", NAMES, id="home"),
    pytest.param("X=~/proj/tok.sh; $X", NAMES, id="assigned"),
    pytest.param("{home}/p'ro'j/tok.sh", NAMES, id="quotes-in-between"),
    pytest.param("{home}/p\\roj/tok.sh", NAMES, id="backslash-in-between"),
    pytest.param("{home}/pro?/tok.sh", NAMES, id="question"),
    pytest.param("{home}/pr*/tok.sh", NAMES, id="star"),
    pytest.param("{home}/[o-q]roj/tok.sh", NAMES, id="set"),
    pytest.param("{home}/[^a]roj/tok.sh", NAMES, id="not-in-a-set"),
    pytest.param("$HOME/*/tok.sh", NAMES, id="variable-and-star"),
    pytest.param("../*/tok.sh", NAMES, id="relative-star"),
    pytest.param("{home}/tools/*/tok.sh", NAMES, id="star-over-a-link"),
    pytest.param("{home}/t*/c?r/tok.sh", NAMES, id="two-patterns"),
    pytest.param("{home}/{{proj,other}}/tok.sh", NAMES, id="braces"),
    pytest.param("cd ~ && ./proj/tok.sh", NAMES, id="after-cd"),
    pytest.param("cd && proj/tok.sh", NAMES, id="after-cd-home"),
    pytest.param("cd .. ; proj/tok.sh", NAMES, id="after-cd-up"),
    pytest.param('. "$HOME/conf/../proj/rc"', NAMES, id="source"),
    pytest.param("cat $(echo ~/other/x)", UNCLEAR, id="substitution"),
    pytest.param("cat `which x`", UNCLEAR, id="backtick"),
    pytest.param("${PLACE:-/etc}/tok.sh", UNCLEAR, id="default"),
    pytest.param("$PLACE/tok.sh", UNCLEAR, id="variable-that-is-not-set"),
    pytest.param('"${PLACE}"/tok.sh', UNCLEAR, id="not-set-in-braces"),
    pytest.param('"$1"/tok.sh', UNCLEAR, id="parameter"),
]


@pytest.mark.parametrize(("text", "says"), ARGUMENTS)
def test_what_a_shell_makes_of_it(home: Path, text: str, says: str | None) -> None:
    """What leads to what the program may change is refused, and so is what is not seen to lead elsewhere."""
    argument = text.replace("{home}", str(home)).replace("{{", "{").replace("}}", "}")
    source = ExecSource(arguments=("sh", "-c", argument), directory=home / "conf")
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(home), "ROOT_OF_ALL": str(home / "conf"), "PWD": "/absent"}
    if says is None:
        hold_command(source, home / "my proj", environment)
        return
    with pytest.raises(IsolationRefused, match=says) as refused:
        hold_command(source, home / "my proj", environment)
    assert str(refused.value).startswith("argument 2 of the `exec:` command `sh`")
    assert "outside of the working directory" in str(refused.value)
    assert "tok.sh" not in str(refused.value)


@pytest.mark.parametrize(
    ("arguments", "refused"),
    [
        pytest.param(("env", "-C", "{home}", "proj/tok.sh"), 3, id="option"),
        pytest.param(("env", "--chdir={home}", "proj/tok.sh"), 2, id="option-with-value"),
        pytest.param(("sh", "-c", 'cd "$1"; proj/tok.sh', "x", "{home}"), 2, id="parameter"),
        pytest.param(("env", "-C", "{home}/other", "proj/tok.sh"), None, id="elsewhere"),
    ],
)
def test_a_directory_in_another_argument(home: Path, arguments: tuple[str, ...], refused: int | None) -> None:
    """A relative name is seen from each directory that the command names."""
    source = ExecSource(arguments=tuple(text.format(home=home) for text in arguments), directory=home / "conf")
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(home)}
    if refused is None:
        hold_command(source, home / "my proj", environment)
        return
    with pytest.raises(IsolationRefused, match=f"argument {refused} .*{NAMES}"):
        hold_command(source, home / "my proj", environment)


def test_the_current_directory_of_a_shell(home: Path) -> None:
    """`$PWD` is where the command runs, not where we are."""
    source = ExecSource(arguments=("sh", "-c", "$PWD/tok.sh"), directory=home / "conf")
    hold_command(source, home / "my proj", {"PATH": "/bin", "PWD": str(home / "my proj")})


def test_a_pattern_that_matches_too_much(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not looked at to its end may lead anywhere."""
    monkeypatch.setattr(words, "_MOST", 20)
    for number in range(10):
        (home / "other" / str(number)).mkdir()
    assert not names_in(f"{home}/other/*", (home,), home / "my proj", {})
    for number in range(20):
        (home / "other" / f"x{number}").touch()
    assert names_in(f"{home}/other/*", (home,), home / "my proj", {})


def test_variables_that_are_filled_in(home: Path) -> None:
    """Shells fill in some of theirs (`BASH_ENV`, `ENV`); what computes something is left in, as prompts do."""
    kept = {"PATH": "/bin", "HOME": str(home), "PS1": "$(date) `id`", "PASSPHRASE": "a$(b`c${d", "no_proxy": "*.corp"}
    gone = {"BASH_ENV": "$HOME/proj/rc", "ENV": "${HOME}/proj/rc", "LESSOPEN": '|"$HOME/my proj/x" %s'}
    environment = kept | gone
    clean(environment, set(), home / "conf", home / "my proj")
    assert environment == kept
