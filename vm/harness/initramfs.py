# SPDX-License-Identifier: GPL-2.0-only
"""The initramfs that a VM starts from: busybox, modules, vm/guest-boot and the plan that it follows. Pure but for
reading the files that go in."""

import dataclasses
import pathlib
import stat

_APPLETS = ("sh", "mount", "insmod", "mkdir", "ln", "ip", "switch_root")
_DIRECTORIES = ("bin", "changes", "dev", "host", "modules", "plan")
_BOOT = pathlib.Path(__file__).resolve().parent.parent / "guest-boot"


@dataclasses.dataclass(frozen=True)
class Share:
    """A directory that the guest shares with the host, under the same path."""

    tag: str
    directory: str
    writable: bool


@dataclasses.dataclass(frozen=True)
class Overlay:
    """A directory of the host that the guest sees writable, its changes lost when it ends; `mode` holds permissions."""

    directory: str
    mode: int


@dataclasses.dataclass(frozen=True)
class Plan:
    """What guest-boot does: see there."""

    modules: tuple[pathlib.Path, ...]
    kernel: pathlib.Path
    overlays: tuple[Overlay, ...]
    shares: tuple[Share, ...]
    next: pathlib.Path

    def files(self) -> list[tuple[str, str]]:
        """Name and text of each file of the plan."""
        return [
            ("modules", "".join(f"{path.name}\n" for path in self.modules)),
            ("overlays", "".join(f"{overlay.mode:o} {overlay.directory}\n" for overlay in self.overlays)),
            (
                "shares",
                "".join(f"{share.tag} {'rw' if share.writable else 'ro'} {share.directory}\n" for share in self.shares),
            ),
            ("kernel", f"{self.kernel}\n"),
            ("next", f"{self.next}\n"),
        ]


class _Archive:
    """A cpio archive in the form `newc`, which the kernel unpacks."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._entries = 0

    def add(self, name: str, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)) -> None:
        """Adds a file, a directory, a link or a device node."""
        self._entries += 1
        encoded = name.encode() + b"\0"
        # Inode, mode, uid, gid, links, time, size, device, device of a node, length of the name, checksum.
        fields = (self._entries, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(encoded), 0)
        header = b"070701" + b"".join(b"%08X" % field for field in fields)
        self._parts += [_padded(header + encoded), _padded(data)]

    def finished(self) -> bytes:
        """The whole archive."""
        self.add("TRAILER!!!", 0)
        return b"".join(self._parts)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def build(busybox: pathlib.Path, plan: Plan) -> bytes:
    """The initramfs as an uncompressed archive."""
    archive = _Archive()
    for name in _DIRECTORIES:
        archive.add(name, stat.S_IFDIR | 0o755)
    # The kernel opens it for the first program, before /dev is mounted.
    archive.add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    archive.add("init", stat.S_IFREG | 0o755, _BOOT.read_bytes())
    archive.add("bin/busybox", stat.S_IFREG | 0o755, busybox.read_bytes())
    for applet in _APPLETS:
        archive.add(f"bin/{applet}", stat.S_IFLNK | 0o777, b"busybox")
    for path in plan.modules:
        archive.add(f"modules/{path.name}", stat.S_IFREG | 0o644, path.read_bytes())
    for name, text in plan.files():
        archive.add(f"plan/{name}", stat.S_IFREG | 0o644, text.encode(errors="surrogateescape"))
    return archive.finished()
