# SPDX-License-Identifier: GPL-2.0-only
"""Checks the ground truth of tests/vm/guest/controller-mailbox.py: labels.py FILE.

An address space is a program. The machine knows it by CR3, the controller by the label of the core. Traffic of a
program that the controller charged to another id than usual had a wrong label.
"""

import json
import sys

# Each copier and reader, as the guest program starts them.
STREAMS = 4
# Packets that wait for the controller at a switch get the next label. A core has up to 8 of them.
WRONG_MAX_PCT = 0.1


def programs(line):
    """The bytes of the programs that read most, by hardware id. An agent with its threads reads less."""
    found = {}
    for row in line["spaces"]:
        by_id = found.setdefault(row["space"], {})
        by_id[row["pid"]] = by_id.get(row["pid"], 0) + row["read_bytes"]
    return sorted(found.values(), key=lambda by_id: -sum(by_id.values()))[:STREAMS]


def wrong_pct(found):
    """Percentage of the bytes whose id was not the program's usual one."""
    total = sum(sum(by_id.values()) for by_id in found)
    return 100 * (1 - sum(max(by_id.values()) for by_id in found) / total)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        lines = [json.loads(line) for line in file][1:6:2]
    mailbox, no_agent, copies = (programs(line) for line in lines)
    print(f"labels at each switch: {wrong_pct(mailbox):.3f} % of the programs' bytes had a wrong one")
    print(f"labels copied by the agent: {wrong_pct(copies):.3f} %")
    usual = {max(by_id, key=by_id.get) for by_id in mailbox}
    assert len(usual) == STREAMS and not usual & {0, 1}, f"not each program has its own id: {usual}"
    assert wrong_pct(mailbox) <= WRONG_MAX_PCT, mailbox
    assert all(set(by_id) == {0} for by_id in no_agent), f"labels outlived the scheduler: {no_agent}"


main()
