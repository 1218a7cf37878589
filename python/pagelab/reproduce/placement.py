"""On which node pages are put, by the weights of the nodes."""

from collections.abc import Mapping
from typing import Literal

from pagelab.experiment.backends import guest
from pagelab.experiment.case import Case, Ended, Failed
from pagelab.reproduce.claim import Answer
from pagelab.reproduce.outcome import Outcome, failures
from pagelab.reproduce.paper import Changes, Paper, Shown


class Placement(Shown):
    """STREAM's triad under each pair of weights: pages by node, and loads and stores by node."""

    kind: Literal["placement"]
    suite: str

    def cases(self, paper: Paper, changes: Changes) -> dict[str, Case]:
        """A guest a pair of weights."""
        return {job.manager.partition("weights=")[2]: case for job, case in guest.cases(self.suite)}

    def outcome(self, paper: Paper, ended: Mapping[str, Ended]) -> Outcome:
        """Local pages beside what the weights ask for, and the local share of accesses."""
        rows: dict[str, list[float | None]] = {}
        wrong = []
        for weights, one in ended.items():
            if isinstance(one, Failed):
                continue
            (printed,), (counts,) = one.data["printed"], one.data["counts"]
            first, second = map(int, weights.split(":"))
            least, most = expected([first, second], printed["pages"])
            local = printed["local_pages"]
            if not least <= local <= most:
                wrong.append(weights)
            accesses = (counts[0] + counts[2]) / sum(counts[:4])
            rows[weights] = [local, least, most, printed["pages"], accesses]
        reason = f"off with {', '.join(wrong)}" if wrong else f"exact with {len(rows)} weights"
        return Outcome(
            columns=["local pages", "at least", "at most", "of", "local accesses"],
            rows=rows,
            answers=[
                Answer(claim=claim, agrees=not wrong if rows else None, reason=reason)
                for claim in self.claim
            ],
            failures=failures(ended),
            drawn=(["local accesses"], {weights: [row[-1]] for weights, row in rows.items()}),
        )


def expected(weights: list[int], pages: int) -> tuple[int, int]:
    """The fewest and the most local pages of an exact round robin: whole rounds and a rest."""
    rounds, rest = divmod(pages, sum(weights))
    least = rounds * weights[0] + max(0, rest - weights[1])
    return least, rounds * weights[0] + min(rest, weights[0])
