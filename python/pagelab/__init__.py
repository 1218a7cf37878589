"""pagelab: what virtual memory costs a program, and what it would cost under another design.

`record` a program, `simulate` it under another design, `compare` several, `annotate` what misses;
`sweep` over many from a file, and `diff` two of these; `measure` the machine at hand, and
`validate` what is predicted of it. `designs`, `tlbs`, `machines` and `workloads` are what
there is to choose from. docs/python.md shows them at work.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

try:
    from pagelab._core import version as _version
except ImportError as error:
    # pip asks for a wheel's platform; files that were copied, or a changed system, do not.
    raise ImportError(
        f"pagelab's compiled module does not load here: {error}. Its wheel is for x86-64 Linux "
        "with glibc 2.34 or later; in a checkout, `make setup` builds it"
    ) from error

if TYPE_CHECKING:
    from pagelab import designs as designs
    from pagelab import machines as machines
    from pagelab import tlbs as tlbs
    from pagelab import workloads as workloads
    from pagelab.api import compare as compare
    from pagelab.api import measure as measure
    from pagelab.api import record as record
    from pagelab.api import simulate as simulate
    from pagelab.design import Design as Design
    from pagelab.errors import PagelabError as PagelabError
    from pagelab.errors import UsageError as UsageError
    from pagelab.machines import Machine as Machine
    from pagelab.results import Comparison as Comparison
    from pagelab.results import Recording as Recording
    from pagelab.results import Run as Run
    from pagelab.results import load as load
    from pagelab.sources import Trace as Trace
    from pagelab.sources import Workload as Workload
    from pagelab.sources import at_once as at_once
    from pagelab.studies import annotate as annotate
    from pagelab.studies import diff as diff
    from pagelab.studies import sweep as sweep
    from pagelab.studies import validate as validate
    from pagelab.window import Window as Window

__version__ = _version()

# Module of each name. It is imported when it is first used: the package takes no time to import.
_PLACES = {
    **dict.fromkeys(("compare", "measure", "record", "simulate"), "pagelab.api"),
    **dict.fromkeys(("annotate", "diff", "sweep", "validate"), "pagelab.studies"),
    **dict.fromkeys(("Comparison", "Recording", "Run", "load"), "pagelab.results"),
    **dict.fromkeys(("PagelabError", "UsageError"), "pagelab.errors"),
    **dict.fromkeys(("Trace", "Workload", "at_once"), "pagelab.sources"),
    "Design": "pagelab.design",
    "Machine": "pagelab.machines",
    "Window": "pagelab.window",
}
_MODULES = ("designs", "machines", "tlbs", "workloads")

__all__ = ["__version__", *_PLACES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"pagelab.{name}")
    if name not in _PLACES:
        raise AttributeError(f"module 'pagelab' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_PLACES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
