"""The ids of requests: 24 hexadecimal digits, and never one twice."""

import re
import subprocess
import sys
import threading

from addons import identifiers
from addons.identifiers import new_id

MANY = 3 * identifiers._AT_ONCE + 1


def test_ids_have_their_form_and_differ() -> None:
    """96 random bits in lower-case hex, over several askings of the kernel."""
    made = [new_id() for _ in range(MANY)]
    assert all(re.fullmatch("[0-9a-f]{24}", each) for each in made)
    assert len(set(made)) == MANY


def test_threads_get_different_ids() -> None:
    """Two threads never get the same."""
    found: list[list[str]] = []
    threads = [threading.Thread(target=lambda: found.append([new_id() for _ in range(MANY)])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({each for made in found for each in made}) == 4 * MANY


# The child of the child has a buffer of its own parent's to leave alone.
_FORK = """
import os
from addons.identifiers import new_id
print(new_id(), flush=True)
for _ in range(2):
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
    print(*[new_id() for _ in range(600)], sep="\\n", flush=True)
"""


def test_a_forked_process_hands_out_none_of_its_parents_ids() -> None:
    """A worker begins with ids of its own."""
    done = subprocess.run([sys.executable, "-c", _FORK], capture_output=True, text=True, check=True, timeout=60)
    made = done.stdout.split()
    # 600 of each process after each fork: of both the first time, of four the second; and the first of all.
    assert len(made) == 1 + 2 * 600 + 4 * 600
    assert len(set(made)) == len(made)
