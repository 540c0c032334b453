# SPDX-License-Identifier: GPL-2.0-only
"""Gets what boots a VM: QEMU and kernels into the cache, busybox from the host."""

import concurrent.futures
import pathlib
import shutil
from collections.abc import Sequence

from . import kernels, qemu
from .common import VmError


def busybox() -> pathlib.Path:
    """The host's busybox, which must be a static one: it is all that the guest has before the host's files."""
    found = shutil.which("busybox")
    if found is None or b"/ld-linux" in pathlib.Path(found).read_bytes():
        raise VmError("no static busybox; run tools/setup, which installs busybox-static")
    return pathlib.Path(found)


def ensure(suite: str = qemu.PLAIN, kernel_names: Sequence[str] = ()) -> None:
    """Gets what is missing, at once; instant when all is there. `suite`: of the QEMU that is wanted."""
    busybox()
    steps = [lambda: kernels.provision(list(kernel_names)), lambda: qemu.ensure(suite)]
    with concurrent.futures.ThreadPoolExecutor(len(steps)) as pool:
        for done in [pool.submit(step) for step in steps]:
            done.result()
