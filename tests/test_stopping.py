"""Signals that ask to stop, and those that were ignored from the start."""

import os
import signal
from collections.abc import Iterator

import pytest

from pagelab import jobs


@pytest.fixture(name="before", params=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def fixture_before(request: pytest.FixtureRequest) -> Iterator[signal.Signals]:
    """A signal, of which everything is as before afterwards."""
    # It may be ignored where this is run (nohup).
    before = signal.signal(request.param, signal.SIG_DFL)
    yield request.param
    signal.signal(request.param, before)


def test_the_first_signal_asks_to_stop(before: signal.Signals) -> None:
    with jobs.stoppable() as stop:
        os.kill(os.getpid(), before)
        assert stop.wanted


def test_an_ignored_signal_stays_ignored(before: signal.Signals) -> None:
    signal.signal(before, signal.SIG_IGN)
    with jobs.stoppable() as stop:
        assert signal.getsignal(before) == signal.SIG_IGN
        os.kill(os.getpid(), before)
        assert not stop.wanted
    assert signal.getsignal(before) == signal.SIG_IGN


@pytest.mark.parametrize("before", [signal.SIGHUP], indirect=True)
def test_a_terminal_that_is_closed_sends_two(before: signal.Signals) -> None:
    with jobs.stoppable() as stop:
        for _ in range(2):
            os.kill(os.getpid(), before)
        assert stop.wanted
    assert signal.getsignal(before) == signal.SIG_DFL
