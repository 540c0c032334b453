// SPDX-License-Identifier: GPL-2.0-only
//! Load that comes.

use super::*;

#[test]
fn hogs_that_come_are_monitored_in_the_period_that_shows_them() {
    let kernel = FakeKernel::new(shape(8, 32));
    let mut machine = Machine::new(&kernel, 4);
    machine.run(4);
    let hogs = |machine: &Machine| machine.running.members.len();
    assert_eq!(hogs(&machine), 4);
    for pid in 5..=6 {
        kernel.start_task(pid, None);
    }
    machine.hogs = 6;
    let look = Cell::new(Some(machine.look()));
    let read = || look.take().ok_or_else(|| "looked twice".to_owned());
    machine
        .running
        .arrivals
        .looked(machine.running.periods, false);
    for (rest, expected) in [(0.0, 4), (0.3e9, 6), (0.3e9, 6)] {
        let mut measured = machine.running.measure();
        measured.rest = vec![rest];
        machine
            .running
            .look_if_due(&measured, &read, &Mutex::default());
        machine.running.step(&measured, PERIOD, &machine.report);
        NOW.set(NOW.get() + PERIOD);
        assert_eq!(hogs(&machine), expected, "{rest}");
    }
    let report = machine.report.lock().unwrap().clone();
    assert_eq!((report.groups.len(), report.errors), (6, 0));
    // What stays makes no second look.
    assert_eq!(report.state, "on");
}
