"""`--machine here`: the preset of this machine, measured on first use and kept.

What is kept is the measurement, from which the preset is made anew each time: a later version makes
a better one of the same figures. It holds for a CPU and a kernel.
"""

import json
import os
import time
from pathlib import Path

from pagelab import files
from pagelab.errors import PagelabError, cannot
from pagelab.measuring import kind, machine, machine_costs, probe, result
from pagelab.measuring.result import Measurement

NAME = "here"


def measurement_file() -> Path:
    """File of the measurement."""
    return files.cache() / "here.json"


def preset(say: probe.Say) -> Path:
    """The preset's file; measures first where nothing is kept for this CPU and kernel.

    `say` is given what is done, and each line of the probe's progress. Raises PagelabError.
    """
    kept, stale = _kept()
    if kept is None:
        say(
            f"-m {NAME} is this machine{stale}: it is measured now, in 2 to 5 minutes, best with "
            f"nothing else running. Kept in {measurement_file()} until CPU or kernel change; "
            "`pagelab measure` measures it again."
        )
        kept = probe.run("all", say)
        file = keep(kept)
    else:
        day = time.strftime("%Y-%m-%d", time.localtime(kept.started))
        told = f"-m {NAME}: {kept.environment.cpu}, as measured on {day} ({measurement_file()})"
        if kept.environment.hypervisor and "idle" not in kept.parts:
            told += "; `pagelab measure` finds what idle memory takes, too"
        say(told)
        file = _write_preset(kept)
    if (price := machine_costs.first_touch(kept)) is not None:
        say(f"-m {NAME}: {price}")
    own = machine.preset(kept, NAME).design
    if own != "radix":
        say(f"-m {NAME} is a guest: the page table that it has is {own} (--designs {own},ideal)")
    return file


def keep(measurement: Measurement) -> Path:
    """Keeps a measurement for later and returns the preset's file.

    Raises PagelabError when no preset can be made of it; what was kept then stays.
    """
    file = _write_preset(measurement)
    text = json.dumps(measurement.model_dump(mode="json"))
    _replace(measurement_file(), text)
    return file


def description() -> str:
    """Line about it in a list of machines."""
    kept, _ = _kept()
    if kept is None:
        return "this machine, measured on first use (some minutes)"
    day = time.strftime("%Y-%m-%d", time.localtime(kept.started))
    return f"this machine: {kept.environment.cpu}, measured on {day}"


def _kept() -> tuple[Measurement | None, str]:
    """The measurement, if it is of this CPU and kernel; else what has changed, in words."""
    if not measurement_file().exists():
        return None, ""
    try:
        kept = result.load(measurement_file())
    except PagelabError as error:
        return None, f" ({error})"
    then = kept.environment.cpu, kept.environment.kernel.split()[:1]
    now = kind.processor().name, [os.uname().release]
    if then == now:
        return kept, ""
    what = "CPU" if then[0] != now[0] else "kernel"
    return None, f", whose {what} is another than when it was measured"


def _write_preset(measurement: Measurement) -> Path:
    file = measurement_file().with_suffix(".toml")
    with cannot("make", files.cache()):
        files.cache().mkdir(parents=True, exist_ok=True)
    _replace(file, machine.preset(measurement, NAME).toml())
    return file


def _replace(file: Path, text: str) -> None:
    """Writes a file whole or not at all."""
    part = file.with_name(f".{os.getpid()}.{file.name}")
    with cannot("write", file):
        part.write_text(text, encoding="utf-8")
        part.replace(file)
