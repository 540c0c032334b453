// SPDX-License-Identifier: GPL-2.0-only
//! Requests that must not wait (`RWF_NOWAIT`), and would have to. They come again once they may, and
//! are charged then.

use drfq_sim::devices::{Page, Transfer, Way};
use drfq_sim::{Config, MS, Sim, TaskSpec, Trace};

const TASK: usize = 0;
const WORKER: usize = 1;

/// A task, and a kernel thread, each on a CPU.
fn beside_a_worker() -> Sim {
    let config = Config {
        checked: false,
        ..Config::new(2).memory(4_000_000_000)
    };
    let tasks = vec![
        TaskSpec::new("task", Trace::hog()),
        TaskSpec::new("worker", Trace::hog()).kthread(),
    ];
    let mut sim = Sim::new(config, tasks);
    sim.run_until(5 * MS);
    sim
}

/// What the task is charged for by `end_ms`; then the bytes of all requests, how many of them somebody
/// pays for, and the bytes for which nobody does.
fn books(sim: &mut Sim, end_ms: u64) -> [u64; 4] {
    let charged = sim.run_until(end_ms * MS).tasks[TASK].dma_bytes;
    let mut count = |name| sim.kernel().event_count(name);
    [
        charged,
        count("DMA_BYTES"),
        count("DMA_CHARGED"),
        count("DMA_UNATTRIBUTED_BYTES"),
    ]
}

#[test]
fn a_request_that_is_refused_is_not_charged() {
    let mut sim = beside_a_worker();
    for bytes in [8192, 4096] {
        sim.kernel().submit(0, bytes, Way::default());
        if bytes == 8192 {
            sim.kernel().refuse(0, bytes);
        }
    }
    assert_eq!(books(&mut sim, 30), [4096, 4096, 1, 0]);
}

/// A tick comes between the request and its end.
#[test]
fn what_was_charged_before_it_is_refused_pays_for_the_next_requests() {
    let mut sim = beside_a_worker();
    sim.kernel().submit(0, 8192, Way::default());
    assert_eq!(books(&mut sim, 30), [8192, 8192, 1, 0]);
    sim.kernel().refuse(0, 8192);
    assert_eq!(books(&mut sim, 60), [8192, 0, 0, 0]);
    for (requests, charged) in [(1, 8192), (2, 8192), (3, 12288)] {
        sim.kernel().submit(0, 4096, Way::default());
        assert_eq!(
            books(&mut sim, 60 + 30 * requests),
            [charged, requests * 4096, requests, 0]
        );
    }
}

/// A limit delays the request, and a kernel thread submits it for the task.
#[test]
fn a_request_that_is_refused_after_a_limit_is_charged_to_nobody() {
    for transfer in [Transfer::Read, Transfer::Write] {
        let mut sim = beside_a_worker();
        sim.kernel().work(WORKER, false);
        sim.kernel()
            .delay_and_refuse(TASK, WORKER, Page::default(), transfer);
        assert_eq!(books(&mut sim, 30), [0; 4], "{transfer:?}");
        assert_eq!(sim.kernel().event_count("DMA_WRITTEN_BACK_BYTES"), 0);
        sim.kernel().delay(TASK, WORKER, Page::default(), transfer);
        assert_eq!(books(&mut sim, 60), [4096, 4096, 1, 0], "{transfer:?}");
    }
}
