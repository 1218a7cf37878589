"""Figure 4: STREAM's bandwidth by the weights of the nodes, in the simulator."""

import json
from dataclasses import asdict
from typing import Any

from pagelab import _core
from pagelab.errors import PagelabError
from pagelab.linux import markdown
from pagelab.linux.fbmm.part import Data, Say
from pagelab.linux.layout import Layout
from pagelab.recording import Window
from pagelab.sources import together

LINE_BYTES = 64


def measure(layout: Layout, plan: Data, say: Say) -> Data:
    """Bytes a second that programs which stream at once read from memory, by placement.

    Raises:
        PagelabError: the simulator ended early.

    """
    machine = layout.root / "experiments" / plan["machine"]
    program = {
        "kind": "workload",
        "name": "stream",
        "parameters": plan["parameters"],
        "window": asdict(Window(limit=plan["limit"])),
    }
    source = together([program], plan["copies"])
    found = {}
    for name in ["Linux", *plan["weights"]]:
        say(f"simulating {name}")
        overrides = [] if name == "Linux" else [_interleave(name)]
        found[name] = _bandwidth(_simulate(str(machine), overrides, source))
    return found


def _interleave(weights: str) -> str:
    return f'memory.manager={{name="interleave", weights="{weights}"}}'


def _simulate(machine: str, overrides: list[str], source: dict[str, Any]) -> Data:
    try:
        run = json.loads(
            _core.simulate("radix", machine, overrides, json.dumps(source), lambda *_: True)
        )
    except _core.Error as error:
        raise PagelabError(str(error)) from error
    if run["stopped"]:
        raise PagelabError(f"the simulation ended early: {run['stopped']}")
    return run


def _bandwidth(run: Data) -> Data:
    seconds = run["cycles"]["elapsed"] / run["cycles"]["frequency_hz"]
    reads = [node["reads"] for node in run["nodes"]]
    return {"rate": LINE_BYTES * sum(reads) / seconds, "local": reads[0] / sum(reads)}


def render(plan: Data, data: Data) -> str:
    """A row a placement, with the paper's verdict."""
    rows = []
    for name, one in data.items():
        relative = one["rate"] / data["Linux"]["rate"]
        faster = "more" if name in plan["faster"] else ""
        rows.append(
            [
                name,
                f"{one['rate'] / 1e9:.1f}",
                f"{100 * one['local']:.1f} %",
                f"{relative:.2f}",
                faster,
            ]
        )
    head = ["local:remote", "GB/s read", "local lines", "relative to Linux", "paper"]
    return markdown.table(head, rows)
