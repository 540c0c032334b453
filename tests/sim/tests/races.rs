// SPDX-License-Identifier: GPL-2.0-only
//! Rules that hold although several CPUs act at the same time.

use drfq_sim::devices::Way;
use drfq_sim::kernel::Kernel;
use drfq_sim::races::wrong_group_sums;
use drfq_sim::{Config, CpuSet, MS};

#[test]
fn groups_that_two_cpus_change_at_once_keep_their_sums() {
    assert_eq!(wrong_group_sums(300_000), 0);
}

/// 1 GB/s: one byte is 1 ns of virtual time.
const MEM: u64 = 1_000_000_000;

/// How much S of a task grows at a tick after 4 ms, where it also pays for `moved` bytes of a device,
/// virtual ns. Another task waits for its CPU. The only other CPU becomes idle just before the tick
/// asks for the `loads`-th time how many CPUs are busy. Also returns whether the tick asks so often.
fn charged_while_another_cpu_becomes_idle(moved: u32, loads: u32) -> (u64, bool) {
    let mut kernel = Kernel::new(&Config::new(2).memory(MEM));
    for (task, cpu) in [(0, 0), (1, 1), (2, 0)] {
        kernel.task_new(0, None, CpuSet::of(1 << cpu), cpu, false);
        kernel.wake_new(0, task);
        if task < 2 {
            assert_eq!(kernel.schedule(0, cpu), Some(task));
        }
    }
    assert_eq!(kernel.busy_cpus(), 2);
    if moved > 0 {
        kernel.submit(0, moved, Way::default());
    }
    let before_ns = kernel.account(0).start_ns;
    kernel.idle_at_load(loads);
    kernel.tick(4 * MS, 0, 0);
    let asked = kernel.busy_cpus() == 1;
    (kernel.account(0).start_ns - before_ns, asked)
}

/// With two CPUs, their time costs half. What a device moves takes far longer here.
#[test]
fn a_tick_is_charged_while_another_cpu_becomes_idle() {
    for (moved, cost_ns) in [(0, 2 * MS), (1 << 30, 1 << 30)] {
        let mut asked = 0;
        for loads in 1.. {
            let (charged_ns, idle) = charged_while_another_cpu_becomes_idle(moved, loads);
            assert_eq!(charged_ns, cost_ns, "{moved} bytes, at load {loads}");
            if !idle {
                break;
            }
            asked += 1;
        }
        assert!(asked > 0);
    }
}
