// SPDX-License-Identifier: GPL-2.0-only
//! Reads that are charged by the kernel's own account of them.

use drfq_sim::devices::Way;
use drfq_sim::{Config, MS, Sim, Step, TaskSpec, Trace};

/// A task on one CPU. The engine does not know of what it reads, so it checks nothing.
fn sim(trace: Trace) -> Sim {
    let config = Config {
        checked: false,
        ..Config::new(1).memory(4_000_000_000)
    };
    Sim::new(config, vec![TaskSpec::new("task", trace)])
}

#[test]
fn what_a_task_reads_in_another_class_is_not_charged() {
    let run = Step::Run {
        ns: 5 * MS,
        bytes_per_s: 0,
    };
    let sleep = Step::Sleep {
        ns: 40 * MS,
        dma_bytes: 0,
    };
    let mut sim = sim(Trace::repeat([run, sleep]));
    sim.run_until(2 * MS);
    sim.kernel().submit(0, 4096, Way::default());
    sim.run_until(10 * MS);
    sim.act(|kernel, now_ns| kernel.leave_class(now_ns, 0));
    assert_eq!(sim.kernel().account(0).dma_bytes, 4096);
    sim.kernel().add_read(0, 1 << 30);
    sim.run_until(20 * MS);
    sim.act(|kernel, now_ns| kernel.join_class(now_ns, 0));
    sim.run_until(47 * MS);
    sim.kernel().submit(0, 4096, Way::default());
    sim.run_until(100 * MS);
    assert_eq!(sim.kernel().account(0).dma_bytes, 8192);
}

/// The kernel has counted it.
#[test]
fn a_read_that_both_programs_miss_is_charged_with_the_next_one() {
    let mut sim = sim(Trace::hog());
    sim.run_until(10 * MS);
    sim.kernel().skip_programs(true, true);
    sim.kernel().submit(0, 4096, Way::default());
    assert_eq!(sim.run_until(20 * MS).tasks[0].dma_bytes, 0);
    sim.kernel().skip_programs(false, false);
    sim.kernel().submit(0, 512, Way::default());
    assert_eq!(sim.run_until(30 * MS).tasks[0].dma_bytes, 4608);
}

/// The request below has no account of its own.
#[test]
fn what_stacked_devices_read_is_charged_once_beside_what_no_program_was_told_of() {
    let mut sim = sim(Trace::hog());
    sim.run_until(10 * MS);
    sim.kernel().add_read(0, 1 << 20);
    let stacked = Way {
        layers: 1,
        ..Way::default()
    };
    sim.kernel().submit(0, 4096, stacked);
    assert_eq!(sim.run_until(30 * MS).tasks[0].dma_bytes, (1 << 20) + 4096);
}
