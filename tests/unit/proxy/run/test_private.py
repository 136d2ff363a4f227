"""Which mounts something could come into from elsewhere, as /proc/PID/mountinfo tells."""

import shutil
import subprocess
import sys

import pytest

from proxy.run import private
from proxy.run.private import WARNING, receives


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


ALONE = ["unshare", "--user", "--map-root-user", "--mount", "--propagation", "private", "sh", "-c"]
FORBID = 'echo 0 >/proc/sys/user/max_user_namespaces; exec setpriv --bounding-set=-sys_admin "$@"'


@pytest.mark.skipif(
    shutil.which("setpriv") is None or subprocess.run([*ALONE, FORBID, "-", "true"], check=False).returncode != 0,
    reason="user namespaces cannot be made here",
)
@pytest.mark.parametrize(
    ("before", "told"), [("mount --make-rshared /;", WARNING), ("", "")], ids=["shared", "private"]
)
def test_where_no_namespace_can_be_made(before: str, told: str) -> None:
    """It is said where that matters, and the command is run."""
    command = [sys.executable, "-I", "-S", private.__file__, "2", "--", "/bin/echo", "ran"]
    done = subprocess.run([*ALONE, before + FORBID, "-", *command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", told)
