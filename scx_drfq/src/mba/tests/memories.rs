// SPDX-License-Identifier: GPL-2.0-only
//! Domains of resctrl before one memory.

use super::*;

/// What hogs of weights 1 to 4 get of one memory, in 2 s of the loop. The odd ones run in one domain,
/// the others in another. `nodes`: those of the domains.
fn shared(nodes: &[(u32, u32)]) -> (Vec<f64>, Mba) {
    let kernel = FakeKernel::new(Shape {
        schemata: "    MB:0=100;1=100\n    L3:0=7ff;1=7ff\n".into(),
        domains: vec![0, 1],
        ..shape(8, 32)
    });
    let nodes = nodes.iter().map(|&(domain, node)| (domain, [node].into()));
    let mut machine = Machine::on(&kernel, 4, Vendor::Intel, &nodes.collect());
    machine.run(12);
    let got = machine.run(4);
    let report = machine.report.lock().unwrap().clone();
    (got, report)
}

#[test]
fn groups_before_one_memory_share_it_by_weight_whatever_their_domain() {
    let (got, report) = shared(&[(0, 0), (1, 0)]);
    assert!(spread(&got) < 0.10, "{got:?}");
    assert_eq!((report.domains, report.saturated, report.acting), (1, 1, 1));
    let error = report.bytes_per_s / 1e9 - 1.0;
    assert!(error.abs() < 0.05, "{}", report.bytes_per_s);
}

#[test]
fn groups_of_different_memories_are_not_compared() {
    let (got, report) = shared(&[(0, 0), (1, 1)]);
    assert_eq!(report.domains, 2);
    // In truth the memory is one. What one domain gives up goes to the other one.
    assert!(spread(&got) > 0.20, "{got:?}");
}
