// SPDX-License-Identifier: GPL-2.0-only
//! Sequential and random reads: the model's bandwidth and DRAMsim3's, with the same timing.

use std::fmt::Write;

use dramsim3::MemorySystem;
use drfq_dramsim::{Addresses, Dram, lpddr2_1066, read_bytes};

const CAPACITY: u64 = 512 << 20;
const END_PS: u64 = 1_000_000_000;
const OUTSTANDING: u32 = 64;
const BURST_BYTES: u64 = 32;
const BUS_BITS: u64 = 32;

struct Sequential(u64);

impl Addresses for Sequential {
    fn next(&mut self) -> u64 {
        let address = self.0;
        self.0 = (self.0 + BURST_BYTES) % CAPACITY;
        address
    }
}

/// xorshift64
struct Random(u64);

impl Addresses for Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % (CAPACITY / BURST_BYTES) * BURST_BYTES
    }
}

/// DRAMsim3 has no LPDDR2; its LPDDR3 differs by timing alone, and that is given.
fn description(t: &Dram) -> String {
    let mut ini = format!(
        "[dram_structure]\nprotocol = LPDDR3\nbankgroups = 1\nbanks_per_group = {}\nrows = {}\n\
         columns = {}\ndevice_width = {BUS_BITS}\nBL = {}\n[timing]\n",
        t.banks,
        t.rows,
        t.row_bytes * 8 / BUS_BITS,
        t.burst_bytes * 8 / BUS_BITS,
    );
    writeln!(ini, "tCK = {}", t.ck_ps as f64 / 1000.0).unwrap();
    for (name, cycles) in [
        ("CL", t.cl),
        ("CWL", t.cwl),
        ("tRCD", t.rcd),
        ("tRP", t.rp),
        ("tRAS", t.ras),
        ("tRFC", t.rfc),
        ("tREFI", t.refi),
        ("tRRD_S", t.rrd),
        ("tRRD_L", t.rrd),
        ("tWTR_S", t.wtr),
        ("tWTR_L", t.wtr),
        ("tFAW", t.faw),
        ("tWR", t.wr),
        ("tRTP", t.rtp),
        ("tCCD_S", t.burst),
        ("tCCD_L", t.burst),
        ("tRTRS", 1),
    ] {
        writeln!(ini, "{name} = {cycles}").unwrap();
    }
    ini + "[system]\nchannel_size = 512\nchannels = 1\nbus_width = 32\naddress_mapping = rochrababgco\n\
           queue_structure = PER_BANK\nrefresh_policy = RANK_LEVEL_STAGGERED\nrow_buf_policy = OPEN_PAGE\n\
           cmd_queue_size = 8\ntrans_queue_size = 32\n[other]\nepoch_period = 100000000\noutput_level = 0\n"
}

fn dramsim3_bytes(t: &Dram, mut addresses: impl Addresses) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("lpddr2.ini");
    std::fs::write(&config, description(t)).unwrap();
    let mut memory = MemorySystem::new(&config, dir.path()).unwrap();
    assert_eq!(t.burst_bytes, BURST_BYTES);
    let (mut outstanding, mut done) = (0, 0);
    let mut next = addresses.next();
    for _ in 0..END_PS / t.ck_ps {
        while outstanding < OUTSTANDING && memory.can_add(next, false) {
            assert!(memory.add(next, false));
            outstanding += 1;
            next = addresses.next();
        }
        memory.tick(|_, _| {
            outstanding -= 1;
            done += BURST_BYTES;
        });
    }
    done
}

fn compare(what: &str, ours: u64, theirs: u64) {
    let bytes_per_ns = |bytes: u64| bytes as f64 * 1000.0 / END_PS as f64;
    let difference = ours as f64 / theirs as f64 - 1.0;
    println!(
        "{what} reads: model {:.3} bytes/ns, DRAMsim3 {:.3}, {:+.1} %",
        bytes_per_ns(ours),
        bytes_per_ns(theirs),
        difference * 100.0
    );
    assert!(
        difference.abs() <= 0.05,
        "{what} reads differ by more than 5 %"
    );
}

/// A changed value of the table must not pass unnoticed.
#[test]
fn cycles_of_the_preset_add_up_to_the_recorded_sum() {
    let t = lpddr2_1066();
    let cycles = [
        t.cl, t.cwl, t.rcd, t.rp, t.ras, t.rfc, t.refi, t.rrd, t.wtr, t.faw, t.wr, t.rtp, t.burst,
    ];
    assert_eq!((t.ck_ps, cycles.iter().sum::<u64>()), (1876, 2259));
}

#[test]
fn sequential_reads_are_within_5_percent() {
    let t = &lpddr2_1066();
    compare(
        "sequential",
        read_bytes(t, Sequential(0), OUTSTANDING, END_PS),
        dramsim3_bytes(t, Sequential(0)),
    );
}

#[test]
fn random_reads_are_within_5_percent() {
    let t = &lpddr2_1066();
    compare(
        "random",
        read_bytes(t, Random(88172645463325252), OUTSTANDING, END_PS),
        dramsim3_bytes(t, Random(88172645463325252)),
    );
}
