"""Page sizes between 4 KB and 2 MB, which no process can choose for itself alone.

A kernel with multi-size THP (Linux 6.8) has a setting for each of them, for all processes. The
probe changes these, with leave, and undoes its changes however it or this process ends.
"""

from types import TracebackType

from pagelab import units
from pagelab.errors import PagelabError
from pagelab.measuring import probe
from pagelab.measuring.serving import Serving
from pagelab.pages import SIZES

# Setting of the kernel, by the name of the size that it is used for.
OWN = "2M"


class GivenPages:
    """Pages that the kernel gives to whom huge pages are given.

    As a context: on leaving it the kernel's settings are as they were.
    """

    def __init__(self) -> None:
        self._given = OWN
        self._probe = Serving("folio-sizes", "--allow-tuning")

    def give(self, size: str) -> None:
        """One of `SIZES` from 16K to 1M and no other, or 2M, for what the kernel was set to.

        Raises PagelabError when the kernel has no such setting or this user may not change it.
        """
        if size == self._given:
            return
        assert size in SIZES
        wanted = "own" if size == OWN else str(units.parse_size(size) >> 10)
        # The guard of a probe that has ended has undone everything.
        self._given = OWN
        if self._probe.ask(wanted) != "ok":
            raise PagelabError(f"{probe.NAME} did not say that {size} is given")
        self._given = size

    def __enter__(self) -> "GivenPages":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        said = self._probe.end()
        if said and error is None:
            raise PagelabError(said)
