# SPDX-License-Identifier: GPL-2.0-only
"""The kernel inside a bzImage (Documentation/arch/x86/boot.rst). QEMU starts it directly; unpacking itself would take
an emulated CPU some two seconds in each boot. Pure but for running zstd."""

import struct
import subprocess

from .common import VmError

# Offsets of the setup header: sectors of real-mode code less one, the magic, where the payload lies, and its length.
_SETUP_SECTORS = 0x1F1
_MAGIC = 0x202
_PAYLOAD = 0x248
_ZSTD = b"\x28\xb5\x2f\xfd"
_ELF = b"\x7fELF"


def extract(image: bytes) -> bytes:
    """The ELF file in a bzImage. Raises VmError if there is none, or if it is compressed by other means than zstd."""
    if image[_MAGIC : _MAGIC + 4] != b"HdrS" or len(image) < _PAYLOAD + 8:
        raise VmError("the kernel is no bzImage")
    offset, length = struct.unpack_from("<II", image, _PAYLOAD)
    start = (image[_SETUP_SECTORS] + 1) * 512 + offset
    # Four bytes that hold the unpacked size follow the compressed data.
    payload = image[start : start + length - 4]
    if not payload.startswith(_ZSTD):
        raise VmError("the kernel is not compressed by zstd, as Debian's are")
    try:
        done = subprocess.run(["zstd", "-dcq"], input=payload, capture_output=True, check=False)
    except FileNotFoundError as error:
        raise VmError("no zstd; run tools/setup, which installs it") from error
    if done.returncode != 0 or not done.stdout.startswith(_ELF):
        raise VmError(f"the kernel cannot be unpacked: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
