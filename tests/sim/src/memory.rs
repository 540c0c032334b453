// SPDX-License-Identifier: GPL-2.0-only
//! A stand-in for the memory. Each running task gets its demand, scaled down in proportion if the
//! sum exceeds the bandwidth. With a controller, CPUs are served in the order of their virtual
//! time instead. The first one gets its whole demand before the next one gets anything. There are
//! no rows, banks or queues.

use crate::SEC;

/// The demand of each CPU's task, and the traffic that each CPU has got.
#[derive(Clone, Debug)]
pub struct Memory {
    capacity_bytes_per_s: Option<u64>,
    demand_bytes_per_s: Vec<u64>,
    /// The controller's register of each CPU. All are equal at first.
    registers: Vec<u64>,
    /// Traffic delivered but not taken yet, in 1e-9 bytes.
    given: Vec<u128>,
    integrated_to_ns: u64,
}

impl Memory {
    /// A memory for `nr_cpus` CPUs. It delivers `capacity_bytes_per_s`, or any amount.
    pub fn new(nr_cpus: usize, capacity_bytes_per_s: Option<u64>) -> Self {
        Self {
            capacity_bytes_per_s,
            demand_bytes_per_s: vec![0; nr_cpus],
            registers: vec![0; nr_cpus],
            given: vec![0; nr_cpus],
            integrated_to_ns: 0,
        }
    }

    fn integrate(&mut self, now_ns: u64) {
        let dt = u128::from(now_ns - self.integrated_to_ns);
        self.integrated_to_ns = now_ns;
        let sum: u128 = self.demand_bytes_per_s.iter().map(|d| u128::from(*d)).sum();
        if dt == 0 || sum == 0 {
            return;
        }
        let capacity = self.capacity_bytes_per_s.map_or(sum, u128::from);
        let mut left = capacity.min(sum);
        let mut classes = self.registers.clone();
        classes.sort_unstable();
        classes.dedup();
        for class in classes {
            let of_class = |cpu: &usize| self.registers[*cpu] == class;
            let cpus: Vec<usize> = (0..self.given.len()).filter(of_class).collect();
            let demand = |cpu: usize| u128::from(self.demand_bytes_per_s[cpu]);
            let asked: u128 = cpus.iter().map(|cpu| demand(*cpu)).sum();
            let served = asked.min(left);
            for cpu in cpus.into_iter().filter(|_| asked > 0) {
                self.given[cpu] += demand(cpu) * dt * served / asked;
            }
            left -= served;
        }
    }

    /// Serves the CPUs in the order of these registers from `now_ns` on.
    pub fn serve_by(&mut self, now_ns: u64, registers: Vec<u64>) {
        self.integrate(now_ns);
        self.registers = registers;
    }

    /// Sets the demand of `cpu` to `bytes_per_s` from `now_ns` on.
    pub fn demand(&mut self, now_ns: u64, cpu: usize, bytes_per_s: u64) {
        self.integrate(now_ns);
        self.demand_bytes_per_s[cpu] = bytes_per_s;
    }

    /// Takes the whole bytes that `cpu` has got since the last call.
    pub fn take(&mut self, now_ns: u64, cpu: usize) -> u64 {
        self.integrate(now_ns);
        let bytes = self.given[cpu] / u128::from(SEC);
        self.given[cpu] %= u128::from(SEC);
        bytes as u64
    }
}
