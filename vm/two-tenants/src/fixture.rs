// SPDX-License-Identifier: GPL-2.0-only
//! An invented demonstration, for tests.

use crate::{
    machine::{Description, Memory},
    sample::{Sample, Scheduler, Usage},
    script::{Script, Stage},
};

/// A machine.
pub fn machine() -> Description {
    Description {
        scale: 15,
        memory: Memory {
            dram: "lpddr2-1066-x32".into(),
            policy: "lvtf".into(),
        },
    }
}

/// The sample of an interval.
pub fn sample(at: u64, scheduler: Scheduler) -> Sample {
    let latency_us = match scheduler {
        Scheduler::Eevdf => 40_000,
        Scheduler::Drfq => 5_000,
    };
    let usage = |weight| Usage {
        cpu_us: at * 300_000,
        bytes: at * 100_000_000,
        weight,
        processes: 2,
    };
    Sample {
        at_ns: at * 500_000_000,
        scheduler,
        service: usage(100),
        hogs: usage(100),
        latencies_us: (1..=50).map(|n| latency_us + at * 10 + n * 100).collect(),
        message: None,
    }
}

/// A demonstration whose measurements are over.
pub fn measured() -> Script {
    let mut script = Script::new(10);
    let mut scheduler = Scheduler::Eevdf;
    let mut at = 0;
    while script.stage != Stage::Free {
        if script.push(sample(at, scheduler)).is_some() {
            scheduler = Scheduler::Drfq;
        }
        at += 1;
    }
    script
}
