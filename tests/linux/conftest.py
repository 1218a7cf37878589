"""A guest to run things in, where a kernel has been built."""

import shutil

import pytest

from pagelab.linux import guest, layout


@pytest.fixture(scope="session")
def machine() -> guest.Machine:
    where = layout.find()
    image = where.image()
    if not image.exists():
        pytest.skip("no kernel built: pagelab linux build")
    if shutil.which(guest.QEMU) is None:
        pytest.skip(f"no {guest.QEMU}")
    return guest.Machine(
        image=image, init=where.linux / "guest" / "init", memory=256, cpus=1, timeout=120
    )
