"""What is simulated: the JSON that the compiled part reads."""

from typing import Any


def together(programs: list[dict[str, Any]], copies: int) -> dict[str, Any]:
    """One source alone, or several at once, each so many times."""
    programs = [program for program in programs for _ in range(copies)]
    if len(programs) == 1:
        return programs[0]
    return {
        "kind": "programs",
        "name": "+".join(program["name"] for program in programs),
        "programs": programs,
    }
