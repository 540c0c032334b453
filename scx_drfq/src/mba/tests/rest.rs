// SPDX-License-Identifier: GPL-2.0-only
//! What the loop takes for the traffic of tasks that are in none of its groups.

use super::*;

/// Groups that move steadily, and a rest that does.
struct Traffic<'a> {
    kernel: &'a FakeKernel,
    actuator: Actuator<&'a FakeKernel>,
    /// What each id moves (bytes per second); 0 is the default group's own.
    rates: BTreeMap<u32, f64>,
    moved: BTreeMap<u32, f64>,
    /// The id that the hardware does not count.
    uncounted: Option<u32>,
    /// What is taken for the groups' (bytes per second).
    groups: f64,
}

impl<'a> Traffic<'a> {
    fn new(kernel: &'a FakeKernel) -> Self {
        NOW.set(Duration::ZERO);
        let info = Info::read(&kernel, Vendor::Intel).unwrap();
        Self {
            kernel,
            actuator: Actuator::open(kernel, &info, 2, clock).unwrap(),
            rates: BTreeMap::new(),
            moved: BTreeMap::new(),
            uncounted: None,
            groups: 0.0,
        }
    }

    fn monitor(&mut self, id: GroupId, bytes_per_s: f64) {
        assert!(self.actuator.monitor(id));
        let rmid = self.kernel.rmid(&format!("mon_groups/drfq_g{id}"));
        self.rates.insert(rmid.unwrap(), bytes_per_s);
    }

    /// A period, in which the groups `throttled` are in a class. Returns what is taken for the rest
    /// (bytes per second).
    fn period(&mut self, throttled: &[GroupId], all: &[GroupId]) -> f64 {
        let class = Class {
            groups: throttled.to_vec(),
            slots: [vec![50], vec![50]],
        };
        (0..2).for_each(|slot| self.actuator.apply(std::slice::from_ref(&class), slot));
        NOW.set(NOW.get() + PERIOD);
        for (&rmid, rate) in &self.rates {
            let moved = self.moved.entry(rmid).or_default();
            *moved += rate * PERIOD.as_secs_f64();
            let reading = match self.uncounted == Some(rmid) {
                true => Reading::Unavailable,
                false => Reading::Bytes(*moved as u64),
            };
            self.kernel.set_reading(rmid, 0, Event::MbmTotal, reading);
        }
        self.groups = all.iter().map(|&id| self.actuator.traffic(id)[0]).sum();
        self.actuator.rest()[0]
    }
}

#[test]
fn the_rest_is_measured_while_groups_climb_the_ladder() {
    let kernel = FakeKernel::new(shape(3, 32));
    let mut traffic = Traffic::new(&kernel);
    traffic.monitor(7, 0.3e9);
    traffic.monitor(8, 0.4e9);
    traffic.rates.insert(0, 0.1e9);
    traffic.period(&[7], &[7, 8]);
    for period in 0..20 {
        let throttled: &[GroupId] = if period % 2 == 0 { &[7, 8] } else { &[7] };
        let moved = if period < 10 { 0.1e9 } else { 0.2e9 };
        traffic.rates.insert(0, moved);
        let rest = traffic.period(throttled, &[7, 8]);
        assert!((rest - moved).abs() < 1e3, "{rest} in period {period}");
    }
}

#[test]
fn the_rest_is_measured_while_groups_come_and_go() {
    let kernel = FakeKernel::new(shape(3, 32));
    let mut traffic = Traffic::new(&kernel);
    traffic.monitor(7, 0.3e9);
    traffic.rates.insert(0, 0.1e9);
    traffic.period(&[], &[7]);
    for id in 8..20 {
        traffic.monitor(id, 0.2e9);
        let rest = traffic.period(&[], &[7, id]);
        assert!((rest - 0.1e9).abs() < 1e3, "{rest} with group {id}");
        let rmid = kernel.rmid(&format!("mon_groups/drfq_g{id}")).unwrap();
        traffic.actuator.forget(id);
        traffic.rates.remove(&rmid);
        traffic.moved.remove(&rmid);
    }
}

#[test]
fn the_rest_is_measured_while_the_hardware_counts_now_one_group_now_another() {
    let kernel = FakeKernel::new(shape(3, 32));
    let mut traffic = Traffic::new(&kernel);
    traffic.monitor(7, 0.3e9);
    traffic.monitor(8, 0.3e9);
    traffic.rates.insert(0, 0.1e9);
    (0..3).for_each(|_| _ = traffic.period(&[], &[7, 8]));
    let rmid = kernel.rmid("mon_groups/drfq_g8");
    for period in 0..20 {
        traffic.uncounted = rmid.filter(|_| period % 2 == 0);
        let rest = traffic.period(&[], &[7, 8]);
        assert!((rest - 0.1e9).abs() < 0.01e9, "{rest} in period {period}");
    }
}

#[test]
fn traffic_of_groups_that_another_program_removed_counts_once() {
    let kernel = FakeKernel::new(shape(3, 32));
    let mut traffic = Traffic::new(&kernel);
    traffic.monitor(7, 0.3e9);
    traffic.monitor(8, 0.4e9);
    traffic.rates.insert(0, 0.1e9);
    (0..5).for_each(|_| _ = traffic.period(&[7], &[7, 8]));
    for group in [
        "drfq_c0/mon_groups/drfq_g7",
        "mon_groups/drfq_g8",
        "drfq_c0",
    ] {
        kernel.rmdir(group).unwrap();
    }
    // Their tasks are in the default group.
    traffic.rates = BTreeMap::from([(0, 0.8e9)]);
    for period in 0..8 {
        let all = traffic.period(&[], &[7, 8]) + traffic.groups;
        assert!(all < 0.81e9, "{all} in period {period}");
    }
}
