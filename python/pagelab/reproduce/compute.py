"""Computes figures: all cases of all papers at once, since figures share them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from pagelab.errors import PagelabError
from pagelab.experiment.case import Case
from pagelab.experiment.run import How, run_all
from pagelab.reproduce.outcome import Outcome
from pagelab.reproduce.paper import Changes, Paper


@dataclass(frozen=True)
class Found:
    """A paper and what was found for its figures, in the order of their names."""

    paper: Paper
    outcomes: list[Outcome]


def compute(papers: Iterable[Paper], changes: Changes, how: How) -> list[Found]:
    """Findings for every figure of every paper.

    A figure that this machine cannot compute says so in its outcome. What failed before is tried
    again. Raises PagelabError when it was interrupted.
    """
    papers = list(papers)
    planned: dict[tuple[str, str], dict[Any, Case] | str] = {}
    for paper in papers:
        for name, figure in paper.figures.items():
            try:
                planned[paper.name, name] = figure.cases(paper, changes)
            except PagelabError as error:
                planned[paper.name, name] = str(error)
    cases = [
        case for found in planned.values() if isinstance(found, dict) for case in found.values()
    ]
    ended = run_all(cases, replace(how, again=how.again or "failed"))
    return [
        Found(
            paper,
            [_outcome(paper, name, planned[paper.name, name], ended) for name in paper.figures],
        )
        for paper in papers
    ]


def _outcome(
    paper: Paper, name: str, planned: dict[Any, Case] | str, ended: dict[str, Any]
) -> Outcome:
    figure = paper.figures[name]
    if isinstance(planned, str):
        found = Outcome(failures=[planned])
    else:
        cells = {cell: ended[case.key] for cell, case in planned.items()}
        found = figure.outcome(paper, cells)
    notes = [*figure.notes, *found.notes]
    shows = found.shows or figure.shows
    return replace(found, name=name, title=figure.title, shows=shows, notes=notes)
