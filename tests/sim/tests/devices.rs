// SPDX-License-Identifier: GPL-2.0-only
//! Requests through stacked block devices, and dirty pages.

use drfq_sim::devices::{Page, PassThrough, Passing, StripeDisk, Tail, Transfer, Way};
use drfq_sim::kernel::Kernel;
use drfq_sim::{Config, CpuSet, MS, Sim, Step, TaskSpec, Trace};

/// One CPU. The engine does not know of these requests, so it checks nothing.
fn config() -> Config {
    Config {
        checked: false,
        ..Config::new(1).memory(4_000_000_000)
    }
}

/// A hog on one CPU submits 64 KiB in this way. Returns what it is charged for, bytes.
fn charged(way: Way) -> u64 {
    charged_to(TaskSpec::new("hog", Trace::hog()), way)
}

/// The same of another task that runs on one CPU.
fn charged_to(hog: TaskSpec, way: Way) -> u64 {
    let mut sim = Sim::new(config(), vec![hog]);
    sim.run_until(10 * MS);
    sim.kernel().submit(0, 65536, way);
    sim.run_until(30 * MS).tasks[0].dma_bytes
}

#[test]
fn a_request_is_charged_once_however_devices_are_stacked() {
    for layers in 0..3 {
        for in_place in [false, true] {
            for partition in [false, true] {
                let way = Way {
                    layers,
                    in_place,
                    partition,
                };
                assert_eq!(charged(way), 65536, "{way:?}");
            }
        }
    }
}

/// The kernel skips a program that it has preempted.
#[test]
fn what_one_of_a_pair_of_programs_misses_the_other_one_charges() {
    let mut sim = Sim::new(config(), vec![TaskSpec::new("hog", Trace::hog())]);
    sim.run_until(10 * MS);
    let mut bytes = 0;
    let skips = [
        [false, true],
        [true, false],
        [false, false],
        [true, false],
        [true, false],
        [false, true],
    ];
    for [first, second] in skips {
        sim.kernel().skip_programs(first, second);
        for way in [
            Way::default(),
            Way {
                layers: 1,
                in_place: true,
                partition: false,
            },
        ] {
            sim.kernel().submit(0, 4096, way);
            bytes += 4096;
        }
        for told in PassThrough::ALL {
            sim.kernel().pass_through(0, 4096, told);
            bytes += 4096;
        }
    }
    assert_eq!(sim.run_until(30 * MS).tasks[0].dma_bytes, bytes);
}

/// The kernel has one address for all of them, one after the other.
#[test]
fn a_request_that_the_first_program_misses_is_not_taken_for_an_earlier_one() {
    let mut sim = Sim::new(config(), vec![TaskSpec::new("hog", Trace::hog())]);
    sim.run_until(10 * MS);
    for _ in 0..4 {
        for [first, second] in [[false, true], [true, false]] {
            sim.kernel().skip_programs(first, second);
            sim.kernel().submit(0, 4096, Way::default());
        }
    }
    assert_eq!(sim.run_until(30 * MS).tasks[0].dma_bytes, 8 * 4096);
}

/// Another task submits a request between the two programs.
#[test]
fn a_task_that_stops_between_both_programs_is_charged_once() {
    let mut kernel = Kernel::new(&Config::new(1).memory(4_000_000_000));
    for task in 0..2 {
        kernel.task_new(0, None, CpuSet::ALL, 0, false);
        kernel.wake_new(0, task);
    }
    assert_eq!(kernel.schedule(0, 0), Some(0));
    kernel.skip_programs(false, true);
    kernel.write_out(0, page(0), Transfer::Read, 4096);
    kernel.skip_programs(false, false);
    kernel.block(MS, 0);
    assert_eq!(kernel.schedule(MS, 0), Some(1));
    kernel.write_out(1, page(1), Transfer::Read, 65536);
    kernel.wake(2 * MS, 0, None, false);
    kernel.block(3 * MS, 0);
    assert_eq!(kernel.schedule(3 * MS, 0), Some(0));
    kernel.skip_programs(true, false);
    kernel.write_out(0, page(0), Transfer::Read, 4096);
    kernel.tick(4 * MS, 0, 0);
    assert_eq!(kernel.account(0).dma_bytes, 4096);
}

/// The next task of its CPU does not pay for it.
#[test]
fn a_task_that_leaves_the_class_pays_for_what_it_has_submitted() {
    let mut sim = Sim::new(config(), vec![TaskSpec::new("hog", Trace::hog())]);
    sim.run_until(10 * MS);
    sim.kernel().submit(0, 4096, Way::default());
    sim.kernel().leave_class(10 * MS, 0);
    assert_eq!(sim.kernel().account(0).dma_bytes, 4096);
}

/// It submits the request in its last packet, and is not charged again before it ends.
#[test]
fn what_a_task_submits_before_it_ends_is_charged_and_its_heir_pays() {
    let virtual_times = [0, 1 << 24].map(|bytes| {
        let short = Trace::once([Step::Run {
            ns: 11 * MS + MS / 2,
            bytes_per_s: 0,
        }]);
        let config = Config {
            checked: false,
            ..Config::new(2).memory(4_000_000_000)
        };
        let tasks = vec![
            TaskSpec::new("short", short),
            TaskSpec::new("main", Trace::hog()),
        ];
        let mut sim = Sim::new(config, tasks);
        sim.run_until(MS);
        sim.kernel().join(0, 1);
        sim.run_until(11 * MS + MS / 4);
        if bytes > 0 {
            sim.kernel().submit(0, bytes, Way::default());
        }
        let report = sim.run_until(12 * MS);
        assert!(report.tasks[0].exited_at_ns.is_some());
        assert_eq!(report.tasks[0].dma_bytes, u64::from(bytes));
        sim.kernel().account(1).bus_vt_ns
    });
    assert!(virtual_times[1] > virtual_times[0], "{virtual_times:?}");
}

/// Otherwise it would pay for all of it when it comes back, or for nothing if it came and went.
#[test]
fn a_task_pays_when_it_leaves_for_another_class_and_not_for_what_is_moved_there() {
    let run = Step::Run {
        ns: MS,
        bytes_per_s: 0,
    };
    let sleep = Step::Sleep {
        ns: 40 * MS,
        dma_bytes: 0,
    };
    for by_cpu in [false, true] {
        let task = TaskSpec::new("task", Trace::repeat([run, sleep]));
        let mut sim = Sim::new(config(), vec![task]);
        sim.run_until(10 * MS);
        let add = |sim: &mut Sim, bytes| match by_cpu {
            false => sim.kernel().add_dma(0, bytes),
            true => sim.kernel().add_counted(0, bytes),
        };
        let before = sim.kernel().account(0);
        add(&mut sim, 1 << 20);
        sim.act(|kernel, now_ns| kernel.leave_class(now_ns, 0));
        let left = sim.kernel().account(0);
        assert_eq!(left.bytes, 1 << 20);
        assert!(left.bus_vt_ns > before.bus_vt_ns, "by CPU: {by_cpu}");
        add(&mut sim, 1 << 30);
        sim.run_until(20 * MS);
        sim.act(|kernel, now_ns| kernel.join_class(now_ns, 0));
        sim.run_until(60 * MS);
        assert_eq!(sim.kernel().account(0).bytes, 1 << 20, "by CPU: {by_cpu}");
    }
}

#[test]
fn a_command_of_a_programs_own_making_is_charged_to_its_submitter() {
    let mut sim = Sim::new(config(), vec![TaskSpec::new("hog", Trace::hog())]);
    sim.run_until(10 * MS);
    for told in PassThrough::ALL {
        sim.kernel().pass_through(0, 65536, told);
    }
    assert_eq!(sim.run_until(30 * MS).tasks[0].dma_bytes, 3 * 65536);
}

/// It submits them for other tasks.
#[test]
fn a_kernel_thread_is_not_charged_for_the_requests_that_it_submits() {
    let hog = TaskSpec::new("kthread", Trace::hog()).kthread();
    assert_eq!(charged_to(hog, Way::default()), 0);
}

const FLUSHER: usize = 0;
const WRITER: usize = 1;
const OTHER: usize = 2;
/// Pages of a stretch: `DIRTIER_STRETCH_SHIFT` of bpf/dirtier.bpf.h.
const STRETCH: u64 = 512;

/// A kernel thread and two tasks that run on a CPU each; `writer` is what the first one does.
fn writers(writer: Trace) -> Sim {
    let config = Config {
        checked: false,
        ..Config::new(3).memory(4_000_000_000)
    };
    let tasks = vec![
        TaskSpec::new("kthread", Trace::hog()).kthread(),
        TaskSpec::new("writer", writer),
        TaskSpec::new("other", Trace::hog()),
    ];
    let mut sim = Sim::new(config, tasks);
    sim.run_until(10 * MS);
    sim
}

/// A page of file 0.
fn page(index: u64) -> Page {
    Page {
        index,
        ..Page::default()
    }
}

/// What kernel thread, writer and other are charged for by `end_ns`; then bytes without an
/// account, written for a task, and moved too late.
fn books_at(sim: &mut Sim, end_ns: u64) -> [u64; 6] {
    let tasks = sim.run_until(end_ns).tasks;
    let count = |sim: &mut Sim, event| sim.kernel().event_count(event);
    [
        tasks[FLUSHER].dma_bytes,
        tasks[WRITER].dma_bytes,
        tasks[OTHER].dma_bytes,
        count(sim, "DMA_UNATTRIBUTED_BYTES"),
        count(sim, "DMA_WRITTEN_BACK_BYTES"),
        count(sim, "DMA_ENDED_BYTES"),
    ]
}

/// The same after all that was submitted is charged.
fn books(sim: &mut Sim) -> [u64; 6] {
    books_at(sim, 100 * MS)
}

#[test]
fn the_dirtier_of_a_page_is_charged_when_a_kernel_thread_writes_it_out() {
    for tail in [Tail::Head, Tail::ByAddress, Tail::ByMask] {
        let mut sim = writers(Trace::hog());
        let page = Page { tail, ..page(1000) };
        sim.kernel().dirty(WRITER, page);
        assert_eq!(books_at(&mut sim, 40 * MS), [0; 6]);
        sim.kernel()
            .write_out(FLUSHER, page, Transfer::Write, 65536);
        assert_eq!(books(&mut sim), [0, 65536, 0, 0, 65536, 0], "{tail:?}");
    }
}

#[test]
fn a_task_that_writes_pages_out_itself_is_charged_once_whoever_dirtied_them() {
    let mut sim = writers(Trace::hog());
    sim.kernel().dirty(WRITER, page(0));
    sim.kernel().dirty(WRITER, page(2 * STRETCH));
    sim.kernel()
        .write_out(WRITER, page(0), Transfer::Write, 4096);
    sim.kernel()
        .write_out(OTHER, page(2 * STRETCH), Transfer::Write, 8192);
    assert_eq!(books(&mut sim), [0, 4096, 8192, 0, 0, 0]);
}

#[test]
fn each_stretch_of_each_file_has_the_dirtier_that_came_last() {
    let mut sim = writers(Trace::hog());
    let second_file = Page { file: 1, ..page(0) };
    sim.kernel().dirty(OTHER, page(0));
    sim.kernel().dirty(WRITER, page(1));
    sim.kernel().dirty(OTHER, page(STRETCH));
    sim.kernel().dirty(OTHER, second_file);
    for (page, bytes) in [
        (page(STRETCH - 1), 1 << 12),
        (page(STRETCH), 1 << 13),
        (second_file, 1 << 14),
    ] {
        sim.kernel()
            .write_out(FLUSHER, page, Transfer::Write, bytes);
    }
    let others = (1 << 13) + (1 << 14);
    assert_eq!(
        books(&mut sim),
        [0, 1 << 12, others, 0, (1 << 12) + others, 0]
    );
}

#[test]
fn bytes_whose_dirtier_is_not_known_are_counted_and_charged_to_no_task() {
    let mut sim = writers(Trace::hog());
    sim.kernel().dirty(WRITER, page(0));
    let unknown = [
        (page(STRETCH), Transfer::Write),
        (
            Page {
                copied: true,
                ..page(0)
            },
            Transfer::Write,
        ),
        // What a kernel thread reads has nothing to do with what a task dirtied there.
        (page(0), Transfer::Read),
    ];
    for (page, transfer) in unknown {
        sim.kernel().write_out(FLUSHER, page, transfer, 4096);
    }
    assert_eq!(books(&mut sim), [0, 0, 0, 3 * 4096, 0, 0]);
    assert_eq!(sim.kernel().event_count("DMA_UNATTRIBUTED"), 3);
}

#[test]
fn bytes_of_a_task_that_has_ended_are_counted_apart() {
    let mut sim = writers(Trace::once([Step::Run {
        ns: 12 * MS,
        bytes_per_s: 0,
    }]));
    sim.kernel().dirty(WRITER, page(0));
    sim.run_until(20 * MS);
    sim.kernel()
        .write_out(FLUSHER, page(0), Transfer::Write, 4096);
    assert_eq!(books(&mut sim)[1..], [0, 0, 0, 0, 4096]);
}

#[test]
fn the_main_thread_is_charged_for_a_thread_that_has_ended() {
    let mut sim = writers(Trace::once([Step::Run {
        ns: 12 * MS,
        bytes_per_s: 0,
    }]));
    sim.kernel().join(WRITER, OTHER);
    sim.kernel().dirty(WRITER, page(0));
    sim.run_until(20 * MS);
    sim.kernel()
        .write_out(FLUSHER, page(0), Transfer::Write, 4096);
    assert_eq!(books(&mut sim), [0, 0, 4096, 0, 4096, 0]);
}

#[test]
fn what_a_worker_of_io_uring_moves_is_charged_to_the_task_that_submitted_it() {
    let mut sim = writers(Trace::hog());
    sim.kernel().serve_ring(WRITER, Some(OTHER));
    sim.kernel()
        .write_out(WRITER, page(0), Transfer::Read, 4096);
    sim.kernel().dirty(WRITER, page(0));
    sim.kernel()
        .write_out(FLUSHER, page(0), Transfer::Write, 4096);
    assert_eq!(books(&mut sim), [0, 0, 8192, 0, 4096, 0]);
}

#[test]
fn a_thread_of_io_uring_that_polls_pays_itself() {
    let mut sim = writers(Trace::hog());
    sim.kernel().serve_ring(WRITER, None);
    sim.kernel()
        .write_out(WRITER, page(0), Transfer::Read, 4096);
    assert_eq!(books(&mut sim), [0, 4096, 0, 0, 0, 0]);
}

/// What the books say if a kernel thread dirties a page of the writer again and writes it out.
fn dirtied_again(worker: Option<bool>, block_device: bool) -> [u64; 6] {
    let mut sim = writers(Trace::hog());
    let page = Page {
        block_device,
        ..page(0)
    };
    sim.kernel().dirty(WRITER, page);
    if let Some(local) = worker {
        sim.kernel().work(FLUSHER, local);
    }
    sim.kernel().dirty(FLUSHER, page);
    sim.kernel().work(FLUSHER, false);
    sim.kernel().write_out(FLUSHER, page, Transfer::Write, 4096);
    books(&mut sim)
}

/// It cannot write them yet.
#[test]
fn the_flusher_takes_no_page_that_it_dirties_again() {
    assert_eq!(dirtied_again(Some(false), false), [0, 4096, 0, 0, 4096, 0]);
}

/// A journal, a server in the kernel, and the loop driver.
#[test]
fn what_other_kernel_threads_dirty_has_no_owner() {
    let nobody = [0, 0, 0, 4096, 0, 0];
    assert_eq!(dirtied_again(Some(false), true), nobody);
    assert_eq!(dirtied_again(None, false), nobody);
    assert_eq!(dirtied_again(Some(true), false), nobody);
}

/// The loop driver passes the pages on that were written to its device.
#[test]
fn pages_that_a_loop_device_passes_on_are_paid_for_once() {
    let mut sim = writers(Trace::hog());
    sim.kernel().dirty(WRITER, page(0));
    sim.kernel()
        .write_out(WRITER, page(0), Transfer::Write, 4096);
    sim.kernel().work(FLUSHER, true);
    sim.kernel()
        .write_out(FLUSHER, page(0), Transfer::Write, 4096);
    assert_eq!(books(&mut sim), [0, 4096, 0, 4096, 0, 0]);
}

const THREAD: usize = 2;

/// A kernel thread, a task and another kernel thread that run on a CPU each.
fn beside_a_thread() -> Sim {
    let config = Config {
        checked: false,
        ..Config::new(3).memory(4_000_000_000)
    };
    let tasks = vec![
        TaskSpec::new("kthread", Trace::hog()).kthread(),
        TaskSpec::new("writer", Trace::hog()),
        TaskSpec::new("thread", Trace::hog()).kthread(),
    ];
    let mut sim = Sim::new(config, tasks);
    sim.run_until(10 * MS);
    sim
}

/// The file of the loop device lies on a stacked device, whose thread is another one.
#[test]
fn a_stacked_device_below_a_loop_device_charges_nobody_again() {
    for (clones, copies) in [(true, false), (false, true)] {
        let mut sim = beside_a_thread();
        sim.kernel().dirty(WRITER, page(0));
        sim.kernel()
            .write_out(WRITER, page(0), Transfer::Write, 4096);
        sim.kernel().work(FLUSHER, true);
        let passing = Passing {
            clones,
            copies,
            ..PASSING
        };
        sim.kernel().pass_on(FLUSHER, THREAD, page(0), passing);
        assert_eq!(books(&mut sim)[..4], [0, 4096, 0, 4096]);
    }
}

/// A request of 4096 bytes that a kernel thread passes on in no way that tells of the upper one.
const PASSING: Passing = Passing {
    transfer: Transfer::Write,
    bytes: 4096,
    clones: false,
    copies: false,
    behind: false,
    reused: false,
    twice: false,
    disk: StripeDisk::None,
};

/// The books after a request of `task`, whose page the writer has dirtied.
fn passed_on(task: usize, passing: Passing) -> [u64; 6] {
    let mut sim = writers(Trace::hog());
    sim.kernel().dirty(WRITER, page(0));
    sim.kernel().pass_on(task, FLUSHER, page(0), passing);
    books(&mut sim)
}

/// Each way that tells of the upper request.
const TELLING: [Passing; 6] = [
    Passing {
        clones: true,
        ..PASSING
    },
    Passing {
        copies: true,
        ..PASSING
    },
    Passing {
        behind: true,
        ..PASSING
    },
    in_stripe(StripeDisk::First),
    in_stripe(StripeDisk::Middle),
    in_stripe(StripeDisk::Last),
];

/// The middle disk has the data, another one the parity or what is read to compute it.
const fn in_stripe(disk: StripeDisk) -> Passing {
    Passing { disk, ..PASSING }
}

#[test]
fn what_a_stacked_device_passes_on_is_charged_to_who_submitted_or_dirtied_it() {
    for way in TELLING {
        for transfer in [Transfer::Read, Transfer::Write] {
            let passing = Passing { transfer, ..way };
            let written = u64::from(passing.bytes) * u64::from(transfer == Transfer::Write);
            assert_eq!(passed_on(OTHER, passing), [0, 0, 4096, 0, written, 0]);
        }
        assert_eq!(passed_on(FLUSHER, way), [0, 4096, 0, 0, 4096, 0]);
    }
}

/// The second copy leads to memory that has a new use.
#[test]
fn what_raid1_writes_behind_to_two_disks_is_charged_twice() {
    let passing = Passing {
        behind: true,
        twice: true,
        ..PASSING
    };
    assert_eq!(passed_on(OTHER, passing), [0, 0, 8192, 0, 8192, 0]);
    assert_eq!(passed_on(FLUSHER, passing), [0, 8192, 0, 0, 8192, 0]);
}

#[test]
fn what_a_stacked_device_passes_on_has_no_owner_if_nothing_leads_to_it() {
    let nobody = [0, 0, 0, 4096, 0, 0];
    assert_eq!(passed_on(OTHER, PASSING), nobody);
    for way in TELLING {
        let passing = Passing {
            reused: true,
            ..way
        };
        assert_eq!(passed_on(OTHER, passing), nobody);
    }
}

/// A worker of the kernel submits it later.
#[test]
fn what_a_limit_delays_is_charged_once_to_who_submitted_or_dirtied_it() {
    for transfer in [Transfer::Read, Transfer::Write] {
        let mut sim = writers(Trace::hog());
        sim.kernel().work(FLUSHER, false);
        sim.kernel().delay(OTHER, FLUSHER, page(0), transfer);
        assert_eq!(books(&mut sim)[..4], [0, 0, 4096, 0], "{transfer:?}");
    }
    // The flusher's, and those of a loop device, whose bytes have been paid for.
    for (local, charged) in [(false, [0, 4096, 0, 0]), (true, [0, 0, 0, 4096])] {
        let mut sim = beside_a_thread();
        sim.kernel().dirty(WRITER, page(0));
        sim.kernel().work(FLUSHER, local);
        sim.kernel().work(THREAD, false);
        sim.kernel()
            .delay(FLUSHER, THREAD, page(0), Transfer::Write);
        assert_eq!(books(&mut sim)[..4], charged, "loop: {local}");
    }
}

#[test]
fn a_task_that_has_the_id_of_a_dirtier_does_not_pay() {
    let mut sim = writers(Trace::hog());
    sim.kernel().dirty(WRITER, page(0));
    sim.kernel().reuse_id(WRITER);
    sim.kernel()
        .write_out(FLUSHER, page(0), Transfer::Write, 4096);
    assert_eq!(books(&mut sim), [0, 0, 0, 0, 0, 4096]);
}
