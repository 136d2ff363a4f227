"""Variables as text: what a reader of the format takes from it is the value, or the value is refused by name."""

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.client_env.formats import Format, FormatRefused, written

NAMES = st.from_regex(r"[A-Z_][A-Z0-9_]{0,10}", fullmatch=True)
VALUES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
ODD = [
    "",
    "a b",
    "it's",
    '"',
    "$(id)",
    "`id`",
    "\\n",
    "a\nb",
    "é",
    "#x",
    "a|b",
    "http://a:b@c:1/?x=y&z",
    "-x",
    "*",
    "!1",
]


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_a_shell_has_the_value(value: str) -> None:
    """Whatever a value holds, `eval` gives just that to the variable, and runs nothing."""
    script = 'eval "$1"; printf %s "$X"'
    text = written({"X": value, "Y": "after"}, Format.SHELL)
    done = subprocess.run([shutil.which("sh") or "sh", "-c", script, "sh", text], capture_output=True, check=True)
    assert done.stdout.decode() == value


@given(variables=st.dictionaries(NAMES, VALUES, max_size=4))
def test_shell_words_are_one(variables: dict[str, str]) -> None:
    """Each export is two words, and the second one is name, `=` and the value."""
    words = shlex.split(written(variables, Format.SHELL))
    assert words == [word for name, value in variables.items() for word in ("export", f"{name}={value}")]


@given(variables=st.dictionaries(NAMES, VALUES, max_size=4))
def test_json_is_the_variables(variables: dict[str, str]) -> None:
    """One object of texts."""
    assert json.loads(written(variables, Format.JSON)) == variables


@settings(max_examples=300)
@given(value=VALUES, form=st.sampled_from([Format.DOTENV, Format.DOCKER]))
def test_a_line_holds_the_value_or_it_is_refused(value: str, form: Format) -> None:
    """Docker takes all behind the first `=`; a dotenv reader what is quoted or has nothing to quote."""
    try:
        text = written({"X": value}, form)
    except FormatRefused:
        assert not value.isprintable() or (form is Format.DOTENV and set(value) & set("'\\"))
        return
    assert text.endswith("\n")
    name, _, rest = text[:-1].partition("=")
    assert name == "X"
    assert "\n" not in rest
    assert rest == value or (form is Format.DOTENV and rest == f"'{value}'" and "'" not in value)


@pytest.mark.parametrize(
    ("value", "form"),
    [
        *((value, form) for value in ("a\nb", "a\rb", "\x1b", "\x7f", "\u2028") for form in ("dotenv", "docker")),
        ("it's", "dotenv"),
        ("a\\b", "dotenv"),
    ],
)
def test_what_a_format_cannot_hold(value: str, form: str) -> None:
    """The variable is named, the value not: it may hold a token."""
    with pytest.raises(FormatRefused) as caught:
        written({"SOME_URL": value}, Format(form))
    assert "`SOME_URL`" in str(caught.value)
    assert value not in str(caught.value)


READ = {"A": "http://127.0.0.1:8080", "B": "-Da=b -Dc=d|[::1]", "C": "a#b", "D": "$HOME", "E": '"', "F": "a|b", "G": ""}


@pytest.mark.parametrize(
    "reader",
    [
        pytest.param(["sh", "-c", '. ./env; printf \'%s\n\' "$A" "$B" "$C" "$D" "$E" "$F" "$G"'], id="sh"),
        pytest.param(
            ["node", "--env-file=env", "-e", "for (const name of 'ABCDEFG') console.log(process.env[name])"], id="node"
        ),
    ],
)
def test_dotenv_files_are_read_as_they_are_meant(tmp_path: Path, reader: list[str]) -> None:
    """By a shell and by Node, which differ in much else."""
    if shutil.which(reader[0]) is None:
        pytest.skip(f"{reader[0]} is not installed")
    (tmp_path / "env").write_text(written(READ, Format.DOTENV))
    environment = {"PATH": os.environ["PATH"], "HOME": "/x"}
    done = subprocess.run(reader, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == list(READ.values())


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("http://127.0.0.1:8080", "X=http://127.0.0.1:8080"),
        ("localhost,127.0.0.1,::1", "X=localhost,127.0.0.1,::1"),
        ("-Da=b -Dc=d", "X='-Da=b -Dc=d'"),
        ("a#b", "X='a#b'"),
        ("$HOME", "X='$HOME'"),
        ('"', "X='\"'"),
    ],
)
def test_dotenv_quotes_what_a_reader_could_read_otherwise(value: str, line: str) -> None:
    """Variables in a value, comments and white space."""
    assert written({"X": value}, Format.DOTENV) == f"{line}\n"
