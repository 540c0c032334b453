// SPDX-License-Identifier: GPL-2.0-only
//! A resctrl that can no longer be written, or has gone.

use super::*;

/// The state after what `act` does to the resctrl of a loop that throttles.
fn state_after(act: impl FnOnce(&FakeKernel)) -> Mba {
    let kernel = FakeKernel::new(shape(8, 32));
    let mut machine = Machine::new(&kernel, 4);
    machine.run(12);
    assert_eq!(machine.report.lock().unwrap().state, "on");
    act(&kernel);
    machine.running.audit();
    for half in 1..=2 {
        let now = Instant::now() + Duration::from_secs(60 * half);
        let mut look = Some((machine.look(), now));
        for slot in 0..2 {
            let plan = machine.running.turn(look.take(), &machine.report);
            machine.running.setup.throttle.apply(&plan.classes, slot);
        }
    }
    machine.report.lock().unwrap().clone()
}

#[test]
fn nothing_is_throttled_once_resctrl_is_unmounted() {
    let report = state_after(FakeKernel::unmount);
    assert!(report.state.starts_with("observe: "), "{}", report.state);
    assert_eq!((report.acting, report.groups.len()), (0, 0));
}

#[test]
fn nothing_is_throttled_while_the_default_groups_limits_cannot_be_read() {
    let report = state_after(|kernel| kernel.fail("read", "schemata", libc::EIO));
    assert!(report.state.starts_with("observe: "), "{}", report.state);
    assert_eq!((report.acting, report.groups.len()), (0, 4));
}

#[test]
fn a_read_only_resctrl_is_a_failure_that_is_told() {
    let report = state_after(FakeKernel::make_read_only);
    assert!(report.errors > 0, "{report:?}");
    assert!(report.state.contains("Read-only"), "{}", report.state);
    assert_eq!(report.groups.len(), 4);
}

#[test]
fn a_group_of_another_program_in_our_class_ends_throttling_until_it_has_gone() {
    let kernel = FakeKernel::new(shape(8, 32));
    let mut machine = Machine::new(&kernel, 4);
    machine.run(12);
    kernel.mkdir("drfq_c0/mon_groups/theirs").unwrap();
    let is_throttled = || {
        !kernel
            .read("drfq_c0/schemata")
            .unwrap()
            .contains("MB:0=100")
    };
    assert!(is_throttled());
    machine.running.audit();
    machine.run(12);
    let state = machine.report.lock().unwrap().state.clone();
    assert!(state.starts_with("observe: "), "{state}");
    assert!(!is_throttled());
    kernel.rmdir("drfq_c0/mon_groups/theirs").unwrap();
    machine.running.audit();
    let got = machine.run(12);
    assert_eq!(machine.report.lock().unwrap().state, "on");
    assert!(spread(&got) < 0.10, "{got:?}");
}

#[test]
fn a_loop_that_panics_removes_its_groups_and_is_told() {
    let kernel = FakeKernel::new(shape(8, 32));
    let mut machine = Machine::new(&kernel, 4);
    machine.run(12);
    let (report, running) = (Mutex::default(), machine.running);
    or_ended(&report, move || {
        let _running = running;
        panic!("a defect");
    });
    let state = report.lock().unwrap().state.clone();
    assert!(state.starts_with("off: "), "{state}");
    assert_eq!(classes(&kernel), 0);
    assert!(kernel.list("mon_groups").unwrap().is_empty());
}
