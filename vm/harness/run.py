# SPDX-License-Identifier: GPL-2.0-only
"""Runs one command in a VM and returns its output and exit status through a shared directory."""

import contextlib
import dataclasses
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from typing import BinaryIO

from . import initramfs, kernels, model, qemu, tools
from . import shape as vm_shape
from .common import Progress, VmError, cache_root, say

TIMEOUT_STATUS = 124
VM_FAILED_STATUS = 125
INTERRUPTED_STATUS = 130
_POLL_S = 0.05
# Some 50 times what an idle host takes.
_BOOT_S = 300
# What QEMU may take to end: without logs, and with logs, whose last lines it writes then, on a busy host.
_END_S, _LOGS_S = 2, 30
# TCG with several threads may use a device's section after another thread has moved it, and fails this assertion then.
_RACE = "iotlb_to_section"
# TCG with several threads may lose a CPU's timer interrupt. The kernel boots no further then, and says this after 21 s.
_LOST_TIMER = "timer wakeup didn't happen"
# TCG with several threads may translate an instruction that another CPU's kernel is about to replace.
_HALF_PATCHED = "Oops: int3"
# Some tests make several each time.
_LOGS_KEPT = 100
_TAIL_LINES = 25
_SYSTEMD = "/lib/systemd/systemd"
_ROOT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_HERE = pathlib.Path(__file__).resolve().parent.parent


class Stopped(Exception):
    """SIGTERM or SIGHUP arrived."""


class TimedOut(Exception):
    """The time that --timeout gives, or the time to boot, has passed."""


def environment(out: str, extra: list[str], host: dict[str, str]) -> list[str]:
    """`NAME=VALUE` words for the command: a fixed few of the host's, `DRFQ_*`, and those asked for.

    `extra` holds `NAME=VALUE`, or `NAME` for the host's value.
    """
    chosen = {"HOME": "/root", "USER": "root", "PATH": _ROOT_PATH}
    for name, value in host.items():
        if name in ("TERM", "LANG", "CARGO_TARGET_DIR") or name.startswith("DRFQ_"):
            chosen[name] = value
    # The guest's command runs as root. The PATH of other users of the host often has no directory of root's programs.
    directories = [*host.get("PATH", "").split(":"), *_ROOT_PATH.split(":")]
    chosen["PATH"] = ":".join(dict.fromkeys(directory for directory in directories if directory))
    for word in extra:
        name, equals, value = word.partition("=")
        if equals:
            chosen[name] = value
        elif name in host:
            chosen[name] = host[name]
    chosen["DRFQ_VM_OUT"] = out
    # The guest's home is another, so the default would not lead there.
    chosen["DRFQ_CACHE"] = str(cache_root())
    return [f"{name}={value}" for name, value in chosen.items()]


def encode_words(words: list[str]) -> bytes:
    """Words for `mapfile -d ''` of guest-init: each ends in NUL, the one byte that no argument can hold."""
    return b"".join(os.fsencode(word) + b"\0" for word in words)


class _Follower:
    """Copies what is appended to a file on to a stream."""

    def __init__(self, path: pathlib.Path, stream) -> None:
        path.touch()
        self._file = open(path, "rb")
        self._stream = stream

    def copy(self) -> None:
        while True:
            block = self._file.read(1 << 16)
            if not block:
                return
            self._stream.write(block)
            self._stream.flush()


def read_status(path: pathlib.Path) -> int | None:
    """The exit status that the guest has left in a file, None if it has left nothing.

    The guest may put anything in the file's place. A pipe would block a reader, and a link would lead to another file.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        say(f"the VM left no exit status: {path}: {error.strerror}")
        return VM_FAILED_STATUS
    try:
        text = os.read(file, 16) if stat.S_ISREG(os.fstat(file).st_mode) else b""
    finally:
        os.close(file)
    if re.fullmatch(rb"[0-9]{1,3}\n", text) and int(text) < 256:
        return int(text)
    say(f"the VM left no exit status: {path} must be a file with a number below 256")
    return VM_FAILED_STATUS


def _same_file(first, second) -> bool:
    """Whether both streams end in the same place, so that the order between them can be kept."""
    a, b = os.fstat(first.fileno()), os.fstat(second.fileno())
    return (a.st_dev, a.st_ino, a.st_rdev) == (b.st_dev, b.st_ino, b.st_rdev)


def _disk_image(text: str, fresh: pathlib.Path) -> str:
    """The image of a `--disk`: a file that exists, or `fresh`, a new sparse one of the given size."""
    if os.path.exists(text):
        return os.path.abspath(text)
    try:
        size_mib = vm_shape.memory_mib(text)
    except ValueError as error:
        raise VmError(f"--disk {text}: neither a file nor a size such as 512M") from error
    try:
        with open(fresh, "wb") as file:
            file.truncate(size_mib << 20)
    except OverflowError as error:
        raise VmError(f"--disk {text}: larger than any file can be") from error
    return str(fresh)


def with_images(shape: vm_shape.Shape, directory: pathlib.Path) -> vm_shape.Shape:
    """The shape with an image in `directory` for each disk that is only a size."""
    images = tuple(_disk_image(text, directory / f"disk{index}.img") for index, text in enumerate(shape.disks))
    return dataclasses.replace(shape, disks=images)


@dataclasses.dataclass(frozen=True)
class ModelledHardware:
    """A machine of vm/hardware, and where the record of what happened in it goes."""

    machine: model.MachineModel
    stats: str | None = None
    interval_ms: int = 100
    storage_log: str | None = None
    input_log: str | None = None

    def has_logs(self) -> bool:
        """Whether QEMU writes a log whose last lines come at its end."""
        return any((self.stats, self.storage_log, self.input_log))


def _log_file(option: str, path: str | None) -> pathlib.Path | None:
    """Makes the file of an option, so that what is wrong with it shows before the VM starts."""
    if path is None:
        return None
    try:
        with open(path, "w", encoding="ascii"):
            return pathlib.Path(path).absolute()
    except OSError as error:
        raise VmError(f"{option} {path}: {error.strerror}") from error


def _temporary_directory() -> pathlib.Path:
    """A new directory. Without links in its path: guest-boot mounts it before the root is the host's."""
    return pathlib.Path(tempfile.mkdtemp(prefix="drfq-vm.")).resolve()


def _remove(directory: pathlib.Path) -> None:
    """Removes a directory with all in it, also what the command has made read-only. Says what stays."""
    shutil.rmtree(directory, ignore_errors=True)
    for parent, names, _ in os.walk(directory):
        # A link may lead to any of the host's directories.
        closed = [path for path in (os.path.join(parent, name) for name in names) if not os.path.islink(path)]
        for path in (parent, *closed):
            with contextlib.suppress(OSError):
                os.chmod(path, stat.S_IRWXU)
    try:
        shutil.rmtree(directory)
    except FileNotFoundError:
        pass
    except OSError as error:
        say(f"{directory} stays: {error}; remove it by hand")


class Run:
    """One VM, from start to end, the control directory that it shares with the harness, and a private one.

    QEMU and the harness trust the files of the private directory, so the guest must not be able to change them."""

    def __init__(
        self,
        shape: vm_shape.Shape,
        release: str,
        timeout_s: float | None,
        verbose: bool,
        modelled: ModelledHardware | None = None,
        terminal: bool = False,
        systemd: bool = False,
    ) -> None:
        self._systemd = systemd
        self._shape = shape
        self._terminal = terminal
        self._modelled = modelled
        self._suite = qemu.WITH_PLUGINS if modelled else qemu.PLAIN
        self._release = release
        self._timeout_s = timeout_s
        self._verbose = verbose
        self._process: subprocess.Popen | None = None
        self._plugin: BinaryIO | None = None
        self.control = _temporary_directory()
        self.private = _temporary_directory()
        self._go_live = self.control / "go_live"
        self._out = self.control / "out"
        self._followers: list[_Follower] = []

    def prepare(self, command: list[str], out: str | None, env: list[str]) -> None:
        """Fills both directories; `out` and `env` are the options of `vm run`."""
        self._shape = with_images(self._shape, self.private)
        if self._modelled:
            with model.built():
                self._plugin = open(model.plugin(), "rb")
                shutil.copy(model.guest("go_live"), self._go_live)
            options = model.qemu_options(
                self._modelled.machine,
                self._plugin.fileno(),
                self._shape.memory_mib,
                self.private,
                _log_file("--machine-stats", self._modelled.stats),
                self._modelled.interval_ms,
                _log_file("--storage-log", self._modelled.storage_log),
                _log_file("--input-log", self._modelled.input_log),
            )
            self._shape = dataclasses.replace(self._shape, qemu_options=(*options, *self._shape.qemu_options))
        if out:
            self._out = pathlib.Path(out).absolute()
        try:
            self._out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise VmError(f"--out {out}: {error.strerror}") from error
        self._out = self._out.resolve()
        self._write("command", command)
        self._write("environment", environment(str(self._out), env, dict(os.environ)))
        self._write("directory", [os.getcwd()])
        has_storage = self._modelled is not None and self._modelled.machine.has_storage
        wanted = {"virtio_blk": bool(self._shape.disks), "nvme": has_storage}
        self._write("modules", [module for module, needed in wanted.items() if needed])
        self._write("live", [str(self._go_live)] if self._modelled else [])
        size = shutil.get_terminal_size()
        self._write("terminal", ["/dev/ttyS0", str(size.lines), str(size.columns)] if self._terminal else [])
        self._write("systemd", [_SYSTEMD] if self._systemd else [])
        shutil.copy(_HERE / "guest-init", self.control / "guest-init")
        self._followers.append(_Follower(self.control / "stdout", sys.stdout.buffer))
        if _same_file(sys.stdout, sys.stderr):
            (self.control / "stderr").symlink_to("stdout")
        else:
            self._followers.append(_Follower(self.control / "stderr", sys.stderr.buffer))

    def _write(self, name: str, words: list[str]) -> None:
        (self.control / name).write_bytes(encode_words(words))

    def _shares(self) -> list[initramfs.Share]:
        """The host's directories beside its root that the guest mounts."""
        shares = []
        # The guest mounts it before those that may lie within it, which it would hide.
        if vm_shape.hidden(os.getcwd()):
            shares.append(initramfs.Share("directory", os.getcwd(), writable=False))
        shares.append(initramfs.Share("control", str(self.control), writable=True))
        if self._out.parent != self.control:
            shares.append(initramfs.Share("out", str(self._out), writable=True))
        return shares

    def _arguments(self) -> list[str]:
        shares = self._shares()
        plan = initramfs.Plan(
            modules=tuple(kernels.boot_modules(self._release)),
            kernel=kernels.modules(self._release),
            overlays=tuple(vm_shape.overlays()),
            shares=tuple(shares),
            next=self.control / "guest-init",
        )
        archive = self.private / "initramfs"
        archive.write_bytes(initramfs.build(tools.busybox(), plan))
        root = initramfs.Share("host", "/", writable=False)
        return [
            *qemu.command(self._suite),
            *vm_shape.qemu_options(self._shape, [root, *shares], terminal=self._terminal),
            "-kernel",
            str(kernels.image(self._release)),
            "-initrd",
            str(archive),
            "-append",
            " ".join(vm_shape.kernel_options(self._shape, verbose=self._verbose)),
        ]

    def _start(self) -> None:
        self._process = subprocess.Popen(
            self._arguments(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # A separate session, so that Ctrl-C reaches the harness alone.
            start_new_session=True,
            pass_fds=[self._plugin.fileno()] if self._plugin else [],
            env=dict(os.environ, **qemu.environment(self._suite), TMPDIR=str(self.private)),
        )
        console = self._process.stdout.fileno()
        self._console = threading.Thread(target=self._log_console, args=(console,), daemon=True)
        self._console.start()

    def _log_console(self, console: int) -> None:
        # QEMU waits for a reader, so this one goes on when the disk is full.
        whole = True
        with open(self.private / "console.log", "wb", buffering=0) as log:
            for block in iter(lambda: os.read(console, 1 << 16), b""):
                try:
                    log.write(block)
                except OSError as error:
                    if whole:
                        say(f"the console's log is not whole: {error.strerror}")
                    whole = False
                if self._verbose:
                    try:
                        sys.stderr.buffer.write(block)
                        sys.stderr.buffer.flush()
                    except OSError:
                        self._verbose = False

    def started(self) -> bool:
        """Whether the command has started."""
        return (self.control / "started").exists()

    def _follow(self, end: float | None, *, first: bool) -> int | None:
        """Copies output until the command has ended (its status) or the VM has (None), or until `end`. The first boot
        also ends where a defect of QEMU makes it fail."""
        status_file = self.control / "status"
        boot = Progress(5, 5 if sys.stderr.isatty() else 30)
        boot_end = time.monotonic() + _BOOT_S
        booted = False
        while True:
            done = os.path.lexists(status_file) or self._process.poll() is not None
            for follower in self._followers:
                follower.copy()
            if done:
                return read_status(status_file)
            if end is not None and time.monotonic() > end:
                raise TimedOut(f"timed out after {self._timeout_s:g} s")
            if not booted:
                booted = self.started()
                if not booted and time.monotonic() > boot_end:
                    raise TimedOut(f"the VM did not boot within {_BOOT_S} s")
                if not booted and first and re.search(f"{_LOST_TIMER}|{_HALF_PATCHED}", self._console_text()):
                    return None
                if not booted:
                    boot.tell(f"booting {self._release}")
            time.sleep(_POLL_S)

    def run(self) -> int:
        """The command's exit status, or one of the harness' own."""
        try:
            end = None if self._timeout_s is None else time.monotonic() + self._timeout_s
            self._start()
            status = self._follow(end, first=True)
            if status is None and self._boot_lost():
                self._process.stdout.close()
                self._start()
                status = self._follow(end, first=False)
            if status is not None:
                return status
            return self._report("the VM ended before the command did")
        except TimedOut as error:
            self._report(str(error))
            return TIMEOUT_STATUS

    def _boot_lost(self) -> bool:
        """Whether a defect of QEMU made the boot fail: _RACE, _LOST_TIMER or _HALF_PATCHED. Says so, ends the VM and
        keeps the console's log. The command has done nothing by then, so another boot loses nothing.
        """
        aborted = self._process.poll() == -signal.SIGABRT
        self._end()
        if self.started():
            return False
        text = self._console_text()
        if _HALF_PATCHED in text:
            what = "QEMU ran half of a replaced instruction"
        elif aborted and _RACE in text:
            what = f"QEMU failed its assertion in {_RACE}"
        elif _LOST_TIMER in text:
            what = "QEMU lost a timer interrupt"
        else:
            return False
        say(f"{what} while the VM booted; it boots once more; log: {_keep_log(text)}")
        return True

    def _console_text(self) -> str:
        """What the guest has said so far; all of it, if QEMU has ended."""
        if self._process and self._process.poll() is not None:
            # A child of QEMU might keep the pipe open.
            self._console.join(_END_S)
        log = self.private / "console.log"
        return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""

    def run_on_terminal(self) -> int:
        """Runs the command on our terminal; its exit status."""
        result = subprocess.run(self._arguments(), check=False, env=dict(os.environ, **qemu.environment(self._suite)))
        status = read_status(self.control / "status")
        if status is not None:
            return status
        say(f"the VM ended before its shell did (QEMU's exit status {result.returncode})")
        return VM_FAILED_STATUS

    def _report(self, what: str) -> int:
        """Says what went wrong, with the end of the console's log, which is kept. The status for a VM that ended."""
        text = self._console_text()
        if not self.started():
            what += " (during boot)"
        panic = re.search(r"Kernel panic.*", text)
        if panic:
            what += f": {panic.group().strip()}"
        oops = re.search(r"Oops: .*", text)
        if oops:
            what += f", after {oops.group().strip()}"
        for line in text.splitlines()[-_TAIL_LINES:]:
            say("console: " + "".join(c if c.isprintable() else " " for c in line).rstrip())
        say(f"{what}; console log: {_keep_log(text)}")
        return VM_FAILED_STATUS

    def check_logs(self, status: int) -> int:
        """Ends the VM, which writes the last lines of its logs as it ends. The status of the run: if a log is not
        whole, a command's success is none."""
        logs = self._modelled is not None and self._modelled.has_logs()
        whole = self._end(_LOGS_S if logs else _END_S)
        failure = model.failure(self.private)
        # QEMU ends with 0 on SIGTERM, too.
        code = self._process.returncode if self._process else 0
        if failure:
            failure += "; the disk may be full"
        elif logs and not whole:
            failure = f"QEMU did not end its logs within {_LOGS_S} s, so they lack their last lines; run it again"
        elif logs and code:
            how = f"signal {-code}" if code < 0 else f"status {code}"
            failure = f"QEMU ended with {how}, so its logs may lack their last lines; run it again"
        if failure:
            say(f"error: {failure}")
        return VM_FAILED_STATUS if failure and status == 0 else status

    def _end(self, patience_s: float = _END_S) -> bool:
        """Ends every process of the VM. Returns whether they ended by themselves."""
        if self._process is None:
            return True
        for sent, wait_s in ((signal.SIGTERM, patience_s), (signal.SIGKILL, 5)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, sent)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(wait_s)
                return sent == signal.SIGTERM
        return False

    def close(self) -> None:
        """Ends every process of the VM and removes its files."""
        self._end()
        if self._plugin:
            self._plugin.close()
        for directory in (self.control, self.private):
            _remove(directory)


def _keep_log(text: str) -> pathlib.Path:
    """Stores a failed VM's console log in the cache, in place of the oldest one when there are many."""
    logs = cache_root() / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    for old in sorted(logs.glob("*.log"))[:-_LOGS_KEPT]:
        old.unlink(missing_ok=True)
    path = logs / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    path.write_text(text, encoding="utf-8")
    return path


def _stop(_signal, _frame) -> None:
    raise Stopped


def _catch_signals() -> None:
    """Lets the signals that end the harness raise Stopped, so that the VM ends and its files go."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)


def run(
    shape: vm_shape.Shape,
    command: list[str],
    *,
    out: str | None,
    env: list[str],
    timeout_s: float | None,
    verbose: bool,
    modelled: ModelledHardware | None = None,
    systemd: bool = False,
) -> int:
    """Runs `command` in a VM, which ends after `timeout_s` (None: never); returns the exit status."""
    if systemd and not os.access(_SYSTEMD, os.X_OK):
        raise VmError(f"--systemd: this machine has no {_SYSTEMD}, which the VM would run; install systemd")
    tools.ensure([qemu.WITH_PLUGINS if modelled else qemu.PLAIN], [shape.kernel])
    release = kernels.resolve(shape.kernel)
    _catch_signals()
    one = Run(shape, release, timeout_s, verbose, modelled, systemd=systemd)
    try:
        one.prepare(command, out, env)
        return one.check_logs(one.run())
    except KeyboardInterrupt:
        say("interrupted; the VM has ended")
        return INTERRUPTED_STATUS
    except Stopped:
        return 128 + signal.SIGTERM
    except BrokenPipeError:
        # The output's reader has gone (`| head`); what is still buffered must not fail at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    finally:
        _close(one)


def _close(one: Run) -> None:
    """Ends the VM. A second Ctrl-C, or what a closing terminal sends twice, must leave nothing behind."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    one.close()


def shell(shape: vm_shape.Shape) -> int:
    """An interactive shell on the VM's console."""
    if not sys.stdin.isatty():
        raise VmError("a shell needs a terminal; run a command with: vm run -- CMD ...")
    tools.ensure([qemu.PLAIN], [shape.kernel])
    release = kernels.resolve(shape.kernel)
    say("leave the shell with Ctrl-D")
    _catch_signals()
    one = Run(shape, release, None, False, terminal=True)
    try:
        one.prepare(["bash", "-i"], None, ["TERM"])
        return one.run_on_terminal()
    except Stopped:
        return 128 + signal.SIGTERM
    finally:
        _close(one)
