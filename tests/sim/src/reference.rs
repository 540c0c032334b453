// SPDX-License-Identifier: GPL-2.0-only
//! Independent computations of the arithmetic and of fair shares, in 128-bit integers and floating
//! point.

use crate::ffi::{Charging, Conf, Load, weight_one};

/// Returns `amount * rate_q32 / 2^32 + frac / 2^32`, exact, as (whole, fraction in 2^-32).
pub fn scale_exact(amount: u64, rate_q32: u64, frac: u32) -> (u128, u32) {
    let product = u128::from(amount) * u128::from(rate_q32);
    // The product of two u64 plus a u32 fits in a u128.
    let sum = product + u128::from(frac);
    (sum >> 32, sum as u32)
}

/// A flow in floating point: virtual times in ns since its creation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FloatFlow {
    /// Virtual time on the CPUs, ns.
    pub cpu: f64,
    /// Virtual time on the memory, ns.
    pub mem: f64,
    /// Virtual time of all traffic, ns.
    pub bus: f64,
    /// w.
    pub weight: f64,
}

impl FloatFlow {
    /// A flow of `weight` (1.0 is nice 0) at virtual time 0.
    pub fn new(weight: f64) -> Self {
        Self {
            cpu: 0.0,
            mem: 0.0,
            bus: 0.0,
            weight,
        }
    }

    /// S, ns.
    pub fn start(&self) -> f64 {
        self.cpu.max(self.mem)
    }

    /// 4.1 to 4.4, and the bound delta, in floating point. Units as in `drfq_charge`.
    pub fn charge(&mut self, conf: &Conf, run_ns: u64, bytes: u64, load: Load) {
        let busy = load.busy_cpus;
        let divisor = match conf.charging {
            Charging::Busy if busy > 0 => busy.min(conf.nr_cpus),
            _ => conf.nr_cpus,
        };
        let always = conf.charging != Charging::Contended;
        let ns_per_byte = conf.mem_ns_per_byte_q32 as f64 / 2f64.powi(32);
        let bus = bytes as f64 * ns_per_byte / self.weight;
        if always || load.waiting || busy >= conf.nr_cpus {
            self.cpu += run_ns as f64 / f64::from(divisor.max(1)) / self.weight;
        }
        if always || load.waiting {
            self.mem += bus;
        }
        self.bus += bus;
        let floor = self.start() - conf.delta_ns as f64;
        self.cpu = self.cpu.max(floor);
        self.mem = self.mem.max(floor);
    }
}

/// Returns the fair shares of hogs that may run anywhere, in CPUs (weighted max-min): proportional
/// to the weights, but at most one CPU each.
pub fn fair_cpus(weights: &[u32], nr_cpus: usize) -> Vec<f64> {
    let mut shares = vec![0.0; weights.len()];
    let mut open: Vec<usize> = (0..weights.len()).collect();
    let mut left = nr_cpus as f64;
    loop {
        let sum: f64 = open.iter().map(|i| f64::from(weights[*i])).sum();
        let (full, rest): (Vec<usize>, Vec<usize>) = open
            .iter()
            .partition(|i| f64::from(weights[**i]) * left >= sum);
        if full.is_empty() || rest.is_empty() {
            for i in open {
                shares[i] = (f64::from(weights[i]) / sum * left).min(1.0);
            }
            return shares;
        }
        for i in full {
            shares[i] = 1.0;
            left -= 1.0;
        }
        open = rest;
    }
}

/// Returns the weight of `ratio` times nice 0, in 1/`DRFQ_WEIGHT_ONE`.
pub fn weight(ratio: f64) -> u32 {
    (ratio * f64::from(weight_one())).round() as u32
}
