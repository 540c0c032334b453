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


def remove(name):
    os.rmdir(f"{RESCTRL}/mon_groups/{name}")


def unmount():
    subprocess.run(["umount", RESCTRL], check=True)
