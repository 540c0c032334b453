# SPDX-License-Identifier: GPL-2.0-only
"""The virtual machine's shape as arguments of QEMU and of the guest's kernel. Pure."""

import dataclasses
import os
import re
import stat
from collections.abc import Iterable

from .common import VmError
from .initramfs import Overlay, Share

# With it, a guest's second of four busy vCPUs takes about half a second of an idle host's CPU.
ICOUNT_SHIFT = 2
# How long one vCPU runs, at most, before the next has its turn.
_ICOUNT_TURN_US = 100


@dataclasses.dataclass(frozen=True)
class Shape:
    """What `vm run` and `vm shell` can choose.

    `icount_shift` N makes guest time a count of instructions, 2^N ns each, all vCPUs taking turns; None is real time.
    While all vCPUs are idle it then jumps to the next timer, or with `idle_in_real_time` waits as long as that takes.
    `disks` holds the host's paths of raw images, which the guest sees as /dev/vda and so on.
    `modelled`: the hardware is that of vm/hardware (model.py), which adds its own options.
    """

    kernel: str
    cpus: int = 2
    llcs: int = 1
    smt: bool = False
    memory_mib: int = 2048
    icount_shift: int | None = None
    idle_in_real_time: bool = False
    kvm: bool = False
    modelled: bool = False
    disks: tuple[str, ...] = ()
    kernel_options: tuple[str, ...] = ()
    qemu_options: tuple[str, ...] = ()


def memory_mib(text: str) -> int:
    """Reads `512M`, `2G` or a bare number of MiB; raises ValueError."""
    match = re.fullmatch(r"(\d+)([MmGg]?)", text)
    if not match or int(match.group(1)) == 0:
        raise ValueError(f"not a memory size: {text!r} (use for example 512M or 2G)")
    return int(match.group(1)) * (1024 if match.group(2) in ("g", "G") else 1)


def smp(shape: Shape) -> str:
    """QEMU's -smp: one socket for each last-level cache, because QEMU shares the L3 by socket."""
    threads = 2 if shape.smt else 1
    if shape.cpus % (shape.llcs * threads):
        raise VmError(
            f"--cpus {shape.cpus} cannot be split into {shape.llcs} last-level caches"
            + (" of two-thread cores" if shape.smt else "")
        )
    cores = shape.cpus // shape.llcs // threads
    return f"{shape.cpus},sockets={shape.llcs},cores={cores},threads={threads}"


def kernel_options(shape: Shape, *, verbose: bool) -> list[str]:
    """Arguments of the guest kernel."""
    # Vulnerability mitigations cost an emulated CPU much and protect nothing here.
    # A busy host makes the emulated TSC look unstable to the clocksource watchdog; all vCPUs share one.
    # After an oops a guest may go on and hang.
    options = [
        "console=ttyS0",
        "panic=-1",
        "oops=panic",
        "mitigations=off",
        "tsc=reliable",
        f"loglevel={7 if verbose else 5}",
    ]
    if verbose:
        options.append("earlyprintk=serial,ttyS0,115200")
    return [*options, *shape.kernel_options]


def _icount(shift: int, idle_in_real_time: bool) -> list[str]:
    """Options that make guest time independent of how busy the host is."""
    # A vCPU keeps its turn until the next virtual timer, which for QEMU may be milliseconds away. A packet filter
    # on a network that nothing uses is a virtual timer of any period, free of interrupts in the guest.
    # QEMU 10 does not give every vCPU the same number of instructions: four busy ones got 14 to 39 %. So compare CPU
    # time between vCPUs, not work done.
    return [
        "-icount",
        f"shift={shift},sleep={'on' if idle_in_real_time else 'off'}",
        "-rtc",
        "clock=vm",
        "-netdev",
        "hubport,id=turns,hubid=0",
        "-object",
        f"filter-buffer,id=turn,netdev=turns,interval={_ICOUNT_TURN_US}",
    ]


def _processor(shape: Shape) -> list[str]:
    """Options for CPU and clocks."""
    if shape.modelled:
        # QEMU's clocks are the host's, so the guest shall have but its local APIC timers, which the plugin replaces.
        # A model that has no AVX-512: GCC's target clones go by the model, and TCG cannot execute it.
        return [
            "-accel",
            "tcg",
            "-machine",
            "hpet=off",
            "-cpu",
            "Skylake-Client-v1,vendor=GenuineIntel,level=0x1f,check=off",
        ]
    if shape.kvm:
        return ["-accel", "kvm", "-cpu", "host"]
    # Linux reads the cache topology from CPUID leaf 4, which QEMU fills for this vendor only.
    return ["-accel", "tcg", "-cpu", "max,vendor=GenuineIntel"]


def _quoted(value: str) -> str:
    """A value within an option of QEMU."""
    return value.replace(",", ",,")


def _share(share: Share) -> list[str]:
    """Options for a directory of the host, which QEMU itself serves.

    A server outside QEMU, as virtiofs has, writes the guest's memory without TCG's knowledge. TCG then executes its
    translations of code that the guest has replaced."""
    readonly = "" if share.writable else ",readonly=on"
    return [
        "-fsdev",
        f"local,id={share.tag},path={_quoted(share.directory)},security_model=none,multidevs=remap{readonly}",
        "-device",
        f"virtio-9p-pci,fsdev={share.tag},mount_tag={share.tag}",
    ]


def qemu_options(shape: Shape, shares: Iterable[Share] = (), *, terminal: bool = False) -> list[str]:
    """Arguments of QEMU but for what it boots. With `terminal` the guest gets Ctrl-C and the like from its console."""
    options = [
        "-nodefaults",
        "-display",
        "none",
        "-no-reboot",
        "-machine",
        "q35,i8042=off",
        *_processor(shape),
        "-m",
        f"{shape.memory_mib}M",
        "-smp",
        smp(shape),
        "-chardev",
        f"stdio,id=console,signal={'off' if terminal else 'on'}",
        "-serial",
        "chardev:console",
    ]
    for share in shares:
        options += _share(share)
    if shape.icount_shift is not None:
        options += _icount(shape.icount_shift, shape.idle_in_real_time)
    for index, path in enumerate(shape.disks):
        options += [
            "-drive",
            f"if=none,id=disk{index},format=raw,file={_quoted(path)}",
            "-device",
            f"virtio-blk-pci,drive=disk{index}",
        ]
    return options + list(shape.qemu_options)


def overlays() -> list[Overlay]:
    """The host's top-level directories but for those that the guest mounts itself."""
    own = ("dev", "lost+found", "proc", "run", "sys")
    return [
        Overlay(entry.path, stat.S_IMODE(entry.stat().st_mode))
        for entry in sorted(os.scandir("/"), key=lambda entry: entry.name)
        if entry.is_dir(follow_symlinks=False) and entry.name not in own
    ]


def hidden(path: str) -> bool:
    """Whether a file system that the guest mounts itself hides `path` of the host."""
    tops = ("/run", "/dev")
    return any(path == top or path.startswith(top + "/") for top in tops)
