"""QEMU's user-mode emulation for x86-64 programs, built with plugins.

`PATH` is the emulator, `MANIFEST` says of which source it was built.
"""

from pathlib import Path

PATH = Path(__file__).parent / "qemu-x86_64"
"""The emulator, an executable file."""

MANIFEST = Path(__file__).parent / "manifest.json"
"""JSON: its version, the source's archive and SHA-256, and the glibc that it needs."""
