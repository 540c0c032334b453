// SPDX-License-Identifier: GPL-2.0-only
//! What tasks do: literal and random traces.

use crate::cpuset::CpuSet;

/// A simulation of shorter steps takes long and shows nothing more.
const MIN_STEP_NS: u64 = 20_000;

/// One thing that a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Runs for `ns` of CPU time and asks the memory for `bytes_per_s` meanwhile.
    Run {
        /// CPU time, ns.
        ns: u64,
        /// Demand, bytes/s.
        bytes_per_s: u64,
    },
    /// Sleeps for `ns`; a device moves `dma_bytes` for it meanwhile.
    Sleep {
        /// Wall clock, ns.
        ns: u64,
        /// DMA traffic charged at the wake-up, bytes.
        dma_bytes: u64,
    },
    /// Calls `sched_yield()`.
    Yield,
    /// Changes its own affinity.
    Affinity(CpuSet),
    /// Creates the task of the given index among the specs, anew.
    Spawn(usize),
}

/// Steps in order; the task exits after the last one unless it repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The steps.
    pub steps: Vec<Step>,
    /// Whether they start over.
    pub repeat: bool,
}

impl Trace {
    /// Steps that start over for ever.
    ///
    /// # Panics
    /// If they take no time: the simulation could not go on.
    pub fn repeat(steps: impl Into<Vec<Step>>) -> Self {
        let steps = steps.into();
        let takes_time =
            |s: &Step| matches!(s, Step::Run { ns: 1.., .. } | Step::Sleep { ns: 1.., .. });
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

    /// Runs for ever and asks for `bytes_per_s`.
    pub fn memory_hog(bytes_per_s: u64) -> Self {
        Self::repeat([Step::Run {
            ns: u64::MAX / 4,
            bytes_per_s,
        }])
    }

    /// Runs for `run_ns`, sleeps for `sleep_ns`, and again.
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

    /// A random pattern of `steps` runs and sleeps, each of up to `max_run_ns`
    /// and `max_sleep_ns`; lengths are spread evenly over orders of magnitude, and
    /// 20 us or more.
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

/// A random number generator whose sequence never changes: SplitMix64 (Steele,
/// Lea and Flood, 2014).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The sequence of `seed`.
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

    /// Below `bound`, or 0 if that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// From `low` to `high`, both included.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// 1 to `max`, evenly over orders of magnitude.
    pub fn log_below(&mut self, max: u64) -> u64 {
        let bits = self.range(1, u64::from(64 - max.leading_zeros()));
        self.range(1, u64::MAX >> (64 - bits)).min(max)
    }
}
