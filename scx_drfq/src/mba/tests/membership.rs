// SPDX-License-Identifier: GPL-2.0-only
//! Which tasks are in the loop's groups.

use super::*;

#[test]
fn a_task_of_another_programs_group_stays_there() {
    let kernel = FakeKernel::new(shape(8, 32));
    let mut machine = Machine::new(&kernel, 2);
    kernel.mkdir("theirs").unwrap();
    kernel.write("theirs/tasks", "2\n").unwrap();
    let theirs = kernel.snapshot(|path| path.starts_with("theirs"));
    machine.run(4);
    assert_eq!(machine.report.lock().unwrap().foreign, 1);
    drop(machine);
    assert_eq!(kernel.snapshot(|path| path.starts_with("theirs")), theirs);
}

#[test]
fn a_task_that_was_in_another_programs_group_is_shared_again() {
    let kernel = FakeKernel::new(shape(8, 32));
    let mut machine = Machine::new(&kernel, 2);
    machine.run(4);
    let own = machine.place(2);
    for theirs in ["mon_groups/theirs", "theirs"] {
        kernel.mkdir(theirs).unwrap();
        kernel.write(&format!("{theirs}/tasks"), "2\n").unwrap();
        machine.running.audit();
        machine.run(4);
        assert_eq!(machine.report.lock().unwrap().foreign, 1, "{theirs}");
        kernel.rmdir(theirs).unwrap();
        machine.running.audit();
        machine.run(4);
        assert_eq!(machine.report.lock().unwrap().foreign, 0, "{theirs}");
        assert_eq!(machine.place(2).1, own.1, "{theirs}");
    }
}

impl Machine<'_> {
    /// Runs until hog 1 is in a class, and starts task 77 as its child, which no look has in the
    /// entity of hog 1. Returns their place.
    fn start_child(&mut self) -> (String, String) {
        self.run(12);
        let (class, mon) = self.place(1);
        assert!(!class.is_empty() && !mon.is_empty());
        self.kernel.start_task(77, Some(1));
        (class, mon)
    }
}

#[test]
fn a_child_that_left_its_parents_cgroup_leaves_its_class_as_well() {
    let kernel = FakeKernel::new(shape(8, 32));
    let mut machine = Machine::new(&kernel, 4);
    let (class, mon) = machine.start_child();
    assert_eq!(machine.place(77), (class.clone(), mon.clone()));
    machine.running.audit();
    machine.run(2);
    assert_eq!(machine.place(77), (String::new(), String::new()));
    assert_eq!(machine.place(1), (class, mon));
}

#[test]
fn a_thread_of_a_group_that_another_program_removes_leaves_the_class_as_well() {
    let kernel = FakeKernel::new(shape(8, 32));
    let mut machine = Machine::new(&kernel, 4);
    let (class, mon) = machine.start_child();
    kernel.rmdir(&format!("{class}/mon_groups/{mon}")).unwrap();
    assert_eq!(machine.place(77), (class, String::new()));
    machine.running.audit();
    machine.run(2);
    assert_eq!(machine.place(77), (String::new(), String::new()));
}

#[test]
fn a_group_that_could_not_be_removed_does_not_stop_the_monitoring() {
    let kernel = FakeKernel::new(shape(8, 32));
    let info = Info::read(&kernel, Vendor::Intel).unwrap();
    let mut actuator = Actuator::open(&kernel, &info, 1, clock).unwrap();
    kernel.mkdir("mon_groups/drfq_g7").unwrap();
    assert!(actuator.monitor(7));
}

#[test]
fn a_task_that_leaves_its_entity_leaves_the_group() {
    let kernel = FakeKernel::new(shape(8, 32));
    let info = Info::read(&kernel, Vendor::Intel).unwrap();
    let mut actuator = Actuator::open(&kernel, &info, 1, clock).unwrap();
    (1..=3).for_each(|tid| kernel.start_task(tid, None));
    assert!(actuator.monitor(7) && actuator.monitor(8));
    actuator.place(7, &[1, 2, 3]);
    actuator.place(8, &[3]);
    actuator.place(7, &[1]);
    let groups = [1, 2, 3].map(|tid| place(&kernel, tid).1);
    assert_eq!(groups, ["drfq_g7", "", "drfq_g8"]);
}

#[test]
fn processes_that_are_hidden_are_told() {
    let kernel = FakeKernel::new(shape(8, 32));
    let mut machine = Machine::new(&kernel, 4);
    HIDES.set(true);
    machine.run(2);
    let state = machine.report.lock().unwrap().state.clone();
    assert!(state.contains("hidepid"), "{state}");
}

#[test]
fn threads_whose_groups_are_hidden_are_told() {
    for (entity, hidden, told) in [
        (Entity::Task, 1..=4, true),
        (Entity::Process, 1..=3, true),
        (Entity::Process, 1..=1, false),
    ] {
        let kernel = FakeKernel::new(shape(8, 32));
        let mut machine = Machine::new(&kernel, 4);
        machine.running.setup.entity = entity;
        for pid in hidden {
            kernel.fail("task_groups", &pid.to_string(), libc::ENOENT);
        }
        // The first look places nothing, and the second one cannot know yet.
        let states = [0, 1, 2].map(|look| {
            let now = machine.began + Duration::from_millis(500) * look;
            let look = machine.look();
            machine.running.turn(Some((look, now)), &machine.report);
            machine.report.lock().unwrap().state.clone()
        });
        assert_eq!(states[..2], ["on", "on"]);
        assert_eq!(
            states[2].contains("hidepid"),
            told,
            "{entity:?}: {states:?}"
        );
    }
}

#[test]
fn tasks_that_cannot_be_read_are_told() {
    let kernel = FakeKernel::new(shape(8, 32));
    let machine = Machine::new(&kernel, 4);
    let (stop, report) = (AtomicBool::new(false), Mutex::default());
    let read = || {
        stop.store(true, Ordering::Relaxed);
        Err("no iterator".to_owned())
    };
    machine.running.run(&stop, read, &Mutex::default(), &report);
    let state = report.lock().unwrap().state.clone();
    assert!(state.contains("no iterator"), "{state}");
}

#[test]
fn an_entity_that_idles_for_a_minute_gives_its_group_back_unless_a_rule_bounds_it() {
    for max in [0, 200_000_000] {
        let kernel = FakeKernel::new(shape(8, 32));
        let mut machine = Machine::new(&kernel, 2);
        machine.running.rules = vec![Rule {
            target: Target::new(true, "/1").unwrap(),
            weight: None,
            memory: Bounds {
                min: None,
                max: Bandwidth::new(max),
            },
        }];
        machine.light = 1;
        machine.cpu_ns = 100_000_000_000;
        machine.run(4);
        assert_eq!(monitored(&machine), ["/2"]);
        machine.light = 0;
        machine.run(4);
        assert_eq!(monitored(&machine), ["/1", "/2"]);
        machine.light = 1;
        machine.run(100);
        assert_eq!(monitored(&machine), ["/1", "/2"]);
        machine.run(30);
        let stays = monitored(&machine).contains(&"/1".to_owned());
        assert_eq!(stays, max > 0, "{max}");
    }
}

#[test]
fn other_programs_can_make_groups_while_all_of_ours_are_in_use() {
    let kernel = FakeKernel::new(shape(16, 32));
    let mut machine = Machine::new(&kernel, 40);
    machine.run(4);
    assert!(monitored(&machine).len() > 10);
    kernel.mkdir("theirs").unwrap();
}
