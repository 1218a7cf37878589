"""Page sizes, by the names that results and options have for them."""

from pagelab.errors import unknown

# The operating system's policies that they stand for, `memory.page_policy` of the machine. Between
# 4K and 2M they are those of Linux's folios; `madvise` is 2M where the program asks for it.
SIZES = {
    "4K": "base",
    **{size: size for size in ("16K", "32K", "64K", "128K", "256K", "512K", "1M")},
    "2M": "thp",
    "1G": "1G",
    "madvise": "thp-madvise",
}


def parse(text: str) -> str:
    """A page size as results have it. Raises UsageError for what is none.

    >>> parse("2m"), parse("64 KiB")
    ('2M', '64K')
    """
    written = text.replace(" ", "").upper().removesuffix("IB").removesuffix("B")
    for size in SIZES:
        if size.upper() == written:
            return size
    raise unknown("page size", text, SIZES)
