"""Huge pages for the allocation sites of a program that gain most, by the preloaded library."""

import os
from pathlib import Path

from pagelab import advice, files, results, sites
from pagelab.advising.candidates import Candidate, Unavailable
from pagelab.errors import PagelabError

_NAME = "sites: huge pages"
# Sites are named until they save this part of all that is saved.
_ENOUGH = 0.95
# The library takes no more, and no longer a text (crates/recorder/preload/advised.c).
_MOST = 256
_LONGEST = 1 << 15


def settings(result: Path | None) -> list[Candidate | Unavailable]:
    """The setting that a result of `compare --sites` with larger pages leads to, if one is given.

    Raises PagelabError where it has no sites.
    """
    return [] if result is None else [_setting(result)]


def _setting(result: Path) -> Candidate | Unavailable:
    found = sites.gains(results.load(result))
    if found is None:
        raise PagelabError(
            f"{result} says nothing of allocation sites with larger pages: it is a result of "
            "pagelab compare --sites --pages 4K,2M -- PROGRAM"
        )
    mode = advice.huge_pages()
    if mode != "madvise":
        words = "all memory has huge pages" if mode == "always" else "huge pages are switched off"
        return Unavailable(_NAME, words)
    named = _named(found)
    if not named:
        return Unavailable(_NAME, "no site saves anything")
    before = os.environ.get("LD_PRELOAD")
    library = str(files.preloaded())
    return Candidate(
        _NAME,
        f"{len(named)} allocation site{'s have' if len(named) > 1 else ' has'} huge pages",
        {
            "LD_PRELOAD": f"{library}:{before}" if before else library,
            "PAGELAB_SITES": "huge:" + ";".join(named),
        },
    )


def _named(found: sites.Gains) -> list[str]:
    """Callers of the sites that save most for their memory, as the library takes them."""
    named: dict[str, None] = {}
    for gain, part in zip(found.sites, [0.0, *found.cumulative()], strict=False):
        caller = gain.site.frames[0] if gain.site.frames else None
        if gain.saved <= 0 or part >= _ENOUGH or len(named) == _MOST:
            break
        if caller is not None and caller.object and found.share(gain) >= sites.WORTH:
            named[f"{Path(caller.object).name}+{caller.offset:x}"] = None
            if len("huge:" + ";".join(named)) >= _LONGEST:
                named.popitem()
                break
    return list(named)
