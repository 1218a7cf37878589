"""Memory of another kind for the allocation sites of a program that gain most.

The preloaded library gives it (crates/recorder/preload/advised.h).
"""

from pathlib import Path

from pagelab import advice, results, sites
from pagelab.advising.candidates import Candidate, Unavailable, preloaded
from pagelab.errors import PagelabError
from pagelab.measuring.native import Policy

# Sites are named until they save this part of all that is saved.
_ENOUGH = 0.95
# The library takes no more, and no longer a text (crates/recorder/preload/advised.c).
_MOST = 256
_LONGEST = 1 << 15


def settings(result: Path | None) -> list[Candidate | Unavailable]:
    """The settings that a result of `compare --sites` with larger pages leads to, if one is given.

    Raises PagelabError where it has no sites.
    """
    if result is None:
        return []
    found = sites.gains(results.load(result))
    if found is None:
        raise PagelabError(
            f"{result} says nothing of allocation sites with larger pages: it is a result of "
            "pagelab compare --sites --pages 4K,2M -- PROGRAM"
        )
    named = _named(found)
    if not named:
        return [Unavailable("sites", "no site saves anything")]

    def setting(way: str, words: str, policy: Policy = "own") -> Candidate:
        sites_ = f"{len(named)} allocation site{'s have' if len(named) > 1 else ' has'}"
        text = f"{way}:{';'.join(named)}"
        environment = {**preloaded(), "PAGELAB_SITES": text}
        return Candidate(f"sites: {words}", f"{sites_} {words}", environment, policy)

    return [
        # No huge pages for others where the kernel gives them to all.
        setting("huge", "huge pages", "advised" if advice.huge_pages() == "always" else "own"),
        setting("collapse", "huge pages at once"),
        setting("populate", "their memory at once"),
    ]


def _named(found: sites.Gains) -> list[str]:
    """Callers of the sites that save most for their memory, as the library takes them."""
    named: dict[str, None] = {}
    for gain, part in zip(found.sites, [0.0, *found.cumulative()], strict=False):
        caller = gain.site.frames[0] if gain.site.frames else None
        if gain.saved <= 0 or part >= _ENOUGH or len(named) == _MOST:
            break
        if caller is not None and caller.object and found.share(gain) >= sites.WORTH:
            named[f"{Path(caller.object).name}+{caller.offset:x}"] = None
            if len(";".join(named)) >= _LONGEST:
                named.popitem()
                break
    return list(named)
