# SPDX-License-Identifier: GPL-2.0-only
"""The command line of the harness."""

import argparse
import os
import subprocess
import sys

from . import kernels, lock, model, qemu, run, tools
from . import shape as vm_shape
from .common import VmError, say

_DESCRIPTION = """\
Runs commands in a virtual machine (QEMU) with a stock Debian kernel. The guest sees this machine's
files at the same paths; what it changes there is lost when it ends, except in $DRFQ_VM_OUT.
"""

_EPILOG = """\
kernels: an alias below, an upstream version (7.0.13) or a release (7.0.13+deb13-amd64)
{aliases}

exit status of `run`: that of the command (128+N when signal N ended it), or
  124  the time given by --timeout has passed, or the boot took over 300 s
  125  the VM could not start or ended before the command did (the console's log is shown), or a
       log of the modelled machine could not be written
  130  interrupted
"""


_CPUS = 2
# Over a simulated week. The plugin counts picoseconds in 64 bits.
_INTERVAL_MS_MAX = 10**9
_LOGS = ("machine_stats", "storage_log", "input_log")


def _positive(text: str) -> int:
    value = int(text)
    if value <= 0:
        raise ValueError
    return value


_positive.__name__ = "positive number"


def _interval(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if not 1 <= value <= _INTERVAL_MS_MAX:
        raise argparse.ArgumentTypeError(f"{text}: must be a number of ms from 1 to {_INTERVAL_MS_MAX}")
    return value


def _memory(text: str) -> int:
    try:
        return vm_shape.memory_mib(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _shape_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kernel", default=kernels.DEFAULT, help="kernel to boot, see below (default: %(default)s)")
    parser.add_argument("--cpus", type=_positive, metavar="N", help=f"CPUs (default: {_CPUS}, or those of --machine)")
    parser.add_argument("--llcs", type=_positive, default=1, metavar="N", help="last-level caches (default: 1)")
    parser.add_argument("--smt", action="store_true", help="two hardware threads per core")
    parser.add_argument("--memory", type=_memory, default=2048, metavar="SIZE", help="memory (default: 2G)")
    parser.add_argument(
        "--clock",
        choices=("icount", "real"),
        default="real",
        help="icount: guest time counts instructions, so that figures do not depend on how busy "
        "the host is; vCPUs take turns on one host CPU, and idle time is skipped by `run`. "
        "real: guest time is real time and every vCPU a thread (default: real)",
    )
    parser.add_argument(
        "--icount-shift",
        type=int,
        choices=range(8),
        metavar="N",
        help=f"an instruction takes 2^N ns with --clock icount, 0 to 7 (default: {vm_shape.ICOUNT_SHIFT})",
    )
    parser.add_argument(
        "--disk",
        action="append",
        default=[],
        metavar="SIZE|FILE",
        help="a virtio disk /dev/vda, vdb ...: an empty one of SIZE (for example 1G), or a raw image",
    )
    parser.add_argument(
        "--kvm", action="store_true", help="use KVM, in real time (default: emulate, which works everywhere)"
    )
    parser.add_argument("--kernel-option", action="append", default=[], metavar="OPT", help="add a kernel argument")
    parser.add_argument(
        "--qemu-option",
        action="append",
        default=[],
        metavar="OPT",
        help="add a QEMU argument (one word; write --qemu-option=-foo)",
    )


def _machine_options(one: argparse.ArgumentParser) -> None:
    one.add_argument(
        "--machine",
        metavar="NAME|FILE.toml",
        help="modelled hardware with RDT, a PMU, caches and memory contention, in simulated time: "
        f"{', '.join(model.names())}, or a description of your own (docs/reference/machine-description.md)",
    )
    one.add_argument(
        "--machine-stats",
        metavar="FILE",
        help="write the ground truth of the modelled machine, a line of JSON per interval",
    )
    one.add_argument(
        "--machine-interval",
        type=_interval,
        metavar="MS",
        help=f"simulated time between two of these lines (default: {run.ModelledHardware.interval_ms})",
    )
    one.add_argument(
        "--storage-log",
        metavar="FILE",
        help="write the log of the modelled machine's storage device, a line for each command",
    )
    one.add_argument(
        "--input-log",
        metavar="FILE",
        help="write all that the modelled machine's times depend on, for `vm replay`",
    )


def _replay_options(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    replay = commands.add_parser(
        "replay",
        help="compute the times of a modelled machine again from the log of `run --input-log`, without the VM",
        description="Exit status: 0 if all times are the same, 1 if not or if the log is damaged.",
    )
    replay.add_argument(
        "--skip",
        type=int,
        default=0,
        metavar="N",
        help="play back N times less often than the VM did; times differ where cores sleep and wake up, and where "
        "masks of the cache or throttles are written (clocks of cores are not compared)",
    )
    replay.add_argument("log", metavar="LOG", help="what --input-log wrote")
    replay.add_argument(
        "transfers", metavar="TRANSFERS", nargs="?", help="gets a line of CSV for each transfer of the storage device"
    )


def _parser() -> argparse.ArgumentParser:
    aliases = "\n".join(f"  {alias.name:<8} {alias.meaning}" for alias in lock.ALIASES.values())
    parser = argparse.ArgumentParser(
        prog="vm",
        description=_DESCRIPTION,
        epilog=_EPILOG.format(aliases=aliases),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="action", required=True, metavar="COMMAND")
    provision = commands.add_parser("provision", help="get kernels and QEMU into the cache")
    provision.add_argument(
        "--kernel",
        action="append",
        default=None,
        help="kernel to get (default: every alias, and QEMU for modelled machines, too)",
    )
    provision.add_argument("--machine", metavar="NAME|FILE.toml", help="get and build what this modelled machine needs")
    one = commands.add_parser(
        "run",
        help="run a command in a VM, in the current directory, as root",
        epilog=_EPILOG.format(aliases=aliases),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _shape_options(one)
    one.add_argument("--timeout", type=float, metavar="SEC", help="end the VM after this many seconds")
    one.add_argument(
        "--out",
        metavar="DIR",
        default=os.environ.get("DRFQ_VM_OUT"),
        help="directory the command may write to, as $DRFQ_VM_OUT (default: a temporary one)",
    )
    one.add_argument("--env", action="append", default=[], metavar="NAME[=VALUE]", help="pass an environment variable")
    _machine_options(one)
    one.add_argument(
        "--systemd",
        action="store_true",
        help="boot systemd, and run the command as a service of it; a modelled machine has RDT and a PMU then, but "
        "real time, and counts nothing",
    )
    one.add_argument("--verbose", action="store_true", help="show the console on standard error")
    one.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD ...", help="the command and its arguments")
    _replay_options(commands)
    shell = commands.add_parser("shell", help="an interactive shell in a VM")
    _shape_options(shell)
    lock_parser = commands.add_parser(
        "lock", help="choose the kernels again by what the Debian mirror offers, and record them in vm/kernels.lock"
    )
    lock_parser.add_argument(
        "choice",
        nargs="*",
        metavar="ALIAS=VERSION",
        help="choose the version nearest to this one (default: the recorded one)",
    )
    return parser


def _model(args: argparse.Namespace) -> model.MachineModel | None:
    """The modelled machine that was asked for, if any."""
    name = args.machine
    logs = [f"--{option.replace('_', '-')}" for option in _LOGS if getattr(args, option) is not None]
    if args.machine_interval is not None and args.machine_stats is None:
        raise VmError("--machine-interval needs --machine-stats, whose lines it is the time between")
    if name is None:
        for option in logs:
            raise VmError(f"{option} needs --machine")
        return None
    if logs and args.systemd:
        raise VmError(f"{logs[0]} would stay empty: with --systemd a modelled machine counts nothing; leave one out")
    modelled = model.read(name)
    if args.storage_log is not None and not modelled.has_storage:
        raise VmError(f"--storage-log: {modelled.file} has no table [storage]; add one, or leave the option out")
    for option, wrong in (
        ("--kvm", args.kvm),
        ("--clock icount", args.clock == "icount"),
        ("--llcs", args.llcs != 1),
        ("--smt", args.smt),
        (f"--cpus {args.cpus}", args.cpus not in (None, modelled.cores)),
    ):
        if wrong:
            raise VmError(f"{option} contradicts --machine {name}, whose description decides it; leave {option} out")
    return modelled


def _shape(args: argparse.Namespace, modelled: model.MachineModel | None = None) -> vm_shape.Shape:
    counted = args.clock == "icount"
    if counted and args.kvm:
        raise VmError("--clock icount contradicts --kvm, which runs in real time; leave one of them out")
    if args.icount_shift is not None and not counted:
        raise VmError("--icount-shift needs --clock icount")
    shift = vm_shape.ICOUNT_SHIFT if args.icount_shift is None else args.icount_shift
    cpus = modelled.cores if modelled else args.cpus or _CPUS
    options = (*(model.kernel_options() if modelled else ()), *args.kernel_option)
    return vm_shape.Shape(
        kernel=args.kernel,
        cpus=cpus,
        llcs=args.llcs,
        smt=args.smt,
        memory_mib=args.memory,
        icount_shift=shift if counted else None,
        idle_in_real_time=args.action == "shell",
        kvm=args.kvm,
        modelled=modelled is not None,
        disks=tuple(args.disk),
        kernel_options=options,
        qemu_options=tuple(args.qemu_option),
    )


def _run(args: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        parser.error("no command given: vm run [OPTIONS] -- CMD ...")
    found = _model(args)
    interval_ms = args.machine_interval or run.ModelledHardware.interval_ms
    modelled = (
        run.ModelledHardware(found, args.machine_stats, interval_ms, args.storage_log, args.input_log)
        if found
        else None
    )
    return run.run(
        _shape(args, found),
        command,
        out=args.out,
        env=args.env,
        timeout_s=args.timeout,
        verbose=args.verbose,
        modelled=modelled,
        systemd=args.systemd,
    )


def _replay(args: argparse.Namespace) -> int:
    # A run of another checkout may build a new program in its place.
    with model.built():
        opened = open(model.replay_program(), "rb")
    files = [os.path.abspath(file) for file in (args.log, args.transfers) if file is not None]
    with opened:
        program = opened.fileno()
        words = [f"/dev/fd/{program}", "--skip", str(args.skip), *files]
        return subprocess.run(words, pass_fds=[program], check=False).returncode


def _provision(args: argparse.Namespace) -> int:
    if args.machine is not None:
        model.read(args.machine)
    suites = [qemu.WITH_PLUGINS] if args.machine else [qemu.PLAIN] if args.kernel else qemu.SUITES
    tools.ensure(suites, args.kernel or list(lock.ALIASES))
    if args.machine is not None:
        model.build()
    return 0


def _lock(args: argparse.Namespace) -> int:
    near = {}
    for word in args.choice:
        alias, _, version = word.partition("=")
        if alias not in lock.ALIASES or not lock.number(version):
            example = f"use ALIAS=VERSION, for example oldest=6.18; aliases are {', '.join(lock.ALIASES)}"
            raise VmError(f"lock {word}: {example}")
        near[alias] = version
    kernels.write_lock(near)
    return 0


def main(arguments: list[str]) -> int:
    """Runs the harness; returns its exit status."""
    parser = _parser()
    args = parser.parse_args(arguments)
    actions = {
        "run": lambda: _run(args, parser),
        "replay": lambda: _replay(args),
        "shell": lambda: run.shell(_shape(args)),
        "lock": lambda: _lock(args),
        "provision": lambda: _provision(args),
    }
    try:
        return actions[args.action]()
    except (VmError, OSError, subprocess.CalledProcessError) as error:
        say(f"error: {error}")
        return run.VM_FAILED_STATUS
    except KeyboardInterrupt:
        say("interrupted")
        return run.INTERRUPTED_STATUS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
