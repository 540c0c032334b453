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
