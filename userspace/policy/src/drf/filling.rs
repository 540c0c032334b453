// SPDX-License-Identifier: GPL-2.0-only
//! Weighted max-min by progressive filling, with a minimum and a maximum for each.

/// What one user of a resource may get.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// w, positive.
    pub weight: f64,
    /// It gets at least this much, even beyond its weighted share.
    pub min: f64,
    /// It gets at most this much: its demand.
    pub max: f64,
}

/// Divides `amount`: each gets w x level within its bounds, at the highest level
/// at which the sum is at most `amount`. If the minima exceed `amount`, they shrink
/// alike. The sum is at most `amount`.
pub fn fill(users: &[Bounds], amount: f64) -> Vec<f64> {
    let minima: f64 = users.iter().map(|user| user.min.min(user.max)).sum();
    // A part of the amount, because the amount over the minima may be subnormal.
    let floor = |user: &Bounds| {
        let min = user.min.min(user.max);
        if minima > amount {
            (min / minima * amount).min(min)
        } else {
            min
        }
    };
    let at = |level: f64| -> Vec<f64> {
        users
            .iter()
            .map(|user| (user.weight * level).min(user.max).max(floor(user)))
            .collect()
    };
    let fits = |level: f64| at(level).iter().sum::<f64>() <= amount;
    // At this level each user has its maximum, or the whole amount.
    let top = users
        .iter()
        .map(|user| user.max.min(amount) / user.weight)
        .fold(0.0, f64::max);
    if fits(top) {
        return at(top);
    }
    let (mut low, mut high) = (0.0, top);
    // Halving 60 times leaves no more than a rounding error.
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    at(low)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn user(weight: f64, min: f64, max: f64) -> Bounds {
        Bounds { weight, min, max }
    }

    #[test]
    fn shares_follow_weights_demands_and_minima() {
        let any = f64::INFINITY;
        for (users, amount, expected) in [
            (vec![], 1.0, vec![]),
            (
                vec![user(1.0, 0.0, any), user(3.0, 0.0, any)],
                1.0,
                vec![0.25, 0.75],
            ),
            // What one does not want goes to the others by weight.
            (
                vec![
                    user(1.0, 0.0, 0.1),
                    user(1.0, 0.0, any),
                    user(2.0, 0.0, any),
                ],
                1.0,
                vec![0.1, 0.3, 0.6],
            ),
            // Demands that fit are met.
            (
                vec![user(1.0, 0.0, 0.1), user(1.0, 0.0, 0.2)],
                1.0,
                vec![0.1, 0.2],
            ),
            (
                vec![user(1.0, 0.5, any), user(9.0, 0.0, any)],
                1.0,
                vec![0.5, 0.5],
            ),
            // A minimum is no gift to one that does not want it.
            (
                vec![user(1.0, 0.5, 0.2), user(9.0, 0.0, any)],
                1.0,
                vec![0.2, 0.8],
            ),
            (
                vec![user(1.0, 1.0, any), user(1.0, 3.0, any)],
                1.0,
                vec![0.25, 0.75],
            ),
        ] {
            let got = fill(&users, amount);
            for (got, expected) in got.iter().zip(&expected) {
                assert!((got - expected).abs() < 1e-9, "{users:?}: {got}");
            }
        }
    }

    proptest! {
        #[test]
        fn the_sum_never_exceeds_the_amount(
            users in prop::collection::vec((0.001..1000.0f64, 0.0..10.0f64, 0.0..10.0f64), 0..12),
            amount in 0.0..20.0f64,
        ) {
            let users: Vec<_> = users.iter().map(|u| user(u.0, u.1, u.2)).collect();
            let got = fill(&users, amount);
            prop_assert!(got.iter().sum::<f64>() <= amount * (1.0 + 1e-9) + 1e-12);
            for (got, user) in got.iter().zip(&users) {
                prop_assert!(*got >= 0.0 && *got <= user.max);
            }
        }

        /// No user could get more without taking from one of a lower level.
        #[test]
        fn below_its_demand_no_user_has_a_lower_level_than_another(
            users in prop::collection::vec((0.1..10.0f64, 0.0..1.0f64), 2..12),
        ) {
            let users: Vec<_> = users.iter().map(|u| user(u.0, 0.0, u.1)).collect();
            let got = fill(&users, 1.0);
            let level = |i: usize| got[i] / users[i].weight;
            for i in (0..users.len()).filter(|&i| got[i] < users[i].max - 1e-9) {
                for j in 0..users.len() {
                    prop_assert!(level(i) >= level(j) - 1e-6);
                }
            }
        }
    }
}
