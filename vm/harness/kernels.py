# SPDX-License-Identifier: GPL-2.0-only
"""Unpacked kernels in the cache: which one a name means, and getting it there."""

import json
import os
import pathlib
import shutil
import subprocess
from typing import Dict, List, Optional

from . import lock, mirror
from .common import VmError, cache_root, locked, say

LOCK_FILE = pathlib.Path(__file__).resolve().parent.parent / "kernels.lock"
DEFAULT = "newest"


def read_lock() -> Dict[str, lock.Kernel]:
    """The committed choice of kernels by alias."""
    try:
        return lock.parse(LOCK_FILE.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise VmError(f"{LOCK_FILE.name}: {error}") from error


def _directory(release: str) -> pathlib.Path:
    return cache_root() / "kernels" / release


def _modules(release: str, root: pathlib.Path) -> pathlib.Path:
    return root / "usr" / "lib" / "modules" / release


def image(release: str) -> pathlib.Path:
    """The bootable image of an unpacked kernel; `config` and the modules lie beside it."""
    return _modules(release, _directory(release)) / "vmlinuz"


def _replacements_file() -> pathlib.Path:
    return cache_root() / "kernels" / "replacements.json"


def _replacements() -> Dict[str, str]:
    """Release in use by `alias locked-release`, for kernels that have left the mirror."""
    try:
        return json.loads(_replacements_file().read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}


def _cached(name: str) -> Optional[str]:
    """The release that `name` means, if it is in the cache already."""
    chosen = read_lock().get(name)
    if chosen is None:
        known = sorted(p.name for p in (cache_root() / "kernels").glob("*" + lock.FLAVOUR) if image(p.name).exists())
        matches = [k for k in known if name in (k, ".".join(map(str, lock.number(k))))]
        return matches[0] if matches else None
    if image(chosen.release).exists():
        return chosen.release
    other = _replacements().get(f"{name} {chosen.release}")
    return other if other is not None and image(other).exists() else None


def resolve(name: str) -> str:
    """The release that `name` (an alias, a version or a release) means; provisions it when missing."""
    release = _cached(name)
    if release is None:
        provision([name])
        release = _cached(name)
    if release is None:
        raise VmError(f"kernel {name} was provisioned and is not in the cache: remove {cache_root()}/kernels")
    chosen = read_lock().get(name)
    if chosen is not None and chosen.release != release:
        say(f"kernel {name}: {chosen.release} has left the mirror, {release} takes its place")
    return release


def provision(names: List[str]) -> None:
    """Brings the named kernels into the cache; does nothing for those that are there."""
    with locked("kernels"):
        missing = [name for name in names if _cached(name) is None]
        if not missing:
            return
        mirror.update()
        available = lock.kernels_of(mirror.kernel_packages())
        for name in missing:
            kernel = _choose(name, read_lock().get(name), available)
            if not image(kernel.release).exists():
                _unpack(kernel)


def _choose(name: str, chosen: Optional[lock.Kernel], available: List[lock.Kernel]) -> lock.Kernel:
    """The kernel to fetch for `name`, recording a replacement when the locked one has left the mirror."""
    if chosen is None:
        kernel = lock.explicit(name, available)
        if kernel is None:
            offered = ", ".join(sorted({".".join(map(str, k.number)) for k in available}, key=lock.number))
            raise VmError(f"no kernel {name}: use {', '.join(lock.ALIASES)} or one of the mirror's: {offered}")
        return kernel
    if chosen in available:
        return chosen
    same = [kernel for kernel in available if kernel.release == chosen.release and kernel.suite == chosen.suite]
    kernel = same[0] if same else lock.nearest(lock.ALIASES[name], chosen.number, available)
    if kernel is None:
        raise VmError(f"kernel {name}: the mirror holds neither {chosen.release} nor any other {name} kernel")
    if kernel.release == chosen.release:
        say(f"kernel {name}: the mirror has another build of {chosen.release} than recorded; using it")
        return kernel
    known = dict(_replacements(), **{f"{name} {chosen.release}": kernel.release})
    _replacements_file().parent.mkdir(parents=True, exist_ok=True)
    _replacements_file().write_text(json.dumps(known, indent=1), encoding="utf-8")
    return kernel


def _unpack(kernel: lock.Kernel) -> None:
    """Downloads and unpacks a kernel; it appears under its final name only when complete."""
    final = _directory(kernel.release)
    part = final.with_name(final.name + ".part")
    downloads = cache_root() / "downloads"
    shutil.rmtree(part, ignore_errors=True)
    for directory in (part, downloads):
        directory.mkdir(parents=True, exist_ok=True)
    debs = [mirror.download(package, downloads) for package in kernel.packages]
    say(f"unpacking {kernel.release}")
    for deb in debs:
        subprocess.run(["dpkg-deb", "-x", str(deb), str(part)], check=True)
        deb.unlink()
    modules = _modules(kernel.release, part)
    if (part / "boot").exists():
        # Packages before 6.19 keep the image in /boot; give all the same shape.
        for name in ("vmlinuz", "config"):
            (part / "boot" / f"{name}-{kernel.release}").rename(modules / name)
    compressed = [str(path) for path in modules.rglob("*.ko.xz")]
    for start in range(0, len(compressed), 200):
        subprocess.run(["xz", "-d", "-T0", "--", *compressed[start:start + 200]], check=True)
    subprocess.run(["depmod", "-b", str(part / "usr"), kernel.release], check=True,
                   env=dict(os.environ, PATH=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"))
    shutil.rmtree(final, ignore_errors=True)
    part.rename(final)


def write_lock(near: Dict[str, str]) -> None:
    """Resolves every alias anew against the mirror: near the version given, else near the present choice."""
    with locked("kernels"):
        mirror.update()
        available = lock.kernels_of(mirror.kernel_packages())
        old = read_lock()
        new = {}
        for alias in lock.ALIASES.values():
            wanted = old[alias.name].number if alias.name in old else alias.low
            wanted = lock.number(near[alias.name]) if alias.name in near else wanted
            kernel = lock.nearest(alias, wanted, available)
            if kernel is None:
                raise VmError(f"the mirror holds no kernel for {alias.name} ({alias.meaning})")
            new[alias.name] = kernel
        LOCK_FILE.write_text(lock.render(new), encoding="utf-8")
