"""Operating systems by name: who keeps a page after `fork()`, where pages come from."""

import json
from collections.abc import Iterator

from pagelab import _core
from pagelab.errors import UsageError, unknown

# Kernels: accounting scheme (`memory.accounting` of the machine) and description.
KERNELS = {
    "linux": ("mm_owner", "Linux since 6.15: two owners are known of each large folio"),
    "linux-6.12": ("per_page", "Linux until 6.14: nobody knows who maps a large folio"),
    "foliomap": ("foliomap", "exact folio accounting (FolioMap)"),
}

# Keys of `memory.reclaim`; other settings of a kernel are khugepaged's.
_RECLAIM = (
    "max_bytes",
    "swap_bytes",
    "read_us",
    "write_us",
    "shrink_underused",
    "lru_gen",
    "kswapd",
    "min_free_kbytes",
    "watermark_scale_factor",
    "swappiness",
)


def listed() -> list[tuple[str, str]]:
    """Every name and description: kernels, then memory managers."""
    kernels = [(name, about) for name, (_, about) in KERNELS.items()]
    return kernels + [named for named in _core.managers() if named[0] not in KERNELS]


def names() -> list[str]:
    """Every name."""
    return [name for name, _ in listed()]


def parse(text: str) -> str:
    """A name with its parameters, as results have it. Raises UsageError for what is none.

    >>> parse("foliomap"), parse("bandwidth:weights=3:2")
    ('foliomap', 'bandwidth:weights=3:2')
    """
    list(overrides(text))
    return text


def overrides(text: str) -> Iterator[str]:
    """The machine's keys with their values.

    Parameters of a kernel are `defrag`, `grouping`, `huge_code`, and those of khugepaged or of
    reclaim, which they switch on.

    >>> list(overrides("linux-6.12"))
    ['memory.accounting=per_page']
    >>> list(overrides("linux:max_ptes_none=0"))
    ['memory.accounting=mm_owner', 'memory.khugepaged.max_ptes_none=0']
    >>> list(overrides("linux:max_bytes=64MiB"))
    ['memory.accounting=mm_owner', 'memory.reclaim.max_bytes=64MiB']
    >>> list(overrides("linux:defrag=always"))
    ['memory.accounting=mm_owner', 'memory.defrag=always']
    """
    name, _, rest = text.partition(":")
    if name in KERNELS:
        yield f"memory.accounting={KERNELS[name][0]}"
        for setting in filter(None, rest.split(":")):
            if "=" not in setting:
                raise UsageError(f"'{setting}' of {text} is no setting; write it as KEY=VALUE")
            yield f"memory.{_part(setting.partition('=')[0])}{setting}"
        return
    if name not in names():
        raise unknown("operating system", name, names())
    yield manager(text)


def _part(key: str) -> str:
    if key in ("defrag", "grouping", "huge_code"):
        return ""
    return "reclaim." if key in _RECLAIM else "khugepaged."


def manager(text: str) -> str:
    """The machine's key that names a memory manager: `bandwidth:weights=3:2`."""
    name, _, rest = text.partition(":")
    valid = [known for known, _ in _core.managers()]
    if name not in valid:
        raise unknown("manager", name, valid)
    keys = []
    for setting in filter(None, rest.split(",")):
        key, equals, value = setting.partition("=")
        if not equals:
            raise UsageError(f"'{setting}' of {text} is no parameter; write it as KEY=VALUE")
        keys.append(f"{key}={_toml(value)}")
    return f"memory.manager={{{', '.join([f'name={json.dumps(name)}', *keys])}}}"


def _toml(value: str) -> str:
    """A number as it is, anything else as a string."""
    try:
        float(value)
    except ValueError:
        return json.dumps(value)
    return value
