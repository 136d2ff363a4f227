"""Variables that hold what comes from a file or a command."""

import pytest

from grants.secret import Secret
from proxy.run.copies import copies

FILES = Secret(b"key/0123456789")
VARIABLES = Secret(b"tok-0123456789")


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        pytest.param("key/0123456789", True, id="itself"),
        pytest.param("https://u:key/0123456789@host/", True, id="in-a-text"),
        pytest.param("https://u:key%2F0123456789@host/", True, id="percent-encoded"),
        pytest.param("\udcff key/0123456789", True, id="no-text"),
        pytest.param("key/012345678", False, id="a-part"),
        pytest.param("", False, id="empty"),
        pytest.param("tok-0123456789", False, id="of-a-variable"),
    ],
)
def test_variables_with_the_value(text: str, left_out: bool) -> None:
    """Wherever it stands; those with the value of a variable are told of with that one."""
    environment = {"COPY": text, "API_TOKEN": "tok-0123456789", "PATH": "/bin"}
    found = copies(environment, [FILES, VARIABLES], {"API_TOKEN", "NOT_SET"})
    assert found == (("COPY",) if left_out else ())
