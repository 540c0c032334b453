# SPDX-License-Identifier: GPL-2.0-only
"""Unpacked kernels in the cache: which one a name means, and getting it there."""

import json
import os
import pathlib
import shutil
import subprocess
from collections.abc import Iterable

from . import lock, mirror, vmlinux
from .common import VmError, cache_root, locked, say

LOCK_FILE = pathlib.Path(__file__).resolve().parent.parent / "kernels.lock"
DEFAULT = "newest"
# What mounting the host's files and the overlays takes; each comes after those that it depends on.
_BOOT_MODULES = ("netfs", "9pnet", "9pnet_virtio", "9p", "overlay")


def read_lock() -> dict[str, lock.Kernel]:
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


def _packed(release: str) -> pathlib.Path:
    """The image of a kernel as packages hold it; `config` and the modules lie beside it."""
    return _modules(release, _directory(release)) / "vmlinuz"


def image(release: str) -> pathlib.Path:
    """The image that QEMU starts, unpacked from the package's when it is first asked for."""
    final = _packed(release).with_name("vmlinux")
    if not final.exists():
        with locked("kernels"):
            part = final.with_name("vmlinux.part")
            part.write_bytes(vmlinux.extract(_packed(release).read_bytes()))
            part.rename(final)
    return final


def modules(release: str) -> pathlib.Path:
    """The directory of an unpacked kernel's modules."""
    return _modules(release, _directory(release))


def boot_modules(release: str) -> list[pathlib.Path]:
    """The modules that the guest needs to see the host's files, in the order to load them."""
    return [path for name in _BOOT_MODULES for path in modules(release).rglob(f"{name}.ko")]


def _replacements_file() -> pathlib.Path:
    return cache_root() / "kernels" / "replacements.json"


def _replacements() -> dict[str, str]:
    """Release in use by `alias locked-release`, for kernels that have left the mirror."""
    try:
        return json.loads(_replacements_file().read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}


def _cached(name: str) -> str | None:
    """The release that `name` means, if it is in the cache already."""
    chosen = read_lock().get(name)
    if chosen is None:
        known = sorted(
            path.name
            for path in (cache_root() / "kernels").glob("*")
            if lock.is_release(path.name) and _packed(path.name).exists()
        )
        matches = [release for release in known if name in (release, lock.version(release))]
        return matches[0] if matches else None
    if _packed(chosen.release).exists():
        return chosen.release
    other = _replacements().get(f"{name} {chosen.release}")
    return other if other is not None and _packed(other).exists() else None


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


def provision(names: list[str]) -> None:
    """Brings the named kernels into the cache; does nothing for those that are there."""
    with locked("kernels"):
        missing = [name for name in names if _cached(name) is None]
        if not missing:
            return
        wanted = {name: read_lock().get(name) for name in missing}
        say(f"getting kernel {', '.join(missing)} (120 to 180 MB each, once)")
        if all(wanted.values()) and _provision_from({kernel.suite for kernel in wanted.values()}, wanted):
            return
        # Some kernel is not recorded or has left the mirror: any suite may hold what to take instead.
        _provision_from(lock.SUITES, wanted, replace=True)


def _provision_from(suites: Iterable[str], wanted: dict[str, lock.Kernel | None], *, replace: bool = False) -> bool:
    """Gets the kernels from the mirror's suites; without `replace` only if the recorded ones are all there."""
    with mirror.index_of(suites):
        available = lock.kernels_of(mirror.kernel_packages())
        if not replace and not all(kernel in available for kernel in wanted.values()):
            return False
        debs = {}
        for name, kernel in wanted.items():
            chosen = _choose(name, kernel, available)
            if not _packed(chosen.release).exists() and chosen.release not in debs:
                debs[chosen.release] = _download(chosen)
    for release, files in debs.items():
        _unpack(release, files)
    return True


def _choose(name: str, chosen: lock.Kernel | None, available: list[lock.Kernel]) -> lock.Kernel:
    """The kernel to fetch for `name`, recording a replacement when the locked one has left the mirror."""
    if chosen is None:
        kernel = lock.explicit(name, available)
        if kernel is None:
            offered = ", ".join(sorted({lock.version(k.release) for k in available}, key=lock.number))
            raise VmError(f"no kernel {name}: use {', '.join(lock.ALIASES)} or a version of the mirror: {offered}")
        return kernel
    if chosen in available:
        return chosen
    same = [kernel for kernel in available if kernel.release == chosen.release and kernel.suite == chosen.suite]
    kernel = same[0] if same else lock.choose(lock.ALIASES[name], chosen.number, available)
    if kernel is None:
        raise VmError(f"kernel {name}: the mirror holds neither {chosen.release} nor any other {name} kernel")
    if kernel.release == chosen.release:
        say(f"kernel {name}: the mirror has another build of {chosen.release} than recorded; using it")
        return kernel
    known = dict(_replacements(), **{f"{name} {chosen.release}": kernel.release})
    _replacements_file().parent.mkdir(parents=True, exist_ok=True)
    _replacements_file().write_text(json.dumps(known, indent=1), encoding="utf-8")
    return kernel


def _download(kernel: lock.Kernel) -> list[pathlib.Path]:
    downloads = cache_root() / "downloads"
    downloads.mkdir(parents=True, exist_ok=True)
    return [mirror.download(package, downloads) for package in kernel.packages]


def _unpack(release: str, debs: list[pathlib.Path]) -> None:
    """Unpacks a kernel; it appears under its final name only when complete."""
    final = _directory(release)
    part = final.with_name(final.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    say(f"unpacking kernel {release} (some 10 s)")
    for deb in debs:
        subprocess.run(["dpkg-deb", "-x", str(deb), str(part)], check=True)
        deb.unlink()
    directory = _modules(release, part)
    if (part / "boot").exists():
        # Packages before 6.19 keep the image in /boot; give all the same shape.
        for name in ("vmlinuz", "config"):
            (part / "boot" / f"{name}-{release}").rename(directory / name)
    # The initramfs loads these; its insmod reads no compressed module. modprobe in the guest decompresses the others.
    compressed = [str(path) for name in _BOOT_MODULES for path in directory.rglob(f"{name}.ko.xz")]
    if compressed:
        subprocess.run(["xz", "-d", "--", *compressed], check=True)
    subprocess.run(
        ["depmod", "-b", str(part / "usr"), release],
        check=True,
        env=dict(os.environ, PATH=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"),
    )
    shutil.rmtree(final, ignore_errors=True)
    part.rename(final)


def write_lock(near: dict[str, str]) -> None:
    """Resolves every alias anew against the mirror: near the version given, else near the present choice."""
    with locked("kernels"):
        with mirror.index_of(lock.SUITES):
            available = lock.kernels_of(mirror.kernel_packages())
        old = read_lock()
        new = {}
        for alias in lock.ALIASES.values():
            wanted = old[alias.name].number if alias.name in old else alias.ranges[0].low
            wanted = lock.number(near[alias.name]) if alias.name in near else wanted
            kernel = lock.choose(alias, wanted, available)
            if kernel is None:
                raise VmError(f"the mirror holds no kernel for {alias.name} ({alias.meaning})")
            new[alias.name] = kernel
            say(f"{alias.name}: {kernel.release} of {kernel.suite}")
        LOCK_FILE.write_text(lock.render(new), encoding="utf-8")
