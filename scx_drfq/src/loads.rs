// SPDX-License-Identifier: GPL-2.0-only
//! Loads that move memory, one thread per CPU, and how fast they do.
//!
//! Each touches one word of every line, so a CPU's speed matters little. A line that is read costs
//! one line of traffic, one that is written two: it is fetched and written back.

use std::{
    hint, io, ptr,
    sync::{
        Barrier, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Words of 8 bytes in a line, which has 64 bytes on all machines that calibrate.
const LINE_WORDS: usize = 8;
const LINE_BYTES: u64 = 64;

/// Lines between two looks at whether the measurement has ended.
const STEP_LINES: usize = 512;

/// What a thread does with the lines of its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads them in order.
    Read,
    /// Writes them in order.
    Write,
    /// Reads one half and writes the other.
    Copy,
}

impl Op {
    /// Lines of traffic for each line that is visited; a copy visits pairs of lines.
    fn lines(self) -> u64 {
        match self {
            Self::Read => 1,
            Self::Write => 2,
            Self::Copy => 3,
        }
    }
}

/// What one run measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moved {
    /// Traffic of all threads (bytes per second).
    pub bytes_per_s: f64,
    /// The part of the time that the threads had their CPUs, 0 to 1.
    pub on_cpu: f64,
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Moves memory of so many bytes.
    Memory(Op, usize),
    /// Computes.
    Spin,
}

/// A thread of a run.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// What it does.
    pub work: Work,
    /// The CPU that it stays on.
    pub cpu: Option<u32>,
    /// Its nice value.
    pub nice: i32,
}

/// What a thread did while it was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Done {
    /// Its traffic (bytes).
    pub bytes: u64,
    /// Its CPU time.
    pub cpu: Duration,
}

/// Memory whose pages the running thread has touched.
struct Memory(Vec<u64>);

impl Memory {
    fn new(bytes: usize) -> Self {
        // A value other than 0, so that each page is touched.
        Self(vec![1; bytes / 8])
    }

    /// Visits at most `STEP_LINES` lines from `at` on, and moves it to where the next ones begin.
    /// Returns how many lines there were.
    fn visit(&mut self, op: Op, at: &mut usize) -> usize {
        let half = self.0.len() / 2;
        let end = match op {
            Op::Copy => half,
            Op::Read | Op::Write => self.0.len(),
        };
        let begin = *at;
        let stop = (begin + STEP_LINES * LINE_WORDS).min(end);
        for word in (begin..stop).step_by(LINE_WORDS) {
            let here = &mut self.0[word];
            match op {
                // SAFETY: a reference is valid and aligned.
                Op::Read => _ = unsafe { ptr::read_volatile(here) },
                // SAFETY: as above.
                Op::Write => unsafe { ptr::write_volatile(here, word as u64) },
                Op::Copy => {
                    // SAFETY: as above.
                    let value = unsafe { ptr::read_volatile(here) };
                    let there = &mut self.0[half + word];
                    // SAFETY: as above.
                    unsafe { ptr::write_volatile(there, value) };
                }
            }
        }
        *at = if stop == end { 0 } else { stop };
        (stop - begin).div_ceil(LINE_WORDS)
    }
}

/// Runs the calling thread on one CPU from now on.
fn pin(cpu: u32) -> io::Result<()> {
    // SAFETY: an empty set is all zeros; both calls get a valid set.
    let refused = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu as usize, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    succeeded(refused)
}

/// Whether a thread of this process may run on a CPU: no cpuset keeps it away.
pub fn may_use(cpu: u32) -> bool {
    thread::scope(|scope| scope.spawn(|| pin(cpu).is_ok()).join()).unwrap_or(false)
}

/// Sets the nice value of the calling thread.
fn renice(nice: i32) -> io::Result<()> {
    // SAFETY: the call has no preconditions. On Linux, 0 is the calling thread.
    succeeded(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) })
}

fn succeeded(status: libc::c_int) -> io::Result<()> {
    match status {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// CPU time of the calling thread.
fn cpu_time() -> Duration {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is valid; the clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// One thread's measurement.
#[derive(Default)]
struct Sum {
    lines: AtomicU64,
    cpu: Mutex<Duration>,
}

/// When the threads of a run count, and when they end.
#[derive(Default)]
struct Phase {
    counts: AtomicBool,
    stop: AtomicBool,
}

/// Runs `op` for `time`, the first fifth of which does not count. `threads`: the CPU of each, and
/// the bytes of its memory. `joined` is called by each thread before it touches its memory.
///
/// # Errors
/// A thread cannot run on its CPU, or cannot join.
pub fn run(
    op: Op,
    threads: &[(u32, usize)],
    time: Duration,
    joined: impl Fn() -> io::Result<()> + Sync,
) -> io::Result<Moved> {
    let pinned = threads.iter().map(|&(cpu, bytes)| Load {
        work: Work::Memory(op, bytes),
        cpu: Some(cpu),
        nice: 0,
    });
    let (done, counted) = race(&pinned.collect::<Vec<_>>(), time, joined, |_| ())?;
    let (seconds, threads) = (counted.as_secs_f64(), threads.len() as f64);
    let moved: u64 = done.iter().map(|one| one.bytes).sum();
    let cpu: Duration = done.iter().map(|one| one.cpu).sum();
    Ok(Moved {
        bytes_per_s: moved as f64 / seconds,
        on_cpu: (cpu.as_secs_f64() / seconds / threads).min(1.0),
    })
}

/// Into how many parts [`Moment::Between`] divides what is counted.
pub const PARTS: u32 = 30;

/// A moment of what is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The first one.
    Begin,
    /// Those between, [`PARTS`] - 1 at equal distances.
    Between,
    /// The last one.
    End,
}

/// Runs loads beside each other for `time`, the first fifth of which does not count. `joined` is
/// called by each thread before it works, `at` at each [`Moment`]. Returns what each load did in the
/// time that counted, and that time.
///
/// # Errors
/// A thread cannot run as it should, or cannot join.
pub fn race(
    loads: &[Load],
    time: Duration,
    joined: impl Fn() -> io::Result<()> + Sync,
    mut at: impl FnMut(Moment),
) -> io::Result<(Vec<Done>, Duration)> {
    let (phase, failed) = (Phase::default(), Mutex::new(None));
    let ready = Barrier::new(loads.len() + 1);
    let sums: Vec<Sum> = loads.iter().map(|_| Sum::default()).collect();
    let mut counted = Duration::ZERO;
    let mut lines = Vec::new();
    thread::scope(|scope| {
        for (load, sum) in loads.iter().zip(&sums) {
            let (ready, failed, phase, joined) = (&ready, &failed, &phase, &joined);
            scope.spawn(move || {
                let placed = load.cpu.map_or(Ok(()), pin);
                let prepared = placed.and_then(|()| renice(load.nice));
                if let Err(error) = prepared.and_then(|()| joined()) {
                    *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    ready.wait();
                    return;
                }
                match load.work {
                    Work::Memory(op, bytes) => {
                        let (mut memory, mut next) = (Memory::new(bytes), 0);
                        ready.wait();
                        work_until(phase, sum, || memory.visit(op, &mut next));
                    }
                    Work::Spin => {
                        ready.wait();
                        work_until(phase, sum, spin);
                    }
                }
            });
        }
        ready.wait();
        thread::sleep(time / 5);
        phase.counts.store(true, Ordering::Relaxed);
        at(Moment::Begin);
        let began = Instant::now();
        lines = count(&sums);
        wait(time - time / 5, &mut at);
        let now = count(&sums);
        lines
            .iter_mut()
            .zip(now)
            .for_each(|(was, is)| *was = is - *was);
        counted = began.elapsed();
        at(Moment::End);
        phase.stop.store(true, Ordering::Relaxed);
    });
    if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let done = loads.iter().zip(&sums).zip(lines);
    let done = done.map(|((load, sum), lines)| Done {
        bytes: match load.work {
            Work::Memory(op, _) => lines * op.lines() * LINE_BYTES,
            Work::Spin => 0,
        },
        cpu: *sum.cpu.lock().unwrap_or_else(PoisonError::into_inner),
    });
    Ok((done.collect(), counted))
}

/// Waits for `time`, and tells the moments between.
fn wait(time: Duration, at: &mut impl FnMut(Moment)) {
    for part in 1..=PARTS {
        thread::sleep(time / PARTS);
        if part < PARTS {
            at(Moment::Between);
        }
    }
}

/// Lines that each thread has visited so far.
fn count(sums: &[Sum]) -> Vec<u64> {
    let lines = sums.iter().map(|sum| sum.lines.load(Ordering::Relaxed));
    lines.collect()
}

/// Does steps until the end. Each tells the lines that it visited. CPU time is that since counting began.
fn work_until(phase: &Phase, sum: &Sum, mut step: impl FnMut() -> usize) {
    let (mut began, mut lines) = (None, 0);
    while !phase.stop.load(Ordering::Relaxed) {
        lines += step() as u64;
        sum.lines.store(lines, Ordering::Relaxed);
        if began.is_none() && phase.counts.load(Ordering::Relaxed) {
            began = Some(cpu_time());
        }
    }
    let used = began.map_or(Duration::ZERO, |began| cpu_time() - began);
    *sum.cpu.lock().unwrap_or_else(PoisonError::into_inner) = used;
}

/// Computes for some microseconds, and visits no line.
fn spin() -> usize {
    let mut value = 1u64;
    for _ in 0..STEP_LINES {
        value = hint::black_box(value.wrapping_mul(3));
    }
    0
}

/// Time of one read on `cpu` that waits for the one before (ns). `bytes`: of the memory.
///
/// # Errors
/// The thread cannot run on that CPU.
pub fn latency_ns(cpu: u32, bytes: usize, time: Duration) -> io::Result<f64> {
    thread::scope(|scope| {
        let measured = scope.spawn(|| -> io::Result<f64> {
            pin(cpu)?;
            let cycle = cycle(bytes / LINE_BYTES as usize);
            let (mut at, mut reads) = (0usize, 0u64);
            let began = Instant::now();
            while began.elapsed() < time {
                for _ in 0..STEP_LINES {
                    // SAFETY: every entry is the index of a line's first word.
                    at = unsafe { ptr::read_volatile(&raw const cycle[at]) } as usize;
                }
                reads += STEP_LINES as u64;
            }
            Ok(began.elapsed().as_secs_f64() * 1e9 / reads as f64)
        });
        let panicked = |_| io::Error::other("the measuring thread panicked");
        measured.join().map_err(panicked)?
    })
}

/// Lines in one random cycle: the first word of each is the index of the next one's (Sattolo).
fn cycle(lines: usize) -> Vec<u64> {
    let mut words = vec![0u64; lines * LINE_WORDS];
    let mut order: Vec<u64> = (0..lines as u64).collect();
    let mut random = 1u64;
    for last in (1..lines).rev() {
        // Knuth's MMIX generator.
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        order.swap(last, (random >> 33) as usize % last);
    }
    for (line, next) in order.iter().enumerate() {
        words[line * LINE_WORDS] = next * LINE_WORDS as u64;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_visits_every_line_once() {
        for lines in [1, 2, 3, 1000] {
            let words = cycle(lines);
            let (mut at, mut seen) = (0, vec![false; lines]);
            for _ in 0..lines {
                assert!(!std::mem::replace(&mut seen[at / LINE_WORDS], true));
                at = words[at] as usize;
            }
            assert_eq!(at, 0, "{lines}");
        }
    }

    #[test]
    fn a_visit_ends_at_the_last_line_and_begins_again() {
        let mut memory = Memory::new(64 * (STEP_LINES + 10));
        let mut at = 0;
        assert_eq!(memory.visit(Op::Write, &mut at), STEP_LINES);
        assert_eq!(at, STEP_LINES * LINE_WORDS);
        assert_eq!(memory.visit(Op::Write, &mut at), 10);
        assert_eq!(at, 0);
        let written = memory.0.iter().step_by(LINE_WORDS).enumerate();
        assert!(
            written
                .skip(1)
                .all(|(line, word)| *word == (line * LINE_WORDS) as u64)
        );
    }

    #[test]
    fn a_copy_writes_the_second_half_from_the_first() {
        let mut memory = Memory::new(64 * 8);
        for line in 0..4 {
            memory.0[line * LINE_WORDS] = 100 + line as u64;
        }
        let mut at = 0;
        assert_eq!((memory.visit(Op::Copy, &mut at), at), (4, 0));
        let copied: Vec<u64> = memory.0[32..].iter().step_by(LINE_WORDS).copied().collect();
        assert_eq!(copied, [100, 101, 102, 103]);
    }

    #[test]
    fn a_race_counts_what_each_load_does() {
        let load = |work| Load {
            work,
            cpu: None,
            nice: 0,
        };
        let loads = [load(Work::Spin), load(Work::Memory(Op::Copy, 1 << 16))];
        let mut moments = Vec::new();
        let time = Duration::from_millis(500);
        let (done, counted) = race(&loads, time, || Ok(()), |at| moments.push(at)).unwrap();
        let mut expected = [Moment::Between; PARTS as usize + 1];
        (expected[0], expected[PARTS as usize]) = (Moment::Begin, Moment::End);
        assert_eq!(moments, expected);
        assert!(counted >= time * 4 / 5, "{counted:?}");
        assert_eq!(done[0].bytes, 0);
        let step = STEP_LINES as u64 * 3 * LINE_BYTES;
        assert!(done[1].bytes > 0 && done[1].bytes % step == 0, "{done:?}");
        assert!(done.iter().all(|one| one.cpu > Duration::ZERO), "{done:?}");
    }

    #[test]
    fn threads_that_cannot_join_end_the_run() {
        let refused = || Err(io::Error::other("no"));
        let result = run(Op::Read, &[(0, 4096)], Duration::from_millis(1), refused);
        assert_eq!(result.unwrap_err().to_string(), "no");
    }
}
