"""pagelab: what virtual memory costs a program, and what it would cost under another design."""

from pagelab._core import version as _version

__version__ = _version()
