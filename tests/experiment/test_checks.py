"""What is computed again of what workers of Dask answer: a scheduler that is a few lines."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from pagelab.errors import PagelabError, RunError
from pagelab.experiment import cluster
from pagelab.experiment.backends import BACKENDS
from pagelab.experiment.board import Board
from pagelab.experiment.case import Case, Ended, Failed, Result
from pagelab.jobs import Stop

# What a worker makes of a number.
Answers = Callable[[int], int]


@dataclass(eq=False)
class Task:
    """A future of Dask's."""

    status: str = "pending"
    found: Any = None

    def add_done_callback(self, told: Callable[["Task"], None]) -> None:
        """Tells at once."""
        if self.status != "pending":
            told(self)

    def result(self, timeout: float) -> Any:
        """What came of it."""
        return self.found

    def exception(self) -> Any:
        """Why nothing came of it."""
        return self.found


@dataclass
class Client:
    """Gives each task to the first worker that may have it and has had the fewest, at once."""

    workers: dict[str, Answers]
    memory: dict[str, float] = field(default_factory=dict)
    given: list[tuple[str, int]] = field(default_factory=list)
    status: str = "running"

    @property
    def scheduler(self) -> Any:
        """What is asked for the workers."""
        return SimpleNamespace(identity=None)

    def sync(self, *_: Any, **__: Any) -> Any:
        """The workers there are."""
        return {
            "workers": {
                name: {"resources": {"MEMORY": self.memory[name]} if self.memory else {}}
                for name in self.workers
            }
        }

    def submit(self, _: Any, backend: str, task: dict[str, Any], **asked: Any) -> Task:
        """Carries a task out, if a worker may."""
        there = [name for name in self.workers if name in (asked["workers"] or self.workers)]
        if asked["resources"]:
            there = [name for name in there if self.memory[name] >= asked["resources"]["MEMORY"]]
        if not there:
            return Task()
        name = min(there, key=lambda one: sum(one == other for other, _ in self.given))
        self.given.append((name, task["number"]))
        ended: Ended
        try:
            ended = Result({"answer": self.workers[name](task["number"])}, {})
        except RunError as error:
            ended = Failed(str(error), {})
        except PagelabError as error:
            return Task("error", error)
        return Task("finished", (ended, name))

    def cancel(self, _: Any) -> None:
        """Nothing is under way."""

    def close(self, **_: Any) -> None:
        """There is no connection."""

    def retire_workers(self, names: list[str]) -> None:
        """Takes workers away."""
        for name in names:
            del self.workers[name]


@dataclass
class Sink:
    """What was handed over, by number."""

    found: dict[int, Ended] = field(default_factory=dict)

    def finished(self, case: Case, ended: Ended) -> None:
        """Keeps it."""
        self.found[case.task["number"]] = ended

    def forget(self, case: Case) -> None:
        """Keeps it no more."""
        del self.found[case.task["number"]]

    def answers(self) -> dict[int, int]:
        """All that came of cases."""
        return {
            number: one.data["answer"]
            for number, one in self.found.items()
            if not isinstance(one, Failed)
        }


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What this process computed."""
    done: list[int] = []

    def double(task: dict[str, Any], _: Any) -> dict[str, Any]:
        done.append(task["number"])
        return {"answer": right(task["number"])}

    monkeypatch.setitem(BACKENDS, "double", double)
    return done


def right(number: int) -> int:
    return 2 * number


def wrong(number: int) -> int:
    return 2 * number + (number > 4)


def cases(*numbers: int, memory: int = 0) -> list[Case]:
    return [Case("double", str(n), {"number": n}, n, memory) for n in numbers]


def run(made: cluster.Cluster, sink: Sink, wanted: list[Case]) -> None:
    made.run(wanted, sink, Board(len(wanted), 0, Console(quiet=True)), Stop())


def test_of_the_only_worker_one_in_so_many_is_checked_too(here: list[int]) -> None:
    client = Client({"tcp://a:1": right})
    sink = Sink()
    run(cluster.Cluster(lambda: client, check_every=3), sink, cases(*range(8)))
    assert here == [0, 3, 6]
    assert sink.answers() == {number: 2 * number for number in range(8)}


def test_what_a_case_does_not_fit_into_does_not_check_it(here: list[int]) -> None:
    client = Client({"tcp://a:1": right, "tcp://b:1": right}, {"tcp://a:1": 10, "tcp://b:1": 1})
    sink = Sink()
    with ThreadPoolExecutor() as pool:
        made = cluster.Cluster(lambda: client)
        stop = Stop()
        board = Board(2, 0, Console(quiet=True))
        running: Future[None] = pool.submit(made.run, cases(1, 2, memory=5), sink, board, stop)
        try:
            running.result(timeout=20)
        finally:
            stop.event.set()
    assert here == [1]
    assert sink.answers() == {1: 2, 2: 4}


def test_a_case_that_fits_into_no_worker_is_waited_for_and_that_is_said(
    here: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    client = Client({"tcp://a:1": right}, {"tcp://a:1": 10})
    stop = Stop()
    with ThreadPoolExecutor() as pool:
        made = cluster.Cluster(lambda: client)
        board = Board(2, 0, Console(soft_wrap=True))
        running = pool.submit(made.run, cases(1, 2, memory=1 << 30), Sink(), board, stop)
        time.sleep(0.1)
        stop.event.set()
        running.result(timeout=20)
    told = capsys.readouterr().out
    assert told.count("1 needs 1.00 GiB, and no worker declares as much MEMORY") == 1
    assert "2 needs" not in told


def test_what_another_worker_cannot_check_is_checked_here(here: list[int]) -> None:
    asked: list[int] = []

    def cannot(number: int) -> int:
        asked.append(number)
        raise PagelabError("this machine has no such trace")

    # It never gets a case: the other one is asked first, and has none besides.
    client = Client({"tcp://a:1": right, "tcp://b:1": cannot})
    sink = Sink()
    stop = Stop()
    with ThreadPoolExecutor() as pool:
        made = cluster.Cluster(lambda: client)
        board = Board(1, 0, Console(quiet=True))
        running: Future[None] = pool.submit(made.run, cases(1), sink, board, stop)
        try:
            running.result(timeout=20)
        finally:
            stop.event.set()
    assert asked == [1, 1, 1]
    assert here == [1]
    assert sink.answers() == {1: 2}


def test_a_worker_that_answered_rightly_before_is_forgotten_whole(here: list[int]) -> None:
    client = Client({"tcp://a:1": wrong})
    made = cluster.Cluster(lambda: client, check_every=2)
    first, second = Sink(), Sink()
    run(made, first, cases(1, 2, 3))
    assert first.answers() == {1: 2, 2: 4, 3: 6}
    client.workers["tcp://b:1"] = right
    with pytest.raises(PagelabError, match="the same command computes it again"):
        run(made, second, cases(5, 6, 7))
    # All that it had answered, to whomever.
    assert first.found == {}
    assert all(two == 2 * one for one, two in second.answers().items())


def full(number: int) -> int:
    raise RunError(f"no space left on a for {number}")


def test_what_a_worker_fails_in_where_others_do_not_is_asked_of_these(here: list[int]) -> None:
    client = Client({"tcp://a:1": full, "tcp://b:1": right})
    sink = Sink()
    run(cluster.Cluster(lambda: client, check_every=100), sink, cases(*range(8)))
    assert sink.answers() == {number: right(number) for number in range(8)}
    # It is asked nothing more once that is known, and needs no third opinion.
    assert sum(name == "tcp://a:1" for name, _ in client.given) < 8
    assert set(client.workers) == {"tcp://a:1", "tcp://b:1"}
    assert here == []


def test_what_a_worker_computed_counts_though_it_fails_in_other_cases(here: list[int]) -> None:
    def small(number: int) -> int:
        return full(number) if number == 5 else right(number)

    client = Client({"tcp://a:1": small})
    made = cluster.Cluster(lambda: client, check_every=100)
    first, second = Sink(), Sink()
    run(made, first, cases(*range(8)))
    # Nobody else was there: it stands, though this process could have run it.
    assert isinstance(first.found[5], Failed)
    assert len(first.answers()) == 7
    client.workers["tcp://b:1"] = right
    run(made, second, cases(5, 8, 9))
    assert second.answers() == {number: right(number) for number in (5, 8, 9)}
    assert len(first.answers()) == 7


def test_what_fails_everywhere_fails(here: list[int]) -> None:
    """Each worker in words of its own."""

    def too_small(number: int) -> int:
        if number == 3:
            raise RunError(f"out of memory at {time.monotonic()}")
        return right(number)

    client = Client({"tcp://a:1": too_small, "tcp://b:1": too_small})
    sink = Sink()
    run(cluster.Cluster(lambda: client, check_every=100), sink, cases(*range(8)))
    assert sorted(sink.answers()) == [0, 1, 2, 4, 5, 6, 7]
    assert isinstance(sink.found[3], Failed)
    assert len(client.workers) == 2
    assert here == []
