// SPDX-License-Identifier: GPL-2.0-only
//! What happens when: the kernel's scheduler, then scx_drfq, then what the user likes.

use crate::{
    figures::{Figures, figures},
    sample::{Order, Sample, Scheduler},
    words::name,
};

/// Before a stretch is measured, its loads settle for so long (ns).
const SETTLE_NS: u64 = 2_000_000_000;

/// Samples that are kept, five minutes.
const KEPT: usize = 600;

/// Samples that the present is made of.
const NOW: usize = 5;

/// A part of the demonstration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// No sample has come.
    Boot,
    /// The loads settle under a scheduler.
    Settle(Scheduler),
    /// They are measured.
    Measure(Scheduler),
    /// scx_drfq is being loaded.
    Load,
    /// Both have been measured.
    Free,
}

/// The demonstration so far.
pub struct Script {
    /// The present part.
    pub stage: Stage,
    /// The last samples, oldest first.
    pub samples: Vec<Sample>,
    /// What was measured under each scheduler.
    pub eevdf: Option<Figures>,
    /// Under scx_drfq.
    pub drfq: Option<Figures>,
    length_ns: u64,
    began_ns: u64,
    measured: Vec<Sample>,
}

impl Script {
    /// A demonstration that measures each scheduler for so many seconds.
    pub fn new(seconds: u64) -> Self {
        Self {
            stage: Stage::Boot,
            samples: Vec::new(),
            eevdf: None,
            drfq: None,
            length_ns: seconds * 1_000_000_000,
            began_ns: 0,
            measured: Vec::new(),
        }
    }

    /// Takes the next sample. Returns what the guest shall do.
    pub fn push(&mut self, sample: Sample) -> Option<Order> {
        let passed_ns = sample.at_ns.saturating_sub(self.began_ns);
        let order = match self.stage {
            Stage::Boot => self.enter(Stage::Settle(Scheduler::Eevdf), &sample),
            Stage::Settle(scheduler) if passed_ns >= SETTLE_NS => {
                self.enter(Stage::Measure(scheduler), &sample)
            }
            Stage::Measure(scheduler) => {
                self.measured.push(sample.clone());
                if passed_ns < self.length_ns {
                    None
                } else {
                    self.end_measure(scheduler, &sample)
                }
            }
            Stage::Load if sample.scheduler == Scheduler::Drfq => {
                self.enter(Stage::Settle(Scheduler::Drfq), &sample)
            }
            Stage::Settle(_) | Stage::Load | Stage::Free => None,
        };
        if self.samples.len() == KEPT {
            self.samples.remove(0);
        }
        self.samples.push(sample);
        order
    }

    /// Why both schedulers cannot be compared any more; none while this sample is as it should be.
    /// Once both are measured, the user may run what they like.
    pub fn failure(&self, sample: &Sample) -> Option<String> {
        let measured = match self.stage {
            Stage::Boot | Stage::Free => return None,
            Stage::Load => sample.scheduler,
            Stage::Settle(scheduler) | Stage::Measure(scheduler) => scheduler,
        };
        let other = (sample.scheduler != measured).then(|| {
            let (now, wanted) = (name(sample.scheduler), name(measured));
            format!("{now} runs where {wanted} was to be measured")
        });
        sample.message.clone().or(other)
    }

    fn enter(&mut self, stage: Stage, sample: &Sample) -> Option<Order> {
        self.stage = stage;
        self.began_ns = sample.at_ns;
        self.measured = vec![sample.clone()];
        None
    }

    fn end_measure(&mut self, scheduler: Scheduler, sample: &Sample) -> Option<Order> {
        let measured = figures(&self.measured);
        match scheduler {
            Scheduler::Eevdf => {
                self.eevdf = measured;
                self.enter(Stage::Load, sample);
                Some(Order::Load)
            }
            Scheduler::Drfq => {
                self.drfq = measured;
                self.enter(Stage::Free, sample)
            }
        }
    }

    /// Seconds of the present part, and its length if it has one.
    pub fn progress(&self) -> (f64, Option<f64>) {
        let at_ns = self.samples.last().map_or(0, |sample| sample.at_ns);
        let passed = at_ns.saturating_sub(self.began_ns) as f64 / 1e9;
        let length = match self.stage {
            Stage::Measure(_) => Some(self.length_ns as f64 / 1e9),
            Stage::Settle(_) => Some(SETTLE_NS as f64 / 1e9),
            _ => None,
        };
        (passed, length)
    }

    /// The last seconds.
    pub fn now(&self) -> Option<Figures> {
        figures(&self.samples[self.samples.len().saturating_sub(NOW)..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(half_seconds: u64, scheduler: Scheduler) -> Sample {
        Sample {
            at_ns: half_seconds * 500_000_000,
            scheduler,
            latencies_us: vec![half_seconds],
            ..Sample::default()
        }
    }

    #[test]
    fn each_scheduler_is_measured_for_its_seconds_after_its_loads_have_settled() {
        let mut script = Script::new(10);
        let mut at = 0;
        let mut order = None;
        while order.is_none() {
            order = script.push(sample(at, Scheduler::Eevdf));
            at += 1;
        }
        assert_eq!((order, at), (Some(Order::Load), 1 + 4 + 20));
        assert_eq!(script.eevdf.unwrap().seconds, 10.0);
        assert_eq!(script.eevdf.unwrap().requests, 20);
        // Loading takes some time.
        for _ in 0..3 {
            assert_eq!(script.push(sample(at, Scheduler::Eevdf)), None);
            assert_eq!(script.stage, Stage::Load);
            at += 1;
        }
        while script.stage != Stage::Free {
            assert_eq!(script.push(sample(at, Scheduler::Drfq)), None);
            at += 1;
        }
        assert_eq!(at, 25 + 3 + 1 + 4 + 20);
        assert_eq!(script.drfq.unwrap().seconds, 10.0);
        assert_eq!(script.now().unwrap().seconds, 2.0);
    }

    #[test]
    fn another_scheduler_than_the_measured_one_is_a_failure_until_both_are_measured() {
        let mut script = Script::new(1);
        let [eevdf, drfq] = [Scheduler::Eevdf, Scheduler::Drfq].map(|which| sample(0, which));
        let mut failures = |stage| {
            script.stage = stage;
            [&eevdf, &drfq].map(|sample| script.failure(sample).is_some())
        };
        for (stage, expected) in [
            (Stage::Boot, [false, false]),
            (Stage::Settle(Scheduler::Eevdf), [false, true]),
            (Stage::Measure(Scheduler::Eevdf), [false, true]),
            (Stage::Load, [false, false]),
            (Stage::Settle(Scheduler::Drfq), [true, false]),
            (Stage::Measure(Scheduler::Drfq), [true, false]),
            (Stage::Free, [false, false]),
        ] {
            assert_eq!(failures(stage), expected, "{stage:?}");
        }
    }
}
