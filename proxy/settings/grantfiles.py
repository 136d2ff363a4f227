"""The grant files that settings name."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from grants.load import load_grant
from grants.model import Grant
from grants.place import Place
from grants.problems import GrantInvalid, Problem, quoted_file
from proxy.settings.files import Unreadable, read_bounded


@final
@dataclass(slots=True)
class Grants:
    """The grant files that the settings name, each read once, and the problems in them."""

    loaded: dict[Path, Grant | None] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def load(self, path: Path, place: Place) -> Grant | None:
        """The grant at `path`. A file that cannot be read is a problem of `place`, what is in it one of its own."""
        if path not in self.loaded:
            self.loaded[path] = None
            try:
                self.loaded[path] = load_grant(read_bounded(path), file=str(path))
            except Unreadable as unreadable:
                del self.loaded[path]
                place.problem(f"{quoted_file(str(path))} {unreadable}; write the path of a grant file")
            except GrantInvalid as invalid:
                self.problems.extend(invalid.problems)
        return self.loaded.get(path)
