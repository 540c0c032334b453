// SPDX-License-Identifier: GPL-2.0-only
//! The ideal fair allocation of CPU time and memory bandwidth: weighted
//! dominant resource fairness by progressive filling (Ghodsi et al., "Dominant
//! Resource Fairness", section 4). Without memory traffic, or without a known
//! bandwidth, it is weighted max-min fairness of CPU time by water-filling.
//!
//! It is a floating-point reference for displays and tests. The scheduler itself
//! does not compute it.

/// What a task claims over an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// w, positive; 1 is nice 0.
    pub weight: f64,
    /// CPU time that it could use (CPUs); of a task at most 1, as it runs on one CPU at a time.
    pub cpus: f64,
    /// Memory traffic while it runs (bytes per second of CPU time).
    pub bytes_per_s: f64,
}

/// The capacity of the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// c: CPUs.
    pub cpus: f64,
    /// m: memory bandwidth (bytes per second); none if unknown, so it is not shared.
    pub bytes_per_s: Option<f64>,
}

impl Capacity {
    /// The dominant share, 0 to 1 of the machine, of a task that uses `cpus` CPUs
    /// and moves `bytes_per_s`.
    pub fn dominant_share(&self, cpus: f64, bytes_per_s: f64) -> f64 {
        let memory = self
            .bytes_per_s
            .map_or(0.0, |capacity| bytes_per_s / capacity);
        (cpus / self.cpus).max(memory)
    }
}

/// The CPUs that each claim gets in the fair allocation, 0 to those that it could use.
///
/// The level, which is the dominant share at weight 1, rises for all tasks together.
/// A task stops at its demand. When a resource is full, all its users stop. The tasks are sorted by
/// the level of their demand, so n tasks take n log n steps.
///
/// Values beyond their range count as the nearest in it; those that are no numbers, as 0.
pub fn fair_cpus(claims: &[Claim], capacity: Capacity) -> Vec<f64> {
    let claims: Vec<Claim> = claims.iter().map(Claim::usable).collect();
    let capacity = capacity.usable();
    let users = users(&claims, capacity);
    let mut filling = Filling::new(&users, capacity);
    let mut got = vec![0.0; claims.len()];
    for (i, user) in users.iter().enumerate() {
        let level = filling.raise(i, user);
        got[user.claim] = (level * user.rate).clamp(0.0, claims[user.claim].cpus);
    }
    got
}

/// A number that may be computed with, from 0 to `most`.
fn usable(value: f64, most: f64) -> f64 {
    if value.is_nan() {
        0.0
    } else {
        value.clamp(0.0, most)
    }
}

/// More than any machine has or moves, so that sums stay finite.
const MOST: f64 = 1e18;

impl Claim {
    fn usable(&self) -> Self {
        Self {
            weight: usable(self.weight, 1e6),
            cpus: usable(self.cpus, MOST),
            bytes_per_s: usable(self.bytes_per_s, MOST),
        }
    }
}

impl Capacity {
    fn usable(&self) -> Self {
        let bytes = self.bytes_per_s.map(|bytes| usable(bytes, MOST));
        Self {
            cpus: usable(self.cpus, MOST),
            bytes_per_s: bytes.filter(|&known| known >= 1.0),
        }
    }
}

/// A resource with less than this part left counts as full.
const NOTHING: f64 = 1e-12;

/// A task whose CPUs rise more slowly with the level gets none, so that levels stay finite.
const SLOWEST: f64 = 1e-30;

/// A task whose part rises with the level.
struct User {
    /// Its number.
    claim: usize,
    /// CPUs, and part of the bandwidth, for each unit of the level.
    rate: f64,
    memory_rate: f64,
    /// The level that meets its demand.
    end: f64,
}

/// Those who get something, in the order in which their demands are met.
fn users(claims: &[Claim], capacity: Capacity) -> Vec<User> {
    let user = |(claim, c): (usize, &Claim)| {
        let rate = c.weight / capacity.dominant_share(1.0, c.bytes_per_s);
        let memory = capacity.bytes_per_s.map_or(0.0, |m| c.bytes_per_s / m);
        (c.cpus > 0.0 && rate > SLOWEST).then(|| User {
            claim,
            rate,
            memory_rate: rate * memory,
            end: c.cpus / rate,
        })
    };
    let mut users: Vec<User> = claims.iter().enumerate().filter_map(user).collect();
    users.sort_by(|a, b| a.end.total_cmp(&b.end));
    users
}

/// What users take together for each unit of the level.
#[derive(Clone, Copy, Default)]
struct Rates {
    cpus: f64,
    memory: f64,
    /// The part of `cpus` of those who use no memory.
    cpus_without_memory: f64,
}

struct Filling {
    level: f64,
    /// The level at which the CPUs, and the memory, were full; none: they are not.
    cpus_full: Option<f64>,
    memory_full: Option<f64>,
    cpus_left: f64,
    /// Part of the bandwidth that is left.
    memory_left: f64,
    /// The rates of each user and of all after it: sums, so that nothing is lost in differences.
    rates: Vec<Rates>,
}

impl Filling {
    fn new(users: &[User], capacity: Capacity) -> Self {
        let mut rates = vec![Rates::default(); users.len()];
        let mut sum = Rates::default();
        for (rates, user) in rates.iter_mut().zip(users).rev() {
            sum.cpus += user.rate;
            sum.memory += user.memory_rate;
            if user.memory_rate == 0.0 {
                sum.cpus_without_memory += user.rate;
            }
            *rates = sum;
        }
        Self {
            level: 0.0,
            cpus_full: None,
            memory_full: None,
            cpus_left: capacity.cpus,
            memory_left: 1.0,
            rates,
        }
    }

    /// Raises the level until the demand of the next user, number `i`, is met or it must stop.
    /// Returns its level.
    fn raise(&mut self, i: usize, user: &User) -> f64 {
        loop {
            let stopped = self.memory_full.filter(|_| user.memory_rate > 0.0);
            if let Some(level) = stopped.or(self.cpus_full) {
                return level;
            }
            let (cpu_rate, memory_rate) = match self.memory_full {
                None => (self.rates[i].cpus, self.rates[i].memory),
                Some(_) => (self.rates[i].cpus_without_memory, 0.0),
            };
            let to_cpus = self.cpus_left / cpu_rate;
            let to_memory = match memory_rate > 0.0 {
                true => self.memory_left / memory_rate,
                false => f64::INFINITY,
            };
            let rise = (user.end - self.level).min(to_cpus).min(to_memory).max(0.0);
            self.level += rise;
            self.cpus_left -= rise * cpu_rate;
            self.memory_left -= rise * memory_rate;
            if self.cpus_left <= NOTHING {
                self.cpus_full = Some(self.level);
            } else if memory_rate > 0.0 && self.memory_left <= NOTHING {
                self.memory_full = Some(self.level);
            } else {
                return user.end;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hog(weight: f64) -> Claim {
        Claim {
            weight,
            cpus: 1.0,
            bytes_per_s: 0.0,
        }
    }

    fn cpus(cpus: f64) -> Capacity {
        Capacity {
            cpus,
            bytes_per_s: None,
        }
    }

    #[track_caller]
    fn assert_shares(claims: &[Claim], capacity: Capacity, expected: &[f64]) {
        let got = fair_cpus(claims, capacity);
        for (got, expected) in got.iter().zip(expected) {
            assert!((got - expected).abs() < 1e-9, "{got} is not {expected}");
        }
    }

    #[test]
    fn cpu_time_is_divided_by_weight() {
        assert_shares(&[hog(1.0), hog(1.0), hog(1.0)], cpus(2.0), &[2.0 / 3.0; 3]);
        assert_shares(
            &[hog(1.0), hog(2.0), hog(3.0)],
            cpus(1.0),
            &[1.0 / 6.0, 1.0 / 3.0, 0.5],
        );
        assert_shares(&vec![hog(1.0); 12], cpus(4.0), &[1.0 / 3.0; 12]);
        assert_shares(&[], cpus(4.0), &[]);
    }

    #[test]
    fn no_task_gets_more_than_one_cpu() {
        // 1:3 on two CPUs: the heavy one is full, the light one gets the rest.
        assert_shares(&[hog(1.0), hog(3.0)], cpus(2.0), &[1.0, 1.0]);
        assert_shares(
            &[hog(1.0), hog(1.0), hog(10.0)],
            cpus(2.0),
            &[0.5, 0.5, 1.0],
        );
    }

    #[test]
    fn values_beyond_their_range_give_no_claim_more_than_it_could_use() {
        for odd in [
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            1e300,
            1e-300,
            -1.0,
            3.2,
        ] {
            for part in 0..3 {
                let mut claim = hog(1.0);
                match part {
                    0 => claim.weight = odd,
                    1 => claim.cpus = odd,
                    _ => claim.bytes_per_s = odd,
                }
                for capacity in [1.0, 8.0, odd] {
                    let capacity = Capacity {
                        cpus: capacity,
                        bytes_per_s: Some(capacity),
                    };
                    let got = fair_cpus(&[claim, hog(1.0)], capacity);
                    assert!((0.0..=claim.cpus.max(0.0)).contains(&got[0]), "{got:?}");
                    assert!((0.0..=1.0).contains(&got[1]), "{got:?}");
                }
            }
        }
    }

    #[test]
    fn time_that_a_sleeping_task_leaves_is_shared() {
        let sleeper = Claim {
            cpus: 0.1,
            ..hog(1.0)
        };
        let idle = Claim {
            cpus: 0.0,
            ..hog(5.0)
        };
        assert_shares(
            &[sleeper, hog(1.0), hog(1.0), idle],
            cpus(1.0),
            &[0.1, 0.45, 0.45, 0.0],
        );
    }

    #[test]
    fn dominant_shares_are_equal_under_contention() {
        // The example of the DRF paper, scaled here to tasks. There <1 CPU, 4 GB>
        // and <3 CPU, 1 GB> of <9 CPU, 18 GB> give dominant shares of 2/3.
        let memory = Claim {
            weight: 1.0,
            cpus: 100.0,
            bytes_per_s: 4.0,
        };
        let cpu = Claim {
            weight: 1.0,
            cpus: 100.0,
            bytes_per_s: 1.0 / 3.0,
        };
        let capacity = Capacity {
            cpus: 9.0,
            bytes_per_s: Some(18.0),
        };
        assert_shares(&[memory, cpu], capacity, &[3.0, 6.0]);
        assert!((capacity.dominant_share(3.0, 12.0) - 2.0 / 3.0).abs() < 1e-9);
        assert!((capacity.dominant_share(6.0, 2.0) - 2.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn full_memory_does_not_stop_tasks_without_traffic() {
        let stream = Claim {
            weight: 1.0,
            cpus: 1.0,
            bytes_per_s: 10.0,
        };
        let capacity = Capacity {
            cpus: 2.0,
            bytes_per_s: Some(5.0),
        };
        assert_shares(&[stream, hog(1.0)], capacity, &[0.5, 1.0]);
    }

    /// Each wants a little more than the one before.
    #[test]
    fn ten_thousand_different_demands_are_met() {
        let nr = 10_000;
        let part = |i: usize| (i + 1) as f64 / nr as f64;
        let claims: Vec<_> = (0..nr)
            .map(|i| Claim {
                cpus: part(i),
                ..hog(1.0)
            })
            .collect();
        let all: Vec<f64> = (0..nr).map(part).collect();
        assert_shares(&claims, cpus(2.0 * nr as f64), &all);
        // Half of the CPUs: those who want more than the level share what the others leave.
        let got = fair_cpus(&claims, cpus(nr as f64 / 4.0));
        let sum: f64 = got.iter().sum();
        assert!((sum - nr as f64 / 4.0).abs() < 1e-6, "{sum}");
    }

    fn claims() -> impl Strategy<Value = Vec<Claim>> {
        let claim = (
            0.01f64..90.0,
            0.0f64..1.0,
            prop_oneof![Just(0.0), 1e6..1e10],
        );
        let claim = claim.prop_map(|(weight, cpus, bytes_per_s)| Claim {
            weight,
            cpus,
            bytes_per_s,
        });
        prop::collection::vec(claim, 0..40)
    }

    proptest! {
        #[test]
        fn no_resource_is_overcommitted_or_wasted(
            claims in claims(), cpus in 1u32..64, bytes in 1e8f64..1e11,
        ) {
            let capacity = Capacity { cpus: cpus.into(), bytes_per_s: Some(bytes) };
            let got = fair_cpus(&claims, capacity);
            let used: f64 = got.iter().sum();
            let traffic: f64 = got.iter().zip(&claims).map(|(g, c)| g * c.bytes_per_s).sum();
            prop_assert!(used <= capacity.cpus * (1.0 + 1e-9));
            prop_assert!(traffic <= bytes * (1.0 + 1e-9));
            let cpus_full = used >= capacity.cpus * (1.0 - 1e-9);
            let memory_full = traffic >= bytes * (1.0 - 1e-9);
            for (got, claim) in got.iter().zip(&claims) {
                prop_assert!(*got <= claim.cpus + 1e-9);
                let stopped = cpus_full || (memory_full && claim.bytes_per_s > 0.0);
                prop_assert!(stopped || *got >= claim.cpus - 1e-9);
            }
        }

        #[test]
        fn unsatisfied_memory_users_have_equal_weighted_dominant_shares(
            claims in claims(), cpus in 1u32..64, bytes in 1e8f64..1e11,
        ) {
            let capacity = Capacity { cpus: cpus.into(), bytes_per_s: Some(bytes) };
            let got = fair_cpus(&claims, capacity);
            let level = |i: usize| {
                let c = &claims[i];
                capacity.dominant_share(got[i], got[i] * c.bytes_per_s) / c.weight
            };
            // Of two tasks that use the memory and want more, both are level.
            let unsatisfied: Vec<_> = (0..claims.len())
                .filter(|&i| claims[i].bytes_per_s > 0.0 && got[i] < claims[i].cpus - 1e-9)
                .collect();
            for pair in unsatisfied.windows(2) {
                let (a, b) = (level(pair[0]), level(pair[1]));
                prop_assert!((a - b).abs() <= 1e-9 * a.max(b), "{a} {b}");
            }
        }
    }
}
