// SPDX-License-Identifier: GPL-2.0-only
//! The steps that tasks take: given and random traces.

use serde::{Deserialize, Serialize};

use crate::cpuset::CpuSet;

/// The shortest random step. Shorter ones make a simulation slow and test nothing more.
const MIN_STEP_NS: u64 = 20_000;

/// One step of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Runs for `ns` of CPU time with a memory demand of `bytes_per_s`.
    Run {
        /// CPU time, ns.
        ns: u64,
        /// Demand, bytes/s.
        bytes_per_s: u64,
    },
    /// Sleeps for `ns`, while a device moves `dma_bytes` for the task.
    Sleep {
        /// Wall clock, ns.
        ns: u64,
        /// DMA traffic charged at the wake-up, bytes.
        dma_bytes: u64,
    },
    /// Sleeps until another task wakes it, but for at most `ns`.
    Wait {
        /// Wall clock, ns.
        ns: u64,
    },
    /// Wakes the tasks of a spec that wait.
    Wake {
        /// Index of the spec.
        spec: usize,
        /// Whether this task is about to block (`SCX_WAKE_SYNC`).
        sync: bool,
    },
    /// Calls `sched_yield()`.
    Yield,
    /// Changes its own affinity.
    Affinity(CpuSet),
    /// Forks a task with the spec of this index.
    Spawn(usize),
}

/// A sequence of steps. The task exits after the last one, unless the trace repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The steps.
    pub steps: Vec<Step>,
    /// Whether the steps repeat for ever.
    pub repeat: bool,
}

impl Trace {
    /// Steps that repeat for ever.
    ///
    /// # Panics
    /// If no step takes time, because the simulation would not advance.
    pub fn repeat(steps: impl Into<Vec<Step>>) -> Self {
        let steps = steps.into();
        let takes_time = |s: &Step| {
            matches!(
                s,
                Step::Run { ns: 1.., .. } | Step::Sleep { ns: 1.., .. } | Step::Wait { ns: 1.. }
            )
        };
        assert!(steps.iter().any(takes_time), "a repeated trace takes time");
        Self {
            steps,
            repeat: true,
        }
    }

    /// Steps that end with the task's exit.
    pub fn once(steps: impl Into<Vec<Step>>) -> Self {
        Self {
            steps: steps.into(),
            repeat: false,
        }
    }

    /// Runs for ever, without memory traffic.
    pub fn hog() -> Self {
        Self::memory_hog(0)
    }

    /// Runs for ever with a memory demand of `bytes_per_s`.
    pub fn memory_hog(bytes_per_s: u64) -> Self {
        Self::repeat([Step::Run {
            ns: u64::MAX / 4,
            bytes_per_s,
        }])
    }

    /// Runs for `run_ns`, then sleeps for `sleep_ns`, for ever.
    pub fn sleeper(run_ns: u64, sleep_ns: u64) -> Self {
        Self::repeat([
            Step::Run {
                ns: run_ns,
                bytes_per_s: 0,
            },
            Step::Sleep {
                ns: sleep_ns,
                dma_bytes: 0,
            },
        ])
    }

    /// `steps` pairs of a random run and a random sleep, of at most about `max_run_ns` and
    /// `max_sleep_ns`. Lengths are at least 20 us, and spread evenly over orders of magnitude.
    pub fn random_sleeper(rng: &mut Rng, steps: usize, max_run_ns: u64, max_sleep_ns: u64) -> Self {
        let pairs = (0..steps.max(1)).flat_map(|_| {
            [
                Step::Run {
                    ns: MIN_STEP_NS + rng.log_below(max_run_ns),
                    bytes_per_s: 0,
                },
                Step::Sleep {
                    ns: MIN_STEP_NS + rng.log_below(max_sleep_ns),
                    dma_bytes: 0,
                },
            ]
        });
        Self::repeat(pairs.collect::<Vec<_>>())
    }
}

/// A random number generator with a fixed sequence per seed: SplitMix64 (Steele, Lea and Flood,
/// "Fast Splittable Pseudorandom Number Generators", 2014).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Starts the sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// A number from 1 to `max`, spread evenly over orders of magnitude.
    pub fn log_below(&mut self, max: u64) -> u64 {
        let bits = self.range(1, u64::from(64 - max.leading_zeros()));
        self.range(1, u64::MAX >> (64 - bits)).min(max)
    }
}
