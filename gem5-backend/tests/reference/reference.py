#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""An independent, slow reference of the controller and its DRAM.

Written from the rules (docs/explanation/controller.md) with plain lists and recomputation: no sorted insertion, no
counters, no incremental state. It shares the tables of interface/ with the C++ core, and nothing else. Prints the same
decision log as `drfq-mc replay --log`.
Times are picoseconds.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "interface"))
from tables import DRAM_PRESETS, OFFSET, PIDS

VT_PID, VT_CORE, PID_CORE = (OFFSET[name] for name in ("vtime_pid", "vtime_core", "pid_core"))
NEVER = float("inf")
SHARED_PID = 1

# Times lose their unit: all are picoseconds.
DRAMS = {
    name: {key.removesuffix("_ps"): value for key, value in preset.items()} for name, preset in DRAM_PRESETS.items()
}


class Dram:
    """One rank. Remembers every command and derives what is allowed from the history."""

    KEEP = 64  # commands of each kind; none reaches further back

    def __init__(self, t):
        self.t = t
        self.row = [None] * t["banks"]
        self.used = [0] * t["banks"]
        self.pre_ok = [0] * t["banks"]  # earliest precharge
        self.act_ok = [0] * t["banks"]  # earliest activate after the bank's own precharge or refresh
        self.acts = []  # (time, bank)
        self.cols = []  # (time, bank, direction)
        self.act_of = [None] * t["banks"]  # time of the bank's last activate
        self.due = t["refi"]
        self.busy = 0

    def group(self, bank):
        return bank % self.t["groups"]

    def place(self, burst):
        t = self.t
        columns = t["row_bytes"] // t["burst_bytes"]
        if t["map"] == "row-bank-column-group":
            group, rest = burst % t["groups"], burst // t["groups"]
            rest //= columns
            inner = t["banks"] // t["groups"]
            return (rest % inner) * t["groups"] + group, rest // inner % t["rows"]
        rest = burst // columns
        return rest % t["banks"], rest // t["banks"] % t["rows"]

    def refresh(self, now):
        t = self.t
        while self.due <= now:
            while now - self.due > 2 * t["refi"]:
                self.due += t["refi"]  # long past: it came and went
            start = max(self.due, self.busy)
            opened = [b for b in range(t["banks"]) if self.row[b] is not None]
            for b in opened:
                start = max(start, self.pre_ok[b])
            done = max([start + (t["rp"] if opened else 0)] + self.act_ok) + t["rfc"]
            self.row = [None] * t["banks"]
            self.act_ok = [done] * t["banks"]
            self.busy = done
            self.due += t["refi"]

    def column_ok(self, bank, d):
        t = self.t
        ok = 0 if self.act_of[bank] is None else self.act_of[bank] + t["rcd"]
        for at, other, was in self.cols:
            same = self.group(other) == self.group(bank)
            if was == "R" and d == "R":
                ok = max(ok, at + t["burst"], at + (t["ccd_l"] if same else 0))
            elif was == "R":
                ok = max(ok, at + t["cl"] + t["burst"] + t["rtw"] - t["cwl"])
            elif d == "R":
                end = at + t["cwl"] + t["burst"]
                ok = max(ok, end + t["wtr"], end + (t["wtr_l"] if same else 0))
            else:
                ok = max(ok, at + t["burst"], at + (t["ccd_l_wr"] if same else 0))
        return ok

    def activate_ok(self, bank):
        t = self.t
        ok = self.act_ok[bank]
        for at, other in self.acts:
            ok = max(ok, at + t["rrd"])
            if self.group(other) == self.group(bank):
                ok = max(ok, at + t["rrd_l"])
        limit = t["activation_limit"]
        if len(self.acts) >= limit:
            ok = max(ok, self.acts[-limit][0] + t["faw"])
        return ok

    def precharge(self, bank, at):
        self.row[bank] = None
        self.pre_ok[bank] = at
        self.act_ok[bank] = max(self.act_ok[bank], at + self.t["rp"])

    def issue(self, now, bank, row, d, bus_free):
        """Returns (column time, end of data, row hit)."""
        t = self.t
        hit = self.row[bank] == row
        if not hit:
            if self.row[bank] is not None:
                self.precharge(bank, max(self.pre_ok[bank], now))
            at = max(self.activate_ok(bank), now)
            self.acts = (self.acts + [(at, bank)])[-self.KEEP :]
            self.act_of[bank] = at
            self.row[bank], self.used[bank] = row, 0
            self.pre_ok[bank] = at + t["ras"]
        column = max(self.column_ok(bank, d), bus_free, now)
        self.cols = (self.cols + [(column, bank, d)])[-self.KEEP :]
        end = column + (t["cl"] if d == "R" else t["cwl"]) + t["burst"]
        self.pre_ok[bank] = max(self.pre_ok[bank], column + t["rtp"] if d == "R" else end + t["wr"])
        self.used[bank] += 1
        return column, end, hit

    def settle(self, now, bank, row, waiting):
        same_bank = [e["row"] for e in waiting if e["bank"] == bank]
        if self.used[bank] >= self.t["accesses_per_row"] or (same_bank and row not in same_bank):
            self.precharge(bank, max(self.pre_ok[bank], now))


class Owners:
    """What the admission by shares knows: for each owner, its claims on both queues."""

    EPOCH = 256
    STARVING = 512 * EPOCH

    def __init__(self, waiting):
        self.waiting = waiting
        self.active = {}
        self.bursts = 0

    def held(self, pid, d):
        return sum(e["pid"] == pid and e["dir"] == d for e in self.waiting)

    def arrived(self, pid, vt):
        o = self.active.setdefault(pid, dict(want={"R": 0, "W": 0}, before={"R": 0, "W": 0}, refused_from={}))
        o["vt"], o["epochs"] = vt, 2

    def part(self, pid, capacity):
        return capacity // sum(o["vt"] <= self.active[pid]["vt"] for o in self.active.values())

    def unused(self, pid, d, capacity):
        o = self.active[pid]
        claim = min(self.part(pid, capacity), max(o["want"][d], o["before"][d]))
        return max(0, claim - self.held(pid, d))

    def kept_from(self, pid, vt, d, capacity):
        return sum(self.unused(p, d, capacity) for p, o in self.active.items() if p != pid and o["vt"] <= vt)

    def refused(self, pid, d, need, capacity):
        o, part, held = self.active[pid], self.part(pid, capacity), self.held(pid, d)
        o["refused_from"].setdefault(d, self.bursts)
        if held + need > part:
            return 0
        o["want"][d] = min(part, 2 * max(o["want"][d], held + need))
        behind = sum(self.held(p, d) for p, other in self.active.items() if other["vt"] > o["vt"])
        return min(behind, self.unused(pid, d, capacity))

    def starves(self, pid, d):
        return self.bursts - self.active[pid]["refused_from"].get(d, self.bursts) >= self.STARVING

    def queued(self, pid, d):
        self.active[pid]["refused_from"].pop(d, None)
        want = self.active[pid]["want"]
        want[d] = max(want[d], 2 * self.held(pid, d))

    def served(self):
        self.bursts += 1
        if self.bursts % self.EPOCH:
            return
        for pid, o in list(self.active.items()):
            held = {d: self.held(pid, d) for d in "RW"}
            if o["epochs"] == 0 and not any(held.values()):
                del self.active[pid]
                continue
            o["epochs"] = max(0, o["epochs"] - 1)
            o["before"], o["want"] = o["want"], {d: 2 * held[d] for d in "RW"}


class Controller:
    def __init__(
        self,
        t,
        policy="lvtf",
        entries=128,
        tie=64,
        least_run=0,
        prepare=False,
        fill=False,
        batch=False,
        aging=0,
        cores=4,
        admission="thesis",
    ):
        self.dram, self.t = Dram(t), t
        self.policy, self.entries, self.tie, self.prepare = policy, entries, tie, prepare
        self.fill, self.aging, self.cores, self.least_run = fill, aging, cores, least_run
        self.vt_pid, self.vt_core, self.pid_core = [None] * PIDS, [None] * cores, [0] * cores
        self.batch, self.batching = batch, False
        self.last_read, self.write_refused = 0, False
        self.share = admission == "share" and policy == "lvtf"
        self.waiting = []  # all entries of both directions, in arrival order
        self.flying = []  # ends of data of reads
        self.replies = []  # ends of answers: (time)
        self.acks = []
        self.now = 0
        self.bus_free = self.next_request = 0
        self.decide_at = NEVER
        self.dir, self.run, self.seq = "R", 0, 0
        self.draining = False
        self.decided = "R"
        self.owners = Owners(self.waiting)
        self.owed = {"R": (0, 0), "W": (0, 0)}  # bursts, and the virtual time of the packet that waits for room
        self.lately = []  # virtual times of the packets of owners that are known
        self.log = []

    def write(self, offset, value):
        if VT_PID < offset < VT_PID + 8 * PIDS:
            self.vt_pid[(offset - VT_PID) // 8] = value
        elif VT_CORE <= offset < VT_CORE + 8 * self.cores:
            self.vt_core[(offset - VT_CORE) // 8] = value
        elif PID_CORE <= offset < PID_CORE + 8 * self.cores and value < PIDS:
            self.pid_core[(offset - PID_CORE) // 8] = value

    def owner(self, core, substream):
        """The pid that pays, and its virtual time: what was never written has the lowest that came lately."""
        if substream:
            pid = substream if substream < PIDS else SHARED_PID
            vt = self.vt_pid[pid]
        elif core is None:
            return 0, 0
        else:
            pid = self.pid_core[core] if core < self.cores else SHARED_PID
            vt = self.vt_core[core] if core < self.cores else None
        if vt is None:
            whole = len(self.lately) // 256 * 256
            return pid, min(self.lately[max(0, whole - 256) :], default=0)
        if pid:
            self.lately.append(vt)
        return pid, vt

    def admit_share(self, d, queue, used, need, pid, vt):
        if used == 0 or (used + need) * 8 <= self.entries:
            return "accepted"
        if self.owners.starves(pid, d):
            return "accepted"
        scarce = used * 10 > self.entries * 9 and queue and vt >= queue[0]["vt"]
        if scarce and self.owners.unused(pid, d, self.entries) < need:
            return "reserved"
        kept = self.owners.kept_from(pid, vt, d, self.entries)
        return "reserved" if used + need + kept > self.entries else "accepted"

    def queue(self, d):
        """Entries of one direction in (virtual time, arrival) order."""
        return sorted((e for e in self.waiting if e["dir"] == d), key=lambda e: (e["vt"], e["seq"]))

    def submit(self, d, address, size, core, substream):
        first, last = address // self.t["burst_bytes"], (address + size - 1) // self.t["burst_bytes"]
        need = last - first + 1
        queue = self.queue(d)
        used = len(queue) + (len(self.flying) if d == "R" else 0)
        pid, vt = self.owner(core, substream)
        if self.policy == "frfcfs":
            vt = 0
        if self.share:
            self.owners.arrived(pid, vt)
        if used + need > self.entries:
            verdict = "full"
        elif self.share:
            verdict = self.admit_share(d, queue, used, need, pid, vt)
        elif self.policy == "lvtf" and used > self.entries * 0.9 and queue and vt >= queue[0]["vt"]:
            verdict = "reserved"
        else:
            verdict = "accepted"
        self.log.append(f"arrive {self.now} {verdict}")
        if verdict != "accepted":
            self.refuse(d, queue, pid, vt, need)
            return
        packet = {"left": 0}
        for burst in range(first, last + 1):
            if any(e["dir"] == "W" and e["burst"] == burst for e in self.waiting):
                continue  # merged into it, or read from it
            bank, row = self.dram.place(burst)
            self.waiting.append(
                dict(
                    dir=d,
                    vt=vt,
                    pid=pid,
                    seq=self.seq,
                    arrival=self.now,
                    bank=bank,
                    row=row,
                    burst=burst,
                    packet=packet,
                )
            )
            if self.share:
                self.owners.queued(pid, d)
            packet["left"] += 1
            self.seq += 1
        if self.decide_at == NEVER or self.batching:
            self.decide_at, self.batching = max(self.now, self.next_request), False

    def direction(self, reads, writes):
        if self.policy == "lvtf":
            return self.by_virtual_time(reads, writes)
        if self.draining and not reads and writes:
            return "W"
        return "W" if not reads and len(writes) > self.entries * 50 // 100 else self.decided

    def refuse(self, d, queue, pid, vt, need):
        lacks = self.owners.refused(pid, d, need, self.entries) if self.share else 0
        if lacks:
            owed, lowest = self.owed[d]
            self.owed[d] = (max(owed, min(lacks, len(queue))), min(lowest, vt) if owed else vt)
        if d == "W":
            self.write_refused = True
            if self.batching:
                self.decide_at, self.batching = max(self.now, self.next_request), False

    def by_virtual_time(self, reads, writes):
        if not writes:
            return "R"
        write, read = self.lowest("W", writes), self.lowest("R", reads) if reads else self.last_read
        if self.batch and not self.draining and write == read:
            return self.batched(reads, writes)
        if not reads:
            return "W"
        if self.run < (max(self.tie, self.least_run) if write == read else self.least_run):
            return self.dir
        if write == read:
            write, read = writes[0]["seq"], reads[0]["seq"]
        return "W" if write < read else "R"

    def lowest(self, d, queue):
        owed, vt = self.owed[d]
        return min(queue[0]["vt"], vt) if owed else queue[0]["vt"]

    def batched(self, reads, writes):
        """The direction while virtual times do not decide, with `batch`."""
        if self.dir == "W" and self.run < min(self.tie, 16):
            return "W"
        if not reads:
            needed = len(writes) + (16 if self.dir == "W" else 0) > self.entries * 50 // 100
            return "W" if needed or self.write_refused else "R"
        if self.dir == "R" and self.run < self.tie:
            return "R"
        needed = len(writes) > self.entries * 85 // 100 or self.write_refused
        return "W" if needed and writes[0]["seq"] < reads[0]["seq"] else "R"

    def decide_ahead(self):
        """The baseline's direction after a burst, which what arrives later does not change."""
        reads, writes = (sum(e["dir"] == d for e in self.waiting) for d in "RW")
        if self.dir == "R":
            return "W" if (self.run >= 16 or not reads) and writes > self.entries * 85 // 100 else "R"
        if not writes or writes + 16 < self.entries * 50 // 100 or (reads and self.run >= 16):
            return "R"
        return "W"

    def hit(self, e):
        return self.dram.row[e["bank"]] == e["row"]

    def pick(self, queue, d):
        if self.dram.busy > self.now or not queue:
            return None
        owed = self.owed[d][0]
        if self.policy == "lvtf" and not self.prepare and not owed:
            return next((e for e in queue if self.hit(e)), queue[0])
        first = {}  # in queue order, of each bank: a hit and a miss
        for e in queue:
            if owed or e["vt"] == queue[0]["vt"]:
                first.setdefault((e["bank"], self.hit(e)), e)
        queue = sorted(first.values(), key=lambda e: e["seq"])
        t = self.t
        turn = 0 if d == self.dir else min(t["wtr"], t["cs"]) if d == "R" else min(t["rtw"], t["cs"])
        free = max(self.bus_free + turn, self.now)
        hits = [e for e in queue if self.hit(e)]
        for e in hits:
            if self.dram.column_ok(e["bank"], d) <= free:
                return e
        misses = [e for e in queue if not self.hit(e)]
        if not misses:
            return hits[0]
        banks = {}
        for e in misses:
            if e["bank"] in banks:
                continue
            closed = self.dram.row[e["bank"]] is None
            act = max(
                self.dram.activate_ok(e["bank"]),
                self.now,
                0 if closed else max(self.dram.pre_ok[e["bank"]], self.now) + t["rp"],
            )
            banks[e["bank"]] = (act, max(self.dram.column_ok(e["bank"], d), act + t["rcd"]) <= free)
        seamless = [b for b in banks if banks[b][1]]
        best = seamless or [b for b in banks if banks[b][0] == min(v[0] for v in banks.values())]
        # Hidden is judged by the bank that was looked at last among the best.
        hidden = banks[best[-1]][0] <= max(free - t["rcd"], self.now)
        miss = next(e for e in misses if e["bank"] in best)
        return miss if hidden or not hits else hits[0]

    def served_at(self, e, d, free):
        """Column command and activate (None for a hit) of an entry if it is next."""
        t, column = self.t, self.dram.column_ok(e["bank"], d)
        if self.hit(e):
            return max(column, free), None
        closed = self.dram.row[e["bank"]] is None
        act = max(
            self.dram.activate_ok(e["bank"]),
            self.now,
            0 if closed else max(self.dram.pre_ok[e["bank"]], self.now) + t["rp"],
        )
        return max(column, act + t["rcd"], free), act

    def fits(self, f, e, d, free):
        """Whether serving f first leaves e's commands where they are: by serving f in a copy."""
        column, act = self.served_at(f, d, free)
        want = self.served_at(e, d, free)
        dram = self.dram
        acts, cols = dram.acts, dram.cols
        dram.cols = cols + [(column, f["bank"], d)]
        if act is not None:
            dram.acts = acts + [(act, f["bank"])]
        got = self.served_at(e, d, free)
        dram.acts, dram.cols = acts, cols
        return got == want

    def filled(self, e, queue, rivals, d):
        """What is served while e's row opens."""
        t = self.t
        turn = 0 if d == self.dir else min(t["wtr"], t["cs"]) if d == "R" else min(t["rtw"], t["cs"])
        free = max(self.bus_free + turn, self.now)
        for f in queue:
            if f["bank"] == e["bank"]:
                continue
            if not self.hit(f):
                bank = [g for g in queue if g["bank"] == f["bank"]]
                if f is not bank[0] or any(g["bank"] == f["bank"] and g["vt"] < f["vt"] for g in rivals):
                    continue
            if self.fits(f, e, d, free):
                return f
        return e

    def decide(self):
        self.decide_at, self.batching = NEVER, False
        self.dram.refresh(self.now)
        if not self.waiting:
            return
        reads, writes = self.queue("R"), self.queue("W")
        aged = False
        chosen = None
        if self.aging and self.policy == "lvtf":
            oldest = min(self.waiting, key=lambda e: e["seq"])
            # Of two that came at once the read is older: its queue is looked at first.
            tied = [e for e in self.waiting if e["arrival"] == oldest["arrival"] and e["dir"] == "R"]
            if tied:
                oldest = min(tied, key=lambda e: e["seq"])
            if self.now - oldest["arrival"] > self.aging and self.dram.busy <= self.now:
                chosen, d, aged = oldest, oldest["dir"], True
        if chosen is None:
            d = self.direction(reads, writes)
            queue, rivals = (reads, writes) if d == "R" else (writes, reads)
            chosen = self.pick(queue, d)
            if chosen is not None and self.fill and self.policy == "lvtf" and not self.owed[d][0]:
                chosen = self.filled(chosen, queue, rivals, d)
        if chosen is None:
            self.retry()
            return
        if d != self.dir:
            self.dir, self.run = d, 0
        self.run += 1
        self.waiting.remove(chosen)
        self.last_read = chosen["vt"] if d == "R" else self.last_read
        self.write_refused = self.write_refused and d == "R"
        if self.share:
            self.owners.served()
            owed, vt = self.owed[d]
            left = any(e["dir"] == d for e in self.waiting)
            self.owed[d] = (max(0, owed - 1) if left else 0, vt)
        self.decided = self.decide_ahead()
        column, end, hit = self.dram.issue(self.now, chosen["bank"], chosen["row"], d, self.bus_free)
        self.dram.settle(self.now, chosen["bank"], chosen["row"], [e for e in self.waiting if e["dir"] == d])
        self.bus_free = column + self.t["burst"]
        self.next_request = max(self.bus_free - self.t["rp"] - self.t["rcd"], self.now)
        name = "read" if d == "R" else "write"
        self.log.append(
            f"serve {self.now} {name} {chosen['vt']} {chosen['seq']} {chosen['bank']} {chosen['row']} "
            f"{'hit' if hit else 'miss'} {column}{' aged' if aged else ''}"
        )
        if d == "R":
            self.flying.append(end)
        if self.waiting:
            self.decide_at = max(self.now, self.next_request)

    def retry(self):
        """After nothing could be served: after the refresh, or when an entry is overdue if nothing comes before."""
        if self.dram.busy > self.now:
            self.decide_at = self.dram.busy
            return
        self.batching = True
        if self.aging and self.policy == "lvtf":
            self.decide_at = min(e["arrival"] for e in self.waiting) + self.aging + 1

    def advance(self, to):
        while True:
            landed = min(self.flying, default=NEVER)
            at = min(landed, self.decide_at)
            if at > to or at == NEVER:
                break
            self.now = max(self.now, at)
            if landed <= self.now:
                self.flying.remove(landed)
            else:
                self.decide()
        if to != NEVER:
            self.now = max(self.now, to)


def replay(text, dram="lpddr2-1066-x32", **options):
    """The decision log of a trace, as a list of lines."""
    c = Controller(DRAMS[dram], **options)
    for line in text.splitlines()[1:]:
        f = line.split()
        if not f or f[0].startswith("#"):
            continue
        c.advance(int(f[1]))
        if f[0] == "W":
            c.write(int(f[2], 0), int(f[3], 0))
            continue
        core = int(f[7]) if f[6] == "c" else None
        substream = int(f[7]) if f[6] == "s" else 0
        c.submit(f[2], int(f[3], 0), int(f[4]), core, substream)
    c.draining = True
    if c.decide_at == NEVER or c.batching:
        c.decide_at = max(c.now, c.next_request)
    c.advance(NEVER)
    return c.log


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: reference.py TRACE")
    with open(sys.argv[1], encoding="ascii") as trace:
        print("\n".join(replay(trace.read())))
