"""Which mounts something could come into from elsewhere, as /proc/PID/mountinfo tells."""

import pytest

from proxy.run.private import receives


@pytest.mark.parametrize(
    ("line", "does"),
    [
        pytest.param("27 1 254:0 / / rw,relatime - ext4 /dev/vda rw", False, id="private"),
        pytest.param("27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw", True, id="shared"),
        pytest.param("27 1 254:0 / / rw,relatime master:1 - ext4 /dev/vda rw", True, id="slave"),
        pytest.param("27 1 254:0 / / rw unbindable master:4 propagate_from:2 - ext4 /dev/vda rw", True, id="several"),
        pytest.param("27 1 254:0 / /shared:1 rw,relatime - ext4 shared:1 rw", False, id="only-a-name"),
    ],
)
def test_receives(line: str, does: bool) -> None:
    """A shared one, and a slave of one, whatever it is called."""
    assert receives(f"22 27 0:21 / /proc rw - proc proc rw\n{line}\n") is does
