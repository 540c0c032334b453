// SPDX-License-Identifier: GPL-2.0-only
//! The policies: what was measured is any number, infinities and NaN included.

use std::collections::HashSet;

use drfq_policy::{
    attribution::{Counts, Fit},
    drf::{
        Domain, Group, Plan, Snapshot, State,
        curve::{Curve, dither},
        filling::{Bounds, fill},
        plan,
    },
    fair_share::{Capacity, Claim, fair_cpus},
    saturation::Saturation,
};

/// The bytes of an input, followed by zeros.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        byte
    }

    fn below(&mut self, limit: u8) -> usize {
        usize::from(self.byte() % limit)
    }

    /// Any number, or one of a size that occurs.
    fn number(&mut self) -> f64 {
        match self.byte() % 4 {
            0 => f64::from_bits(u64::from_le_bytes([(); 8].map(|()| self.byte()))),
            1 => f64::from(self.byte()) / 255.0,
            2 => f64::from(self.byte()),
            _ => f64::from(self.byte()) * 1e8,
        }
    }

    /// A number that is not negative, at most `limit`.
    fn up_to(&mut self, limit: f64) -> f64 {
        // min() takes the limit where the number is none.
        self.number().abs().min(limit)
    }
}

/// No measurement makes a policy panic or leave the range of its results.
pub fn check(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else {
        return;
    };
    let mut input = Input(data);
    match kind % 5 {
        0 => attribution(&mut input),
        1 => saturation(&mut input),
        2 => shares(&mut input),
        3 => filling(&mut input),
        _ => plans(&mut input),
    }
}

fn counts(input: &mut Input) -> Counts {
    Counts {
        reads: input.number(),
        writes: input.number(),
    }
}

fn attribution(input: &mut Input) {
    let mut fit = Fit::default();
    while !input.0.is_empty() {
        fit = fit.observe(counts(input), input.number());
        let factors = fit.factors();
        let range = 0.0..=1e3;
        assert!(factors.iter().all(|f| range.contains(f)), "{factors:?}");
        let found = fit.bytes(counts(input));
        assert!(found.bytes >= 0.0 && found.std_dev >= 0.0, "{found:?}");
    }
}

fn saturation(input: &mut Input) {
    let mut state = Saturation::default();
    while !input.0.is_empty() {
        let capacity = (input.below(2) == 0).then(|| input.number());
        let domain = Domain {
            bytes_per_s: input.number(),
            withheld: input.number(),
            capacity,
        };
        state = state.observe(&domain, input.number());
        let best = state.best_bytes_per_s();
        assert!(best.is_finite() && best >= 0.0, "{best}");
    }
}

fn shares(input: &mut Input) {
    let capacity = Capacity {
        cpus: input.number(),
        bytes_per_s: (input.below(2) == 0).then(|| input.number()),
    };
    let claims: Vec<Claim> = (0..input.below(9))
        .map(|_| Claim {
            weight: input.number(),
            cpus: input.number(),
            bytes_per_s: input.number(),
        })
        .collect();
    let got = fair_cpus(&claims, capacity);
    assert_eq!(got.len(), claims.len());
    for (claim, got) in claims.iter().zip(&got) {
        assert!(
            (0.0..=claim.cpus.max(0.0)).contains(got),
            "{got} for {claim:?}"
        );
    }
    let capacity = Capacity {
        cpus: input.up_to(1e18).max(1.0),
        bytes_per_s: Some(input.up_to(1e18).max(1.0)),
    };
    let share = capacity.dominant_share(input.up_to(1e18), input.up_to(1e18));
    assert!(share >= 0.0, "{share}");
}

fn filling(input: &mut Input) {
    let amount = input.up_to(1e18);
    let users: Vec<Bounds> = (0..input.below(9))
        .map(|_| Bounds {
            weight: input.up_to(1e6).max(1e-6),
            min: input.up_to(1e18),
            max: input.up_to(f64::INFINITY),
        })
        .collect();
    let got = fill(&users, amount);
    let sum: f64 = got.iter().sum();
    // The least distance of two numbers: subnormal parts have no relative precision.
    let rounding = users.len() as f64 * f64::from_bits(1);
    assert!(
        sum <= amount * (1.0 + 1e-9) + rounding,
        "{sum:e} of {amount:e}"
    );
    for (user, got) in users.iter().zip(&got) {
        assert!((0.0..=user.max).contains(got), "{got} for {user:?}");
    }
}

fn curve(input: &mut Input) -> Curve {
    let max = u32::from(input.byte());
    let curve = if input.below(2) == 0 {
        Curve::linear(input.byte().into(), input.byte().into(), max)
    } else {
        let points: Vec<_> = (0..input.below(9))
            .map(|_| (u32::from(input.byte()), input.number()))
            .collect();
        Curve::new(&points, max)
    };
    let levels = curve.levels();
    assert!(levels.is_sorted_by(|a, b| a.setting < b.setting && a.fraction < b.fraction));
    assert!(curve.floor() > 0.0 && levels.iter().all(|level| level.fraction <= 1.0));
    let mut error = 0.0;
    for _ in 0..4 {
        assert!(levels.contains(&dither(levels, input.number(), &mut error)));
    }
    curve
}

fn snapshot(input: &mut Input) -> Snapshot {
    Snapshot {
        period_s: input.number(),
        cpus: input.number(),
        runnable: input.number(),
        curve: (input.below(4) > 0).then(|| curve(input)),
        classes: input.below(6),
        domains: (0..input.below(3))
            .map(|_| Domain {
                bytes_per_s: input.number(),
                withheld: input.number(),
                capacity: (input.below(2) == 0).then(|| input.number()),
            })
            .collect(),
        groups: (0..input.below(9))
            .map(|_| Group {
                id: input.below(12) as u64,
                weight: input.number(),
                min: input.number(),
                max: input.number(),
                bytes_per_s: (0..input.below(3)).map(|_| input.number()).collect(),
            })
            .collect(),
    }
}

fn plans(input: &mut Input) {
    let mut state = State::default();
    for _ in 0..20 {
        let snapshot = snapshot(input);
        let periods = 1 + input.below(4);
        for _ in 0..periods {
            let (next, after) = plan(&snapshot, &state);
            state = after;
            check_plan(&snapshot, &next);
        }
        if input.0.is_empty() {
            return;
        }
    }
}

fn check_plan(snapshot: &Snapshot, plan: &Plan) {
    let unthrottled = Curve::linear(100, 100, 100);
    let curve = snapshot.curve.as_ref().unwrap_or(&unthrottled);
    assert!(plan.classes.len() <= snapshot.classes);
    let mut seen = HashSet::new();
    for class in plan.classes.iter().filter(|class| !class.groups.is_empty()) {
        assert!(class.groups.iter().all(|group| seen.insert(*group)));
        for slot in &class.slots {
            assert_eq!(slot.len(), snapshot.domains.len());
            for setting in slot {
                assert!(curve.levels().iter().any(|l| l.setting == *setting));
            }
        }
    }
    assert!(
        seen.iter()
            .all(|id| snapshot.groups.iter().any(|group| group.id == *id))
    );
    for domain in &plan.domains {
        assert!(
            domain.capacity.is_finite() && domain.capacity >= 0.0,
            "{domain:?}"
        );
        assert!(domain.saturated || !domain.acts);
    }
    assert_eq!(plan.groups.len(), snapshot.groups.len());
    for group in &plan.groups {
        let range = curve.floor()..=1.0;
        assert!(
            group.fractions.iter().all(|f| range.contains(f)),
            "{group:?}"
        );
        assert!(group.parts.iter().all(|&part| part >= 0.0), "{group:?}");
    }
}
