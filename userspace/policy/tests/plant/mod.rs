// SPDX-License-Identifier: GPL-2.0-only
//! A model of memory and of its throttles, to try control laws on. Bandwidth is in
//! parts of m. It is no hardware evidence: it has no banks, no caches, no write
//! drain.

pub mod laws;

use drfq_policy::drf::filling::{Bounds, fill};

/// Resolution of the model (s), and its steps in a slot of 50 ms.
const TICK_S: f64 = 0.01;
const TICKS_PER_SLOT: usize = 5;
const SLOTS_PER_PERIOD: usize = 2;

/// Length of a period (s).
pub const PERIOD_S: f64 = 0.1;

/// The settings of a throttle.
pub const SETTINGS: [u32; 10] = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100];

/// What a level really does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Throttle {
    /// It leaves level / 100.
    Linear,
    /// No effect down to 60, and 28/102 at 10 (the MT2 paper, Figure 4).
    Mt2,
    /// As linear, but all levels from 65 to 94 act as 90.
    Plateau,
    /// What a level leaves beside full memory on the modelled machine `xeon`, in the record
    /// of copies of weight 3, 4, 5 and 6.
    Concave,
}

impl Throttle {
    pub fn fraction(self, setting: u32) -> f64 {
        let level = f64::from(setting);
        let low = 28.0 / 102.0;
        match self {
            Self::Mt2 => (low + (1.0 - low) * (level - 10.0) / 50.0).min(1.0),
            Self::Concave => {
                const KEPT: [f64; 10] = [0.41, 0.53, 0.66, 0.72, 0.82, 0.86, 0.90, 0.94, 0.97, 1.0];
                KEPT[(setting / 10 - 1).min(9) as usize]
            }
            Self::Plateau if (65..=94).contains(&setting) => 0.9,
            _ => level / 100.0,
        }
    }

    /// What a calibration measures.
    pub fn points(self) -> Vec<(u32, f64)> {
        SETTINGS.map(|s| (s, self.fraction(s))).to_vec()
    }
}

/// What the controller and the throttle make of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sharing {
    /// A full memory serves each in proportion to its throttled demand.
    Proportional,
    /// A throttle is a bound on the rate, without effect while contention is the
    /// closer bound.
    RateBound,
    /// Each request waits for the last one, and longer in a busy memory. A throttle adds to that
    /// wait. What a group wants is what it moves of 0.6 m alone.
    Latency,
}

/// How much memory a group wants.
#[derive(Clone, Copy, Debug)]
pub enum Want {
    /// Always the same part of m.
    Steady(f64),
    /// Each part of m in turn, for this time (s); this much later than the others (s).
    Phases([f64; 2], f64, f64),
    /// Like steady, but each request waits for the last, so that a busy memory slows
    /// it to a third.
    Chaser(f64),
    /// The first part of m, and the second in a period of each 2 s.
    Bursts(f64, f64),
}

/// A group and its weight.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub weight: f64,
    pub want: Want,
}

pub fn steady(weight: f64, part: f64) -> Load {
    let want = Want::Steady(part);
    Load { weight, want }
}

impl Want {
    fn at(self, at_s: f64, usage: f64) -> f64 {
        match self {
            Self::Steady(part) => part,
            Self::Phases(parts, length, offset) => {
                // Half a tick later, so that a boundary is not a matter of rounding.
                let phase = (at_s + 0.5 * TICK_S - offset).max(0.0) / length;
                parts[phase as usize % 2]
            }
            Self::Chaser(part) => part / (1.0 + 2.0 * usage.powi(4)),
            Self::Bursts(part, burst) if (at_s + 0.5 * TICK_S) % 2.0 >= PERIOD_S => part.min(burst),
            Self::Bursts(_, burst) => burst,
        }
    }
}

/// A machine and its loads.
#[derive(Clone, Debug)]
pub struct Plant {
    pub loads: Vec<Load>,
    pub throttle: Throttle,
    pub sharing: Sharing,
    /// Time until a written level has an effect (s).
    pub delay_s: f64,
    /// Standard deviation of a group's traffic over a period.
    pub noise: f64,
    /// The part of its traffic that one group loses at a time, because the agent has its
    /// CPU. Every period, the agent moves to another CPU with a probability of 1/5.
    pub visit: f64,
    pub seed: u64,
}

impl Plant {
    pub fn new(loads: &[Load]) -> Self {
        Self {
            loads: loads.to_vec(),
            throttle: Throttle::Linear,
            sharing: Sharing::Proportional,
            delay_s: 0.02,
            noise: 0.02,
            visit: 0.0,
            seed: 1,
        }
    }

    /// What the loads get at these settings, if the last usage was `usage`.
    pub fn serve(&self, at_s: f64, settings: &[u32], usage: f64) -> Vec<f64> {
        self.serve_beside(at_s, settings, usage, 0)
    }

    /// The same while the agent has the CPU of group `host`.
    fn serve_beside(&self, at_s: f64, settings: &[u32], usage: f64, host: usize) -> Vec<f64> {
        let mut wants: Vec<f64> = self.loads.iter().map(|l| l.want.at(at_s, usage)).collect();
        wants[host] *= 1.0 - self.visit;
        let kept = |i: usize| wants[i] * self.throttle.fraction(settings[i]);
        let throttled: Vec<f64> = (0..wants.len()).map(kept).collect();
        match self.sharing {
            Sharing::Proportional => {
                let sum: f64 = throttled.iter().sum();
                throttled.iter().map(|part| part / sum.max(1.0)).collect()
            }
            Sharing::RateBound => {
                let bounds = wants.iter().zip(&throttled).map(|(&want, &max)| Bounds {
                    weight: want.max(1e-9),
                    min: 0.0,
                    max,
                });
                fill(&bounds.collect::<Vec<_>>(), 1.0)
            }
            Sharing::Latency => {
                let kept = settings.iter().map(|&s| self.throttle.fraction(s));
                latency_bound(&wants, &kept.collect::<Vec<_>>())
            }
        }
    }

    /// The fair parts at this time, and whether each group wants more than that.
    pub fn fair(&self, at_s: f64) -> Vec<(f64, bool)> {
        let wants: Vec<f64> = self.loads.iter().map(|l| l.want.at(at_s, 1.0)).collect();
        let bounds = self.loads.iter().zip(&wants).map(|(load, &max)| Bounds {
            weight: load.weight,
            min: 0.0,
            max,
        });
        let parts = fill(&bounds.collect::<Vec<_>>(), 1.0);
        let unmet = |(part, want): (f64, f64)| (part, part < want * (1.0 - 1e-6));
        parts.into_iter().zip(wants).map(unmet).collect()
    }

    /// Runs `law` for `seconds`. Returns the traffic of each group in each period.
    pub fn run(&self, law: &mut dyn Law, seconds: f64) -> Vec<Vec<f64>> {
        let count = self.loads.len();
        let mut random = Random(self.seed);
        let delay = (self.delay_s / TICK_S).round() as usize;
        let mut written = vec![vec![100; count]; delay + 1];
        let mut slots = [vec![100; count], vec![100; count]];
        let (mut out, mut tick, mut usage) = (Vec::new(), 0, 0.0);
        let mut host = 0;
        for _ in 0..(seconds / PERIOD_S).round() as usize {
            if self.visit > 0.0 && random.uniform() < 0.2 {
                host = (random.uniform() * count as f64) as usize;
            }
            let mut moved = vec![0.0; count];
            for slot in &slots {
                for _ in 0..TICKS_PER_SLOT {
                    written.push(slot.clone());
                    let got =
                        self.serve_beside(tick as f64 * TICK_S, &written.remove(0), usage, host);
                    usage = got.iter().sum::<f64>().min(1.0);
                    let ticks = (TICKS_PER_SLOT * SLOTS_PER_PERIOD) as f64;
                    for (sum, part) in moved.iter_mut().zip(&got) {
                        *sum += part / ticks;
                    }
                    tick += 1;
                }
            }
            for sum in &mut moved {
                *sum *= (1.0 + self.noise * random.normal()).max(0.0);
            }
            slots = law.next(&moved);
            out.push(moved);
        }
        out
    }
}

/// What groups move whose requests wait for each other. `kept`: what their throttles leave.
fn latency_bound(wants: &[f64], kept: &[f64]) -> Vec<f64> {
    /// What a busy memory adds to a wait, and the usage that no load reaches.
    const SLOWER: f64 = 0.135;
    const MOST: f64 = 1.1;
    let at = |usage: f64| -> Vec<f64> {
        let wait = 1.0 + SLOWER * usage / (MOST - usage);
        let groups = wants.iter().zip(kept);
        groups
            .map(|(want, kept)| want / (wait + 1.0 / kept - 1.0))
            .collect()
    };
    // The more memory is in use, the less is moved: both are equal at one usage.
    let (mut low, mut high) = (0.0, MOST);
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if at(middle).iter().sum::<f64>() > middle {
            low = middle;
        } else {
            high = middle;
        }
    }
    at(low)
}

/// A control law: from the traffic of a period to the settings of the next slots.
pub trait Law {
    fn next(&mut self, moved: &[f64]) -> [Vec<u32>; 2];
}

/// Numbers that look random, the same in every run.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        // Knuth's MMIX generator.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Mean 0, deviation 1, by the sum of uniform numbers.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// How fair a run was.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// max / min - 1 of traffic per weight among groups with unmet demand, in windows
    /// of 1 s: the median and the worst.
    pub median: f64,
    pub worst: f64,
    /// Longest time from a change of demand to a spread below `SETTLED` for 0.5 s
    /// (s); infinite if it never was.
    pub settling_s: f64,
    /// The least part of its fair part that a satisfied group got, in windows of 1 s:
    /// the median of windows.
    pub satisfied: f64,
    /// Total traffic per second.
    pub total: f64,
}

/// A spread that counts as fair.
pub const SETTLED: f64 = 0.10;

impl Figures {
    /// Of a run that begins at time 0, without its first `skip_s` seconds, except for
    /// the settling time.
    pub fn of(plant: &Plant, periods: &[Vec<f64>], skip_s: f64) -> Self {
        let skip = (skip_s / PERIOD_S).round() as usize;
        let windows = (skip..periods.len()).step_by(10);
        let windows = windows.filter(|start| start + 10 <= periods.len());
        let (mut spreads, mut satisfied) = (Vec::new(), Vec::new());
        for start in windows {
            let fair = plant.fair(start as f64 * PERIOD_S);
            let moved = mean(&periods[start..start + 10]);
            spreads.extend(spread(plant, &fair, &moved));
            let parts = moved.iter().zip(&fair).filter(|(_, fair)| !fair.1);
            let worst = parts.map(|(moved, fair)| moved / fair.0.max(1e-9));
            satisfied.extend(worst.reduce(f64::min));
        }
        Self {
            median: median(&mut spreads),
            worst: spreads.iter().copied().fold(0.0, f64::max),
            settling_s: settling(plant, periods),
            satisfied: median(&mut satisfied),
            total: periods[skip..].iter().flatten().sum::<f64>() / (periods.len() - skip) as f64,
        }
    }
}

fn mean(periods: &[Vec<f64>]) -> Vec<f64> {
    let count = periods.len() as f64;
    let group = |i: usize| periods.iter().map(|period| period[i]).sum::<f64>() / count;
    (0..periods[0].len()).map(group).collect()
}

fn spread(plant: &Plant, fair: &[(f64, bool)], moved: &[f64]) -> Option<f64> {
    let groups = plant.loads.iter().zip(fair).zip(moved);
    let unmet = groups.filter(|((_, fair), _)| fair.1);
    let levels: Vec<f64> = unmet
        .map(|((load, _), moved)| moved / load.weight)
        .collect();
    let most = levels.iter().copied().fold(0.0, f64::max);
    let least = levels.iter().copied().fold(f64::INFINITY, f64::min);
    (levels.len() > 1).then_some(most / least.max(1e-9) - 1.0)
}

/// The middle value; 0 of nothing.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn settling(plant: &Plant, periods: &[Vec<f64>]) -> f64 {
    let fair = |period: usize| plant.fair(period as f64 * PERIOD_S);
    let changed = |&period: &usize| period == 0 || fair(period) != fair(period - 1);
    let changes: Vec<usize> = (0..periods.len()).filter(changed).collect();
    let mut longest = 0.0f64;
    for (index, &start) in changes.iter().enumerate() {
        let end = changes.get(index + 1).copied().unwrap_or(periods.len());
        let fair = fair(start);
        let good = |first: &usize| {
            let window = mean(&periods[*first..first + 5]);
            spread(plant, &fair, &window).is_none_or(|spread| spread < SETTLED)
        };
        let settled = (start..end.saturating_sub(4)).find(good);
        let time = settled.map_or(f64::INFINITY, |at| (at - start) as f64 * PERIOD_S);
        longest = longest.max(time);
    }
    longest
}
