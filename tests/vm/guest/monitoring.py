# SPDX-License-Identifier: GPL-2.0-only
"""Monitoring groups of resctrl, whose ids name tasks in the modelled machine's ground truth."""

import os
import subprocess

RESCTRL = "/sys/fs/resctrl"


def mount():
    """Does nothing on a machine without resctrl. Only the option `debug` shows ids in the hardware."""
    if os.path.isdir(RESCTRL):
        subprocess.run(["mount", "-t", "resctrl", "-o", "debug", "resctrl", RESCTRL], check=True)


def monitoring_group(name):
    """Makes a group and returns its id in the hardware; none without monitoring."""
    if not os.path.isdir(f"{RESCTRL}/mon_groups"):
        return None
    group = f"{RESCTRL}/mon_groups/{name}"
    os.makedirs(group, exist_ok=True)
    with open(f"{group}/mon_hw_id", encoding="ascii") as file:
        return int(file.read())


def join(name, pid):
    with open(f"{RESCTRL}/mon_groups/{name}/tasks", "w", encoding="ascii") as file:
        file.write(f"{pid}\n")


def id_of(pid):
    """The id in the hardware of the group of scx_drfq that has a task; none: it is in no such group."""
    with open(f"/proc/{pid}/cpu_resctrl_groups", encoding="ascii") as file:
        words = dict(line.strip().split(":", 1) for line in file if ":" in line)
    if not words["mon"].startswith("drfq"):
        return None
    parent = words["res"].strip("/")
    with open(f"{RESCTRL}/{parent}/mon_groups/{words['mon'].strip('/')}/mon_hw_id", encoding="ascii") as file:
        return int(file.read())


def remove(name):
    os.rmdir(f"{RESCTRL}/mon_groups/{name}")


def unmount():
    subprocess.run(["umount", RESCTRL], check=True)
