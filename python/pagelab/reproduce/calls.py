"""Requests of real programs for memory, by number and size."""

from collections.abc import Mapping
from typing import Literal

from pagelab.experiment.backends import probe
from pagelab.experiment.case import Case, Ended, Failed
from pagelab.linux import layout, suite
from pagelab.reproduce.outcome import Outcome, answers, failures
from pagelab.reproduce.paper import Changes, Paper, Shown

_COLUMNS = {
    "mmap calls": "mmap",
    "brk calls": "brk",
    "average pages": "mean_pages",
    "calls a second": "per_second",
}


class Calls(Shown):
    """The mmap and brk calls of each program, run on this machine under the probe.

    In a command the word `$ENTRY` of linux/bench stands for that entry's program, compiled; `here`
    notes the paper's figures, which are of other sizes of these programs and so no claims.
    """

    kind: Literal["calls"]
    programs: dict[str, list[str]]
    paper: dict[str, list[float]] = {}

    def cases(self, paper: Paper, changes: Changes) -> dict[str, Case]:
        """A run a program."""
        changes.check_may_run()
        found = {}
        where = layout.find()
        for name, command in self.programs.items():
            words, inputs = [], []
            for word in command:
                if word.startswith("$") and "/" in word:
                    (job,) = suite.load(where.linux / "bench", [word[1:]])
                    inputs.append(job.folder)
                    word = str(suite.compile_program(where, job))
                elif (where.root / word).is_file():
                    word = str(where.root / word)
                words.append(word)
            found[name] = probe.case("calls", f"calls of {name}", program=words, inputs=inputs)
        return found

    def outcome(self, paper: Paper, ended: Mapping[str, Ended]) -> Outcome:
        """A row a program, and the paper's below."""
        rows: dict[str, list[float | None]] = {}
        for program, one in ended.items():
            if not isinstance(one, Failed):
                calls = one.data["parts"]["calls"]
                rows[program] = [calls[field] for field in _COLUMNS.values()]
        measured = dict(rows)
        rows |= {f"{program}, paper": list(values) for program, values in self.paper.items()}
        return Outcome(
            columns=list(_COLUMNS),
            rows=rows,
            answers=answers(self.claim, list(_COLUMNS), measured),
            failures=failures(ended),
            drawn=(["calls a second"], {program: row[3:] for program, row in rows.items()}),
        )
