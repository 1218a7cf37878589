"""Page sizes, by the names that results and options have for them."""

from pagelab.errors import UsageError, unknown

# The operating system's policies that they stand for, `memory.page_policy` of the machine. Between
# 4K and 2M they are those of Linux's folios.
SIZES = {
    "4K": "base",
    **{size: size for size in ("16K", "32K", "64K", "128K", "256K", "512K", "1M")},
    "2M": "thp",
    "1G": "1G",
    "madvise": "thp-madvise",
    "reserved": "reserved",
    "quicksilver": "quicksilver",
}
# Pages of 2 MiB made of blocks that are reserved.
RESERVED = ("reserved", "quicksilver")
# Pages of 2 MiB under a condition: the program asks for them, or has touched so much.
CONDITIONAL = ("madvise", *RESERVED)


def parse(text: str) -> str:
    """A page size as results have it, or several; raises UsageError for what is none.

    >>> parse("2m"), parse("64 KiB"), parse("64K+2M")
    ('2M', '64K', '2M+64K')
    """
    sizes = [_one(part) for part in text.split("+")]
    if len(sizes) == 1:
        return sizes[0]
    for size in sizes:
        if size in ("4K", "1G", *CONDITIONAL):
            raise UsageError(f"{text}: {size} goes with no other size")
    if len(set(sizes)) < len(sizes):
        raise UsageError(f"{text} names a size twice")
    return "+".join(size for size in reversed(SIZES) if size in sizes)


def _one(text: str) -> str:
    written = text.replace(" ", "").upper().removesuffix("IB").removesuffix("B")
    for size in SIZES:
        if size.upper() == written:
            return size
    raise unknown("page size", text, SIZES)


def policy(size: str) -> str:
    """The operating system's policy that a page size stands for.

    >>> policy("2M+64K")
    'thp+64K'
    """
    return "+".join(SIZES[one] for one in size.split("+"))


def of_policy(policy: str) -> str:
    """The page size that stands for a policy, or the policy itself.

    >>> of_policy("thp+64K")
    '2M+64K'
    """
    sizes = {policy: size for size, policy in SIZES.items()}
    return "+".join(sizes.get(one, one) for one in policy.split("+"))


def largest(size: str) -> str:
    """The largest of several sizes, or of those that a name stands for.

    >>> largest("2M+64K"), largest("madvise")
    ('2M', '2M')
    """
    first = size.partition("+")[0]
    return "2M" if first in CONDITIONAL else first
