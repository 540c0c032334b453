// SPDX-License-Identifier: GPL-2.0-only
//! Weighted max-min fairness: what each task is entitled to.

/// A task that wants CPU time.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// Weight, above 0.
    pub weight: f64,
    /// The most that it can use, CPUs (1 for a task that never sleeps).
    pub demand: f64,
}

/// Divides `capacity` CPUs: nobody gets more than it demands, and what that
/// leaves goes to the others by weight. In CPUs, in the order of `claims`.
pub fn max_min(claims: &[Claim], capacity: f64) -> Vec<f64> {
    let mut shares = vec![0.0; claims.len()];
    let mut open: Vec<usize> = (0..claims.len()).collect();
    let mut left = capacity;
    // Satisfied in order of demand per weight, each at the level then.
    open.sort_by(|&a, &b| {
        let need = |i: usize| claims[i].demand / claims[i].weight;
        need(a).total_cmp(&need(b))
    });
    let mut weights: f64 = claims.iter().map(|c| c.weight).sum();
    for i in open {
        shares[i] = claims[i].demand.min(left * claims[i].weight / weights);
        left -= shares[i];
        weights -= claims[i].weight;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(claims: &[(f64, f64)], capacity: f64) -> Vec<f64> {
        let claims: Vec<_> = claims
            .iter()
            .map(|&(weight, demand)| Claim { weight, demand })
            .collect();
        max_min(&claims, capacity)
    }

    #[test]
    fn by_weight_when_nobody_is_satisfied() {
        assert_eq!(shares(&[(1.0, 1.0), (3.0, 1.0)], 1.0), [0.25, 0.75]);
    }

    #[test]
    fn a_task_uses_one_cpu_at_most() {
        assert_eq!(
            shares(&[(1.0, 1.0), (1.0, 1.0), (8.0, 1.0)], 2.0),
            [0.5, 0.5, 1.0]
        );
    }

    #[test]
    fn what_a_sleeper_leaves_goes_to_the_others() {
        assert_eq!(
            shares(&[(1.0, 0.2), (1.0, 1.0), (1.0, 1.0)], 1.0),
            [0.2, 0.4, 0.4]
        );
    }

    #[test]
    fn never_more_than_there_is() {
        assert_eq!(shares(&[(1.0, 1.0), (1.0, 0.5)], 4.0), [1.0, 0.5]);
    }
}
