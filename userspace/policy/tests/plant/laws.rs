// SPDX-License-Identifier: GPL-2.0-only
//! The policy and what it is compared with.

use drfq_policy::drf::{Domain, Group, Plan, Snapshot, State, curve::Curve, plan};

use super::{Law, PERIOD_S, Plant, SETTINGS, median};

/// The policy `drf`.
pub struct Drf {
    pub snapshot: Snapshot,
    pub state: State,
    pub plan: Plan,
    /// Whether the throttle tells what it withholds, as paces do.
    pub tells: bool,
}

impl Drf {
    /// `curve`: what the policy believes. `classes`: besides the unthrottled one.
    pub fn new(plant: &Plant, curve: Curve, classes: usize) -> Self {
        let groups = plant.loads.iter().enumerate().map(|(id, load)| Group {
            id: id as u64,
            weight: load.weight,
            min: 0.0,
            max: f64::INFINITY,
            bytes_per_s: vec![0.0],
        });
        let snapshot = Snapshot {
            period_s: PERIOD_S,
            cpus: plant.loads.len() as f64,
            runnable: plant.loads.len() as f64,
            curve: Some(curve),
            classes,
            domains: vec![Domain {
                capacity: Some(1.0),
                ..Domain::default()
            }],
            groups: groups.collect(),
        };
        Self {
            snapshot,
            state: State::default(),
            plan: Plan::default(),
            tells: false,
        }
    }

    /// With a linear curve and enough classes.
    pub fn plain(plant: &Plant) -> Self {
        Self::new(plant, Curve::linear(10, 10, 100), plant.loads.len())
    }

    /// With what a calibration of this plant measures.
    pub fn calibrated(plant: &Plant) -> Self {
        let curve = Curve::new(&plant.throttle.points(), 100);
        Self::new(plant, curve, plant.loads.len())
    }
}

impl Law for Drf {
    fn next(&mut self, moved: &[f64]) -> [Vec<u32>; 2] {
        for (group, &moved) in self.snapshot.groups.iter_mut().zip(moved) {
            group.bytes_per_s = vec![moved];
        }
        self.snapshot.domains[0].bytes_per_s = moved.iter().sum();
        if self.tells {
            let kept = self.plan.groups.iter().map(|group| group.fractions[0]);
            let withheld = kept.zip(moved).map(|(kept, moved)| moved / kept - moved);
            self.snapshot.domains[0].withheld = withheld.sum();
        }
        (self.plan, self.state) = plan(&self.snapshot, &self.state);
        let mut slots = [vec![100; moved.len()], vec![100; moved.len()]];
        for class in &self.plan.classes {
            for &id in &class.groups {
                for (slot, settings) in slots.iter_mut().zip(&class.slots) {
                    slot[id as usize] = settings[0];
                }
            }
        }
        slots
    }
}

/// The same settings all the time.
pub struct Static(pub Vec<u32>);

impl Static {
    pub fn unmanaged(plant: &Plant) -> Self {
        Self(vec![100; plant.loads.len()])
    }

    /// The settings with the least median spread over the first 12 s without noise;
    /// among equals, those that move the most.
    pub fn best(plant: &Plant) -> Self {
        let count = plant.loads.len();
        let mut best = (f64::INFINITY, vec![100; count]);
        for number in 0..SETTINGS.len().pow(count as u32) {
            let digit = |i: usize| number / SETTINGS.len().pow(i as u32) % SETTINGS.len();
            let settings: Vec<u32> = (0..count).map(|i| SETTINGS[digit(i)]).collect();
            let cost = cost(plant, &settings);
            if cost < best.0 {
                best = (cost, settings);
            }
        }
        Self(best.1)
    }
}

fn cost(plant: &Plant, settings: &[u32]) -> f64 {
    let (mut spreads, mut total) = (Vec::new(), 0.0);
    for second in 0..12 {
        let got = plant.serve(f64::from(second), settings, 1.0);
        total += got.iter().sum::<f64>();
        let fair = plant.fair(f64::from(second));
        spreads.extend(super::spread(plant, &fair, &got));
    }
    median(&mut spreads) - 1e-3 * total
}

impl Law for Static {
    fn next(&mut self, _: &[f64]) -> [Vec<u32>; 2] {
        [self.0.clone(), self.0.clone()]
    }
}

/// A law that holds each group to a target which it is told: the fair part.
fn targets(plant: &Plant, at_s: f64) -> Vec<f64> {
    plant.fair(at_s).into_iter().map(|fair| fair.0).collect()
}

/// The kernel's `mba_MBps`: each second a step down above the target, and a step up
/// if the traffic would then stay below it (update_mba_bw in the kernel's monitor.c).
pub struct MbaMbps {
    plant: Plant,
    settings: Vec<u32>,
    moved: Vec<f64>,
    periods: usize,
}

impl MbaMbps {
    pub fn new(plant: &Plant) -> Self {
        Self {
            settings: vec![100; plant.loads.len()],
            moved: vec![0.0; plant.loads.len()],
            plant: plant.clone(),
            periods: 0,
        }
    }
}

impl Law for MbaMbps {
    fn next(&mut self, moved: &[f64]) -> [Vec<u32>; 2] {
        for (sum, moved) in self.moved.iter_mut().zip(moved) {
            *sum += moved / 10.0;
        }
        self.periods += 1;
        if self.periods.is_multiple_of(10) {
            let targets = targets(&self.plant, (self.periods - 10) as f64 * PERIOD_S);
            for ((setting, moved), target) in
                self.settings.iter_mut().zip(&mut self.moved).zip(targets)
            {
                let current = f64::from(*setting);
                if *setting > 10 && *moved > target {
                    *setting -= 10;
                } else if *setting < 100 && *moved * (current + 10.0) / current < target {
                    *setting += 10;
                }
                *moved = 0.0;
            }
        }
        [self.settings.clone(), self.settings.clone()]
    }
}

/// Proportional control towards the fair part: level += kp x error, kp = 0.1 of a
/// full scale per target.
pub struct Proportional {
    plant: Plant,
    levels: Vec<f64>,
    periods: usize,
}

impl Proportional {
    pub fn new(plant: &Plant) -> Self {
        Self {
            levels: vec![100.0; plant.loads.len()],
            plant: plant.clone(),
            periods: 0,
        }
    }
}

impl Law for Proportional {
    fn next(&mut self, moved: &[f64]) -> [Vec<u32>; 2] {
        let targets = targets(&self.plant, self.periods as f64 * PERIOD_S);
        self.periods += 1;
        for ((level, moved), target) in self.levels.iter_mut().zip(moved).zip(targets) {
            let error = (target - moved) / target.max(1e-9);
            *level = (*level + 0.1 * 100.0 * error).clamp(10.0, 100.0);
        }
        let settings: Vec<u32> = self.levels.iter().map(|l| round(*l)).collect();
        [settings.clone(), settings]
    }
}

fn round(level: f64) -> u32 {
    (level / 10.0).round().clamp(1.0, 10.0) as u32 * 10
}

/// Accumulates what each group moved beyond its weighted share of all; a notch of
/// 10 % down if it is ahead, and up if it is behind. If memory is not full, all go
/// up, and a group behind at 100 % is no longer compared.
pub struct Notches {
    weights: Vec<f64>,
    ahead: Vec<f64>,
    settings: Vec<u32>,
}

impl Notches {
    pub fn new(plant: &Plant) -> Self {
        Self {
            weights: plant.loads.iter().map(|load| load.weight).collect(),
            ahead: vec![0.0; plant.loads.len()],
            settings: vec![100; plant.loads.len()],
        }
    }
}

impl Law for Notches {
    fn next(&mut self, moved: &[f64]) -> [Vec<u32>; 2] {
        let full = moved.iter().sum::<f64>() >= 0.95;
        let count = moved.len();
        let compared = |i: &usize| full || self.settings[*i] < 100 || self.ahead[*i] >= 0.0;
        let set: Vec<usize> = (0..count).filter(compared).collect();
        let bytes: f64 = set.iter().map(|&i| moved[i]).sum();
        let weights: f64 = set.iter().map(|&i| self.weights[i]).sum();
        let share = bytes / weights.max(1e-9);
        for (i, &bytes) in moved.iter().enumerate() {
            if !set.contains(&i) {
                self.ahead[i] = 0.0;
                continue;
            }
            // At most 100 ms of the whole memory.
            let bound = self.weights[i];
            let ahead = self.ahead[i] + bytes - self.weights[i] * share;
            self.ahead[i] = ahead.clamp(-bound, bound);
            let down = full && self.ahead[i] > 0.0;
            self.settings[i] = match down {
                true => self.settings[i].saturating_sub(10).max(10),
                false => (self.settings[i] + 10).min(100),
            };
        }
        [self.settings.clone(), self.settings.clone()]
    }
}
