// SPDX-License-Identifier: GPL-2.0-only
//! The mark of an LLC that has tasks gets lost: between `ops.enqueue` of its only task and the
//! insertion, which follows it, another CPU of the LLC finds the queue empty. Callbacks run in parts
//! here, as on several CPUs.

use drfq_sim::kernel::{Kernel, Place};
use drfq_sim::outside::Outside;
use drfq_sim::replay::strand::{Path, Point};
use drfq_sim::{Config, CpuSet, MS, SEC, Sim, Step, TaskSpec, Trace};

const BEGIN: u64 = MS;
const NOW: u64 = 25 * MS;
/// `SCX_ENQ_WAKEUP`.
const WAKEUP: u64 = 1;

/// The task that wakes. Task i before it is pinned to CPU i.
const WAKES: usize = 4;
/// It may use CPU 0, on which it was last, and one of the other LLC.
const OTHER: usize = 2;
/// A CPU of the first LLC.
const SIBLING: usize = 1;

/// Two LLCs of two CPUs. Each CPU runs a pinned task. A further task sleeps, last on CPU 0.
fn four_busy_cpus() -> Kernel {
    let mut kernel = Kernel::new(&Config::new(4).llcs(2));
    for cpu in 0..WAKES {
        kernel.task_new(BEGIN, None, CpuSet::one(cpu), cpu, false);
    }
    kernel.task_new(BEGIN, None, CpuSet::of(1 | 1 << OTHER), 0, false);
    kernel.wake_new(BEGIN, WAKES);
    assert_eq!(kernel.schedule(BEGIN, 0), Some(WAKES));
    kernel.block(BEGIN, 0);
    assert_eq!(kernel.schedule(BEGIN, 0), None);
    for cpu in 0..WAKES {
        kernel.wake_new(BEGIN, cpu);
        assert_eq!(kernel.schedule(BEGIN, cpu), Some(cpu));
    }
    kernel.take_rescheds();
    kernel
}

/// CPUs that were told to do so schedule, until none is told.
fn follow(kernel: &mut Kernel, now_ns: u64) {
    loop {
        let cpus = kernel.take_rescheds();
        if cpus.is_empty() {
            return;
        }
        for cpu in cpus {
            kernel.schedule(now_ns, cpu);
        }
    }
}

/// `cpu` becomes idle.
fn becomes_idle(kernel: &mut Kernel, cpu: usize) {
    kernel.block(NOW, cpu);
    assert_eq!(kernel.schedule(NOW, cpu), None);
}

/// The task wakes. After `points` of the points of its way into the queue, the sibling becomes idle.
/// Returns whether the way has so many points.
fn wake(kernel: &mut Kernel, points: usize) -> bool {
    kernel.strand_start(NOW, 0, Path::Enqueue(WAKES, 0, WAKEUP));
    for _ in 0..points {
        if kernel.strand_point(0).0 == Point::Done {
            return false;
        }
        kernel.strand_resume(0, None);
    }
    becomes_idle(kernel, SIBLING);
    while kernel.strand_point(0).0 != Point::Done {
        kernel.strand_resume(0, None);
    }
    follow(kernel, NOW);
    true
}

/// Then a CPU of the other LLC finds no mark. The timer finds the task and marks its LLC again.
#[test]
fn a_task_whose_mark_is_lost_runs_after_a_period_of_the_timer() {
    let mut lost = 0;
    for points in 0.. {
        let mut kernel = four_busy_cpus();
        if !wake(&mut kernel, points) {
            break;
        }
        kernel.block(NOW, OTHER);
        kernel.schedule(NOW, OTHER);
        follow(&mut kernel, NOW);
        lost += usize::from(kernel.place(WAKES) == Place::Queued);
        let due_ns = kernel.timer_due_ns();
        assert!(due_ns < NOW + 101 * MS);
        kernel.timer_fire(due_ns);
        follow(&mut kernel, due_ns);
        assert_eq!(kernel.place(WAKES), Place::Running, "after {points} points");
    }
    assert!(lost > 0);
}

/// A task of an idle LLC is queued because a higher class takes its CPU, and an idle CPU of the other
/// LLC takes it. No CPU of its own LLC looks at the queue.
#[test]
fn a_mark_of_an_idle_llc_is_no_task_that_waits() {
    let run = |ns| Step::Run { ns, bytes_per_s: 0 };
    let specs = vec![
        TaskSpec::new("hog", Trace::hog()).allowed(CpuSet::one(0)),
        TaskSpec::new("early", Trace::once([run(100 * MS)])).allowed(CpuSet::one(1)),
        TaskSpec::new("mover", Trace::once([run(400 * MS)])).allowed(CpuSet::of(0b1_0010)),
    ];
    let mut sim = Sim::new(Config::new(8).llcs(2), specs);
    let (cpu, ns) = (4, 10 * SEC);
    sim.plan(200 * MS, Outside::Take { cpu, ns });
    let report = sim.run_until(SEC);
    assert!(report.tasks[2].exited_at_ns.is_some());
    assert_eq!(report.counters.steals, 1, "the mover waited for CPU 4");
    let before_ns = sim.kernel().v_ns();
    sim.run_until(5 * SEC);
    let rose_ns = sim.kernel().v_ns() - before_ns;
    assert_eq!(rose_ns, 0, "the hog is charged while nobody waits");
}
