# SPDX-License-Identifier: GPL-2.0-only
"""The kernel inside a bzImage."""

import struct
import subprocess
import unittest

from harness import vmlinux
from harness.common import VmError

ELF = b"\x7fELF" + bytes(range(256)) * 20


def bzimage(payload: bytes, setup_sectors: int = 3) -> bytes:
    """A made-up bzImage with 16 bytes of code before the payload."""
    setup = bytearray((setup_sectors + 1) * 512)
    setup[0x1F1] = setup_sectors
    setup[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", setup, 0x248, 16, len(payload) + 4)
    return bytes(setup) + bytes(16) + payload + struct.pack("<I", len(ELF)) + b"code after it"


def compressed(data: bytes) -> bytes:
    return subprocess.run(["zstd", "-cq"], input=data, capture_output=True, check=True).stdout


class Extract(unittest.TestCase):
    def test_the_kernel_is_what_was_packed(self):
        self.assertEqual(vmlinux.extract(bzimage(compressed(ELF))), ELF)

    def test_what_is_no_kernel_is_refused(self):
        for image, reason in (
            (b"", "no bzImage"),
            (b"\x7fELF" + bytes(1000), "no bzImage"),
            (bzimage(b"\xfd7zXZ\0" + bytes(100)), "not compressed by zstd"),
            (bzimage(compressed(ELF)[:40]), "cannot be unpacked"),
            (bzimage(compressed(b"no ELF file")), "cannot be unpacked"),
        ):
            with self.subTest(reason=reason), self.assertRaisesRegex(VmError, reason):
                vmlinux.extract(image)


if __name__ == "__main__":
    unittest.main()
