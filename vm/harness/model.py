# SPDX-License-Identifier: GPL-2.0-only
"""Modelled machines: their descriptions, and the QEMU plugin that models them (vm/hardware), built in the cache."""

import collections
import contextlib
import dataclasses
import json
import pathlib
import re
import struct
import subprocess
import tomllib
from collections.abc import Iterator

from .common import Progress, VmError, cache_root, locked, say

_SOURCE = pathlib.Path(__file__).resolve().parent.parent
_REGISTERS = tomllib.loads((_SOURCE.parent / "gem5-backend/interface/registers.toml").read_text(encoding="utf-8"))
# Rounded up to what a PCI device can have; the registers end before.
CONTROLLER_BYTES = _REGISTERS["virtual_machine"]["pci_bytes"]
_DRAM = tomllib.loads((_SOURCE.parent / "gem5-backend/interface/dram_presets.toml").read_text(encoding="utf-8"))
_CONTROLLER_FILE = "controller"
_FIRMWARE_FILE = "memory-device"
_DEVICE_SOCKET = "device"
_FAILURES_FILE = "failures"
# The extended size of DSP0134 has 31 bits; the highest one is reserved.
_MEMORY_MIB_MAX = 2**31 - 1
# More than a report needs. The report replaces them in place, so that a full disk has room for it.
_FAILURES_ROOM = b"\n" * 8192
# What the plugin takes for these keys of [memory]. It refuses other values.
_BURST_RANGES = {"burst_bytes": (1, 256), "tBURST_ns": (1e-3, 1e9)}


@dataclasses.dataclass(frozen=True)
class MachineModel:
    """A description's file and what the harness itself must know of it."""

    file: pathlib.Path
    cores: int
    has_storage: bool = False
    dram: str = ""
    scale: int = 1
    # Keys of [memory] that replace the preset's.
    burst_bytes: float | None = None
    burst_ns: float | None = None


def names() -> list[str]:
    """The machines that come with the project."""
    return sorted(path.stem for path in (_SOURCE / "machines").glob("*.toml"))


def read(name: str) -> MachineModel:
    """The machine of a name, or of a file ending in .toml. Only cores and scale are checked here. The
    plugin reads the file again and checks the rest."""
    file = pathlib.Path(name) if name.endswith(".toml") else _SOURCE / "machines" / f"{name}.toml"
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise VmError(
            f"--machine {name}: no such file"
            if name.endswith(".toml")
            else f"--machine {name}: there are {', '.join(names())}, or give a file that ends in .toml"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise VmError(f"--machine {name}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise VmError(f"{file}: {error}") from error
    cpu = table.get("cpu")
    # The defaults are those of vm/hardware/machine_description.cc and gem5-backend/config/memory_table.cc.
    cores = cpu.get("cores", 4) if isinstance(cpu, dict) else None
    if not isinstance(cores, int) or isinstance(cores, bool) or not 1 <= cores <= 64:
        raise VmError(f"{file}: [cpu] cores must be a number from 1 to 64")
    memory = table.get("memory")
    memory = memory if isinstance(memory, dict) else {}
    dram = memory.get("dram", "lpddr2-1066-x32")
    scale = table.get("scale", 1)
    if not isinstance(scale, int) or isinstance(scale, bool) or not 1 <= scale <= 1000:
        raise VmError(f"{file}: scale must be a number from 1 to 1000")
    burst = []
    for key, (least, most) in _BURST_RANGES.items():
        value = memory.get(key)
        burst.append(float(value) if isinstance(value, (int, float)) and least <= value <= most else None)
    return MachineModel(file.absolute(), cores, "storage" in table, str(dram), scale, *burst)


def memory_device(machine: MachineModel, memory_mib: int) -> bytes | None:
    """What the firmware tells of the machine's memory (DSP0134 3.3, type 17); nothing without a preset.

    Its speed is that of the slowed-down memory."""
    preset = _DRAM["preset"].get(machine.dram)
    if preset is None:
        return None
    if memory_mib > _MEMORY_MIB_MAX:
        raise VmError(f"--memory {memory_mib}M: the firmware can tell of at most {_MEMORY_MIB_MAX}M; choose less")
    width_bits = 32 if machine.dram.endswith("-x32") else 64
    burst_bytes = machine.burst_bytes or preset["burst_bytes"]
    burst_ps = machine.burst_ns * 1e3 if machine.burst_ns else preset["burst_ps"]
    bytes_per_us = burst_bytes * 1e6 / burst_ps / machine.scale
    speed = max(1, round(bytes_per_us * 8 / width_bits))
    kinds = {"ddr4": 0x1A, "lpddr2": 0x1C, "ddr5": 0x22}
    # What does not fit a word stands in an extended field.
    word_speed, long_speed = (speed, 0) if speed < 0xFFFF else (0xFFFF, speed)
    word_mib, long_mib = (memory_mib, 0) if memory_mib < 0x7FFF else (0x7FFF, memory_mib)
    formatted = struct.pack(
        "<BBHHHHHHBBBBBHHBBBBBIH50xII",
        *(17, 92, 0x1100, 0x1000, 0xFFFE, width_bits, width_bits, word_mib, 9, 0, 1, 2),
        *(kinds.get(machine.dram.split("-", maxsplit=1)[0], 2), 0x80, word_speed, 0, 0, 0, 0, 0),
        *(long_mib, word_speed, long_speed, long_speed),
    )
    return formatted + b"DIMM A1\0BANK 0\0\0"


def _build_dir() -> pathlib.Path:
    return cache_root() / "machine"


def plugin() -> pathlib.Path:
    """The plugin as it was built last."""
    return _build_dir() / "qemu-plugin" / "drfq_plugin.so"


def guest(program: str) -> pathlib.Path:
    """One of the programs of vm/guest; the guest sees it under the same path."""
    return _build_dir() / "guest" / program


def replay_program() -> pathlib.Path:
    """Computes the times of a machine again from its input log."""
    return _build_dir() / "hardware" / "replay_machine"


def _configured_for(source: pathlib.Path) -> bool:
    cache = _build_dir() / "CMakeCache.txt"
    try:
        found = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", cache.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return False
    return found is not None and found.group(1) == str(source)


def _run(command: list[str]) -> None:
    """Runs a step of the build, telling how far it is; shows its messages only if it fails."""
    progress = Progress()
    last_lines: collections.deque[str] = collections.deque(maxlen=20)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
    except FileNotFoundError as error:
        raise VmError(f"cannot build the QEMU plugin: {command[0]} is missing; run tools/setup") from error
    for line in process.stdout:
        last_lines.append(line.rstrip("\n"))
        step = re.match(r"\[\d+/\d+\]", line)
        if step:
            progress.tell(f"building the QEMU plugin: step {step.group()}")
    if process.wait() != 0:
        for line in last_lines:
            say(line)
        raise VmError("cannot build the QEMU plugin; see the messages above")


def _build() -> None:
    if not plugin().exists():
        say("building the QEMU plugin of modelled machines (a minute or two, once)")
    if not _configured_for(_SOURCE):
        _run(["cmake", "--fresh", "-S", str(_SOURCE), "-B", str(_build_dir()), "-G", "Ninja", "-DDRFQ_TESTS=OFF"])
    # Not the tests, which `tools/build-cpp vm` builds in the same place.
    _run(["cmake", "--build", str(_build_dir()), "--target", "drfq_machine", "--", "-j", "2"])


@contextlib.contextmanager
def built() -> Iterator[None]:
    """Builds as build() does. A run of another checkout builds new files in place of these, but not before the block
    ends."""
    with locked("machine"):
        _build()
        yield


def build() -> None:
    """Builds plugin and guest programs, or makes sure that they are up to date."""
    with built():
        pass


def qemu_options(
    machine: MachineModel,
    opened: int,
    memory_mib: int,
    private: pathlib.Path,
    stats: pathlib.Path | None,
    interval_ms: int,
    storage_log: pathlib.Path | None = None,
    input_log: pathlib.Path | None = None,
) -> list[str]:
    """Arguments of QEMU, which inherits the opened plugin; makes the files that it needs in a directory that the guest
    does not share."""
    registers = private / _CONTROLLER_FILE
    with open(registers, "wb") as file:
        file.truncate(CONTROLLER_BYTES)
    failures = private / _FAILURES_FILE
    failures.write_bytes(_FAILURES_ROOM)
    words = {"machine": machine.file, "bar": registers, "failures": failures}
    if stats is not None:
        words.update(stats=stats, interval_ms=interval_ms)
    device = []
    if machine.has_storage:
        words["device"] = private / _DEVICE_SOCKET
        # QEMU takes this device's socket as JSON only.
        address = {"type": "unix", "path": str(words["device"])}
        device = ["-device", json.dumps({"driver": "vfio-user-pci", "socket": address})]
    if storage_log is not None:
        words["device_log"] = storage_log
    if input_log is not None:
        words["input_log"] = input_log
    firmware = memory_device(machine, memory_mib)
    if firmware is not None:
        (private / _FIRMWARE_FILE).write_bytes(firmware)
        device = ["-smbios", f"file={private / _FIRMWARE_FILE}", *device]
    options = "".join("," + f"{key}={value}".replace(",", ",,") for key, value in words.items())
    return [
        "-plugin",
        f"/dev/fd/{opened}{options}",
        "-object",
        f"memory-backend-file,id=controller,share=on,mem-path={registers},size={CONTROLLER_BYTES}",
        "-device",
        "ivshmem-plain,memdev=controller",
        *device,
    ]


def failure(private: pathlib.Path) -> str:
    """What the plugin reports of a log that it could not write; empty if all logs are whole."""
    file = private / _FAILURES_FILE
    return file.read_text(encoding="utf-8", errors="replace").strip() if file.exists() else ""


def kernel_options() -> list[str]:
    """Arguments of the guest kernel."""
    # Counters raise no interrupts.
    return ["nmi_watchdog=0"]
