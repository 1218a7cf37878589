"""One run of a backend, and the key that its result is kept under."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Case:
    """A request to a backend: everything in `task` is JSON, and holds on any machine.

    `depends` is all that determines the result: the task with files replaced by their content, and
    the version of the code that runs it. `memory` is what the run will need, in bytes. A case that
    is `alone` has the machine to itself.
    """

    backend: str
    label: str
    task: dict[str, Any]
    depends: Any
    memory: int = 0
    alone: bool = False

    @cached_property
    def key(self) -> str:
        """Equal for cases whose results are equal; 32 hexadecimal digits."""
        text = json.dumps([self.backend, self.depends], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Result:
    """Result of a run, JSON; `host` says where and how long, and is no part of the result."""

    data: dict[str, Any]
    host: dict[str, Any]


@dataclass(frozen=True)
class Failed:
    """Reason for no result. It would fail again: what a worker's death broke off is repeated."""

    error: str
    host: dict[str, Any]


Ended = Result | Failed
