"""Settings of the kernel for all processes, which no process can choose for itself alone.

The probe changes them, with leave, and undoes its changes however it or this process ends.
"""

from types import TracebackType

from pagelab import units
from pagelab.errors import PagelabError
from pagelab.measuring import probe
from pagelab.measuring.serving import Serving

# The larger pages of the kernel's own setting, as `--pages` has them.
OWN = "2M"


def only(size: str) -> str:
    """The setting by which pages of a size from 16K to 1M are given, and no other (Linux 6.8)."""
    return f"folio-kib={units.parse_size(size) >> 10}"


class KernelSettings:
    """The kernel's settings for a while: on leaving this context they are as they were."""

    def __init__(self) -> None:
        self._set: tuple[str, ...] = ()
        self._probe = Serving("settings", "--allow-tuning")

    def set(self, settings: tuple[str, ...]) -> None:
        """Settings as the probe names them, `NAME=VALUE`; all others are what they were.

        Raises PagelabError when the kernel has no such setting or this user may not change it.
        """
        if settings == self._set:
            return
        # The guard of a probe that has ended has undone everything.
        self._set = ()
        if self._probe.ask(" ".join(settings)) != "ok":
            raise PagelabError(f"{probe.NAME} did not say that {' '.join(settings)} is set")
        self._set = settings

    def give(self, size: str) -> None:
        """Pages of one size from 16K to 1M and no other, or 2M, for what the kernel was set to."""
        self.set(() if size == OWN else (only(size),))

    def __enter__(self) -> "KernelSettings":
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
