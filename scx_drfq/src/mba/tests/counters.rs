// SPDX-License-Identifier: GPL-2.0-only
//! Counters that are assigned to groups (AMD's ABMC), of which there may be few.

use super::*;

/// A machine with so many counters, of which the kernel assigns two to each new group.
fn with_counters(counters: u32) -> Shape {
    let mut shape = Shape {
        counters: Some(counters),
        ..shape(8, 32)
    };
    let mode = "[mbm_event]\ndefault\n";
    let file = ("info/L3_MON/mbm_assign_mode".into(), mode.into());
    shape.files.push(file);
    shape
}

#[test]
fn entities_that_no_counter_is_left_for_are_not_monitored() {
    let kernel = FakeKernel::new(with_counters(5));
    let mut machine = Machine::new(&kernel, 8);
    machine.run(4);
    assert_eq!(monitored(&machine).len(), 5);
    let state = machine.report.lock().unwrap().state.clone();
    assert!(state.contains("counters"), "{state}");
}

#[test]
fn classes_leave_counters_to_entities() {
    let kernel = FakeKernel::new(with_counters(5));
    let mut machine = Machine::new(&kernel, 4);
    machine.run(12);
    assert_eq!((monitored(&machine).len(), classes(&kernel)), (4, 3));
    machine.hogs = 5;
    kernel.start_task(5, None);
    machine.run(12);
    assert_eq!(monitored(&machine).len(), 5);
    let got = machine.run(4);
    assert!(spread(&got) < 0.10, "{got:?}");
}

/// Takes the counters of all groups, as a change of `mbm_assign_mode` does.
fn take_counters(kernel: &FakeKernel) {
    let classes = kernel.list("").unwrap().into_iter();
    for class in classes
        .chain([".".into()])
        .filter(|name| name.starts_with(['d', '.']))
    {
        let class = class.trim_start_matches('.').to_owned();
        let inside = kernel.list(&format!("{class}/mon_groups"));
        let groups = inside.unwrap_or_default().into_iter();
        let groups = groups.map(|group| format!("{class}/mon_groups/{group}"));
        for group in groups.chain([class.clone()]) {
            let path = format!("{group}/mbm_L3_assignments");
            let path = path.trim_start_matches('/');
            kernel.write(path, "mbm_total_bytes:*=_\n").unwrap();
        }
    }
}

#[test]
fn counters_that_were_taken_are_assigned_again() {
    let kernel = FakeKernel::new(with_counters(9));
    let mut machine = Machine::new(&kernel, 4);
    machine.run(12);
    take_counters(&kernel);
    machine.run(2);
    let report = || machine.report.lock().unwrap().bytes_per_s;
    assert_eq!(report(), 0.0);
    machine.running.audit();
    machine.run(12);
    assert_eq!(monitored(&machine).len(), 4);
    let moved = machine.report.lock().unwrap().bytes_per_s;
    assert!(moved > 0.9e9, "{moved}");
}

#[test]
fn groups_get_counters_also_where_the_kernel_comes_to_assign_none() {
    let kernel = FakeKernel::new(with_counters(9));
    let mut machine = Machine::new(&kernel, 4);
    kernel.set_file("info/L3_MON/mbm_assign_on_mkdir", "0\n");
    machine.run(12);
    let report = machine.report.lock().unwrap();
    assert_eq!((report.groups.len(), report.errors), (4, 0));
    assert_eq!(report.state, "on");
}

#[test]
fn groups_that_get_no_counter_again_are_given_up() {
    let kernel = FakeKernel::new(with_counters(5));
    let mut machine = Machine::new(&kernel, 4);
    machine.run(12);
    take_counters(&kernel);
    // Another program takes four, so that one is left.
    for name in ["a", "b"] {
        kernel.mkdir(&format!("mon_groups/{name}")).unwrap();
    }
    machine.run(2);
    machine.running.audit();
    machine.run(12);
    let report = machine.report.lock().unwrap();
    assert_eq!(report.groups.len(), 1);
    assert!(report.state.contains("counter"), "{}", report.state);
}
