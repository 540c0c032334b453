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

/// Divides `capacity` CPUs by weight. No task gets more than its demand; the
/// rest goes to the other tasks. The result is in CPUs, in the order of `claims`.
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
    fn unlimited_demands_are_served_by_weight() {
        assert_eq!(shares(&[(1.0, 1.0), (3.0, 1.0)], 1.0), [0.25, 0.75]);
    }

    #[test]
    fn a_heavy_task_gets_no_more_than_its_demand() {
        assert_eq!(
            shares(&[(1.0, 1.0), (1.0, 1.0), (8.0, 1.0)], 2.0),
            [0.5, 0.5, 1.0]
        );
    }

    #[test]
    fn unused_shares_go_to_the_other_tasks() {
        assert_eq!(
            shares(&[(1.0, 0.2), (1.0, 1.0), (1.0, 1.0)], 1.0),
            [0.2, 0.4, 0.4]
        );
    }

    #[test]
    fn demands_below_the_capacity_are_served_in_full() {
        assert_eq!(shares(&[(1.0, 1.0), (1.0, 0.5)], 4.0), [1.0, 0.5]);
    }
}
