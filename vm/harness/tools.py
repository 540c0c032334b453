# SPDX-License-Identifier: GPL-2.0-only
"""Gets what boots a VM: QEMU and kernels into the cache, busybox from the host."""

import concurrent.futures
import functools
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


def ensure(suites: Sequence[str] = (qemu.PLAIN,), kernel_names: Sequence[str] = ()) -> None:
    """Gets what is missing, at once; instant when all is there. `suites`: of the QEMUs that are wanted."""
    busybox()
    steps = [functools.partial(kernels.provision, list(kernel_names))]
    steps += [functools.partial(qemu.ensure, suite) for suite in suites]
    with concurrent.futures.ThreadPoolExecutor(len(steps)) as pool:
        for done in [pool.submit(step) for step in steps]:
            done.result()
