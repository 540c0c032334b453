# SPDX-License-Identifier: GPL-2.0-only
"""The tables of this directory for Python: registers.toml, protocol.toml and dram_presets.toml."""

import struct
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent


def load(name):
    """The table `name`.toml as a dictionary."""
    return tomllib.loads((HERE / f"{name}.toml").read_text(encoding="utf-8"))


REGISTERS = load("registers")
PROTOCOL = load("protocol")
_DRAM = load("dram_presets")
# By name; every preset has every key.
DRAM_PRESETS = {name: {**_DRAM["defaults"], **preset} for name, preset in _DRAM["preset"].items()}

PIDS = REGISTERS["limits"]["pids"]
OFFSET = {name: register["offset"] for name, register in REGISTERS["register"].items()}
OP, STATUS = PROTOCOL["op"], PROTOCOL["status"]


def record(name):
    """The struct.Struct of a record of the protocol: its fields in order, without gaps."""
    codes, end = "", 0
    for field, (offset, size) in PROTOCOL["layout"][name].items():
        if offset != end:
            raise ValueError(f"protocol.toml: layout.{name}.{field} is at {offset}, expected {end}")
        codes += {2: "H", 4: "I", 8: "Q"}[size]
        end += size
    return struct.Struct("<" + codes)
