// SPDX-License-Identifier: GPL-2.0-only
//! Our groups on the modelled kernel.

mod common;

use common::{kernel, open};
use drfq_resctrl::{
    error::Kind,
    fake::{FakeKernel, Shape},
    fs::ResctrlFs,
    groups::{Ctrl, Groups, Mon, Placed},
    info::{Info, Vendor},
    reading::{Event, Reading},
    schemata::Resource,
};

#[test]
fn a_group_is_made_with_our_prefix_and_without_throttling() {
    let kernel = kernel();
    let groups = open(&kernel);
    let slow = groups.create_ctrl("slow").unwrap();
    assert_eq!(slow.name(), "drfq_slow");
    let values = groups.schemata(&slow).unwrap();
    assert_eq!(values.values(Resource::Mb), [(0, 100), (1, 100)]);
    groups.set(&slow, Resource::Mb, &[(1, 30)]).unwrap();
    let values = groups.schemata(&slow).unwrap();
    assert_eq!(values.values(Resource::Mb), [(0, 100), (1, 30)]);
    assert_eq!(values.get(Resource::L3, 0), Some(0x7ff));
    assert_eq!(
        kernel.log(),
        ["mkdir drfq_slow", "write drfq_slow/schemata MB:1=30"]
    );
}

#[test]
fn a_new_group_is_open_whatever_limits_the_default_group() {
    let kernel = FakeKernel::new(Shape {
        schemata: "    MB:0=100;1=50\n    L3:0=7ff;1=ff\n".into(),
        ..Shape::default()
    });
    let groups = open(&kernel);
    let slow = groups.create_ctrl("slow").unwrap();
    let values = groups.schemata(&slow).unwrap();
    assert_eq!(values.values(Resource::Mb), [(0, 100), (1, 100)]);
    assert_eq!(values.values(Resource::L3), [(0, 0x7ff), (1, 0x7ff)]);
}

#[test]
fn limits_are_values_below_what_there_is_in_the_unit_of_the_machine() {
    let limits = |vendor, schemata: &str, file: Option<&str>| {
        let mut shape = Shape {
            schemata: schemata.into(),
            ..Shape::default()
        };
        let more = file.map(|path| (path.to_owned(), "\n".to_owned()));
        shape.files.extend(more);
        let kernel = FakeKernel::new(shape);
        let info = Info::read(&kernel, vendor).unwrap();
        info.limits(&open(&kernel).schemata(&Ctrl::DEFAULT).unwrap())
    };
    for (vendor, schemata, file, found) in [
        (
            Vendor::Intel,
            "MB:0=100;1=100\nL3:0=7ff;1=7ff\n",
            None,
            None,
        ),
        (
            Vendor::Intel,
            "MB:0=100;1=90\nL3:0=ff;1=7ff\n",
            None,
            Some("MB:1=90 L3:0=ff"),
        ),
        (Vendor::Amd, "MB:0=2048;1=2048\n", None, None),
        (Vendor::Amd, "MB:0=2048;1=16\n", None, Some("MB:1=16")),
        // The kernel's own loop has other values.
        (
            Vendor::Intel,
            "MB:0=90;1=90\n",
            Some("mba_MBps_event"),
            None,
        ),
        (Vendor::Intel, "nonsense\n", None, None),
    ] {
        assert_eq!(
            limits(vendor, schemata, file).as_deref(),
            found,
            "{schemata}"
        );
    }
}

#[test]
fn a_ctrl_group_with_groups_of_another_program_is_kept_without_throttling() {
    let kernel = kernel();
    let groups = open(&kernel);
    let slow = groups.create_ctrl("slow").unwrap();
    groups.set(&slow, Resource::Mb, &[(0, 10)]).unwrap();
    kernel.mkdir("drfq_slow/mon_groups/theirs").unwrap();
    groups.remove_ctrl(slow.clone()).unwrap();
    assert!(kernel.rmid("drfq_slow/mon_groups/theirs").is_some());
    let values = groups.schemata(&slow).unwrap();
    assert_eq!(values.get(Resource::Mb, 0), Some(100));
    assert_eq!(groups.create_ctrl("slow").unwrap(), slow, "used again");
}

#[test]
fn the_kernel_rounds_up_and_refuses_what_is_out_of_range() {
    let kernel = kernel();
    let groups = open(&kernel);
    let slow = groups.create_ctrl("slow").unwrap();
    groups.set(&slow, Resource::Mb, &[(0, 31)]).unwrap();
    assert_eq!(
        groups.schemata(&slow).unwrap().get(Resource::Mb, 0),
        Some(40)
    );
    let error = groups.set(&slow, Resource::Mb, &[(0, 9)]).unwrap_err();
    assert_eq!(error.kind, Kind::Refused);
    assert!(
        error.to_string().contains("out of range [10,100]"),
        "{error}"
    );
    let error = groups.set(&slow, Resource::Mb, &[(7, 50)]).unwrap_err();
    assert_eq!(error.kind, Kind::Refused, "no domain 7");
}

#[test]
fn the_default_group_is_neither_throttled_nor_removed() {
    let kernel = kernel();
    let groups = open(&kernel);
    let error = groups
        .set(&Ctrl::DEFAULT, Resource::Mb, &[(0, 50)])
        .unwrap_err();
    assert_eq!(error.kind, Kind::Foreign);
    assert_eq!(
        groups.remove_ctrl(Ctrl::DEFAULT).unwrap_err().kind,
        Kind::Foreign
    );
    assert_eq!(kernel.log(), [""; 0]);
}

#[test]
fn names_that_leave_the_directory_are_refused() {
    let kernel = kernel();
    let groups = open(&kernel);
    let long = "x".repeat(201);
    for name in ["", "a/b", "../x", "a\nb", "a b", "ü", &long] {
        assert_eq!(
            groups.create_ctrl(name).unwrap_err().kind,
            Kind::Refused,
            "{name}"
        );
        let mon = groups.create_mon(&Ctrl::DEFAULT, name);
        assert_eq!(mon.unwrap_err().kind, Kind::Refused, "{name}");
    }
    assert_eq!(kernel.log(), [""; 0]);
}

#[test]
fn ids_run_out_and_limbo_is_told_apart() {
    let kernel = FakeKernel::new(Shape {
        closids: 3,
        rmids: 4,
        ..Shape::default()
    });
    let groups = open(&kernel);
    let a = groups.create_ctrl("a").unwrap();
    groups.create_ctrl("b").unwrap();
    let error = groups.create_ctrl("c").unwrap_err();
    assert_eq!(error.kind, Kind::NoIds);
    assert!(error.to_string().contains("Out of CLOSIDs"), "{error}");
    let mon = groups.create_mon(&a, "m").unwrap();
    assert_eq!(groups.create_mon(&a, "n").unwrap_err().kind, Kind::NoIds);
    let rmid = kernel.rmid("drfq_a/mon_groups/drfq_m").unwrap();
    kernel.hold_in_limbo(rmid);
    groups.remove_mon(mon).unwrap();
    let error = groups.create_mon(&a, "m").unwrap_err();
    assert_eq!(error.kind, Kind::Limbo);
    assert!(error.to_string().contains("wait"), "{error}");
    kernel.drain_limbo();
    groups.create_mon(&a, "m").unwrap();
}

#[test]
fn an_existing_group_is_not_taken_over() {
    let kernel = kernel();
    let groups = open(&kernel);
    groups.create_ctrl("a").unwrap();
    assert_eq!(groups.create_ctrl("a").unwrap_err().kind, Kind::Exists);
}

#[test]
fn a_task_reaches_a_mon_group_of_another_class() {
    let kernel = kernel();
    let groups = open(&kernel);
    kernel.start_task(100, None);
    let slow = groups.create_ctrl("slow").unwrap();
    let mon = groups.create_mon(&slow, "m").unwrap();
    assert_eq!(groups.add_task(&mon, 100).unwrap(), Placed::Moved);
    assert_eq!(
        kernel.task_groups(100).unwrap(),
        "res:drfq_slow\nmon:drfq_m\n"
    );
    assert_eq!(groups.add_task(&mon, 100).unwrap(), Placed::Already);
    assert_eq!(groups.tasks(&mon).unwrap(), [100]);
    assert_eq!(groups.tasks(&slow).unwrap(), [100]);
    assert_eq!(groups.add_task(&slow, 100).unwrap(), Placed::Moved);
    assert_eq!(kernel.task_groups(100).unwrap(), "res:drfq_slow\nmon:\n");
    assert_eq!(groups.add_task(&Ctrl::DEFAULT, 100).unwrap(), Placed::Moved);
    assert_eq!(kernel.task_groups(100).unwrap(), "res:/\nmon:\n");
    assert_eq!(groups.add_task(&mon, 101).unwrap(), Placed::Ended);
}

#[test]
fn a_task_that_ends_while_it_is_moved_is_no_error() {
    let kernel = kernel();
    let groups = open(&kernel);
    kernel.start_task(100, None);
    let slow = groups.create_ctrl("slow").unwrap();
    kernel.fail("write", "drfq_slow/tasks", libc::ESRCH);
    assert_eq!(groups.add_task(&slow, 100).unwrap(), Placed::Ended);
}

#[test]
fn threads_that_start_meanwhile_are_moved_too() {
    let kernel = kernel();
    let groups = open(&kernel);
    let slow = groups.create_ctrl("slow").unwrap();
    kernel.start_task(1000, None);
    let mut next = 1000;
    let foreign = groups.add_tasks(&slow, || {
        // The process starts a thread after each listing, before its first one moves.
        let tids = (1000..=next).collect();
        if next < 1003 {
            next += 1;
            kernel.start_task(next, None);
        }
        tids
    });
    assert_eq!(foreign.unwrap(), [0; 0]);
    assert_eq!(groups.tasks(&slow).unwrap(), [1000, 1001, 1002, 1003]);
}

#[test]
fn a_moved_mon_group_keeps_its_rmid_and_its_tasks() {
    let kernel = kernel();
    let groups = open(&kernel);
    kernel.start_task(100, None);
    let (fast, slow) = (
        groups.create_ctrl("fast").unwrap(),
        groups.create_ctrl("slow").unwrap(),
    );
    let mut mon = groups.create_mon(&fast, "m").unwrap();
    groups.add_task(&mon, 100).unwrap();
    let rmid = kernel.rmid("drfq_fast/mon_groups/drfq_m").unwrap();
    kernel.set_reading(rmid, 1, Event::MbmTotal, Reading::Bytes(77));
    groups.move_mon(&mut mon, &slow).unwrap();
    assert_eq!(mon.parent(), &slow);
    assert_eq!(kernel.rmid("drfq_slow/mon_groups/drfq_m"), Some(rmid));
    assert_eq!(
        groups.reading(&mon, 1, Event::MbmTotal).unwrap(),
        Reading::Bytes(77)
    );
    assert_eq!(groups.tasks(&mon).unwrap(), [100]);
    groups.move_mon(&mut mon, &Ctrl::DEFAULT).unwrap();
    assert_eq!(kernel.task_groups(100).unwrap(), "res:/\nmon:drfq_m\n");
    kernel.give_cpus("mon_groups/drfq_m");
    let error = groups.move_mon(&mut mon, &slow).unwrap_err();
    assert_eq!(error.kind, Kind::NotPermitted);
    assert!(error.to_string().contains("monitors CPUs"), "{error}");
    assert_eq!(
        mon.parent(),
        &Ctrl::DEFAULT,
        "a failed move changes nothing"
    );
}

#[test]
fn each_reading_of_the_kernel_reaches_the_caller() {
    let kernel = kernel();
    let groups = open(&kernel);
    let mon = groups.create_mon(&Ctrl::DEFAULT, "m").unwrap();
    let rmid = kernel.rmid("mon_groups/drfq_m").unwrap();
    for reading in [
        Reading::Bytes(5),
        Reading::Unavailable,
        Reading::Unassigned,
        Reading::Error,
    ] {
        kernel.set_reading(rmid, 0, Event::MbmTotal, reading);
        assert_eq!(groups.reading(&mon, 0, Event::MbmTotal).unwrap(), reading);
    }
    let offline = groups.reading(&mon, 9, Event::MbmTotal).unwrap_err();
    assert_eq!(offline.kind, Kind::Gone, "the domain has no online CPU");
}

#[test]
fn the_sum_of_a_ctrl_group_falls_when_a_mon_group_goes() {
    let kernel = kernel();
    let groups = open(&kernel);
    let a = groups.create_ctrl("a").unwrap();
    let mon = groups.create_mon(&a, "m").unwrap();
    for (path, bytes) in [("drfq_a", 10), ("drfq_a/mon_groups/drfq_m", 32)] {
        let rmid = kernel.rmid(path).unwrap();
        kernel.set_reading(rmid, 0, Event::MbmTotal, Reading::Bytes(bytes));
    }
    assert_eq!(
        groups.reading(&a, 0, Event::MbmTotal).unwrap(),
        Reading::Bytes(42)
    );
    groups.remove_mon(mon).unwrap();
    assert_eq!(
        groups.reading(&a, 0, Event::MbmTotal).unwrap(),
        Reading::Bytes(10)
    );
}

#[test]
fn counters_are_assigned_until_there_are_none() {
    let kernel = FakeKernel::new(Shape {
        counters: Some(3),
        ..Shape::default()
    });
    let groups = open(&kernel);
    let a = groups.create_mon(&Ctrl::DEFAULT, "a").unwrap();
    let b = groups.create_mon(&Ctrl::DEFAULT, "b").unwrap();
    assert_eq!(
        groups.reading(&a, 0, Event::MbmTotal).unwrap(),
        Reading::Bytes(0)
    );
    assert_eq!(
        groups.reading(&b, 0, Event::MbmLocal).unwrap(),
        Reading::Unassigned
    );
    let error = groups.assign_counter(&b, Event::MbmLocal).unwrap_err();
    assert_eq!(error.kind, Kind::NoIds);
    groups.remove_mon(a).unwrap();
    groups.assign_counter(&b, Event::MbmLocal).unwrap();
    assert_eq!(
        groups.reading(&b, 0, Event::MbmLocal).unwrap(),
        Reading::Bytes(0)
    );
}

#[test]
fn a_group_gives_its_counters_to_others() {
    let kernel = FakeKernel::new(Shape {
        counters: Some(2),
        ..Shape::default()
    });
    let groups = open(&kernel);
    let a = groups.create_ctrl("a").unwrap();
    groups.release_counters(&a, Event::MbmLocal).unwrap();
    let b = groups.create_mon(&a, "b").unwrap();
    let reading = |group: &Mon| groups.reading(group, 0, Event::MbmTotal).unwrap();
    assert_eq!(reading(&b), Reading::Bytes(0));
    groups.release_counters(&b, Event::MbmTotal).unwrap();
    assert_eq!(reading(&b), Reading::Unassigned);
    groups.remove_ctrl(a).unwrap();
    let gone = groups.release_counters(&b, Event::MbmTotal).unwrap_err();
    assert_eq!(gone.kind, Kind::Gone);
}

#[test]
fn leftovers_of_a_killed_process_are_removed_at_the_next_start() {
    let kernel = kernel();
    kernel.start_task(100, None);
    let groups = open(&kernel);
    let slow = groups.create_ctrl("slow").unwrap();
    groups.create_mon(&Ctrl::DEFAULT, "n").unwrap();
    groups
        .add_task(&groups.create_mon(&slow, "m").unwrap(), 100)
        .unwrap();
    std::mem::forget(groups);
    kernel.mkdir("other").unwrap();
    let _groups = Groups::open(&kernel).unwrap();
    assert_eq!(kernel.snapshot(|path| path.contains("drfq_")), "");
    assert_eq!(kernel.task_groups(100).unwrap(), "res:/\nmon:\n");
    assert!(kernel.rmid("other").is_some());
}

#[test]
fn dropping_the_owner_restores_everything() {
    let kernel = kernel();
    let before = kernel.snapshot(|_| true);
    {
        let groups = open(&kernel);
        let slow = groups.create_ctrl("slow").unwrap();
        groups.set(&slow, Resource::Mb, &[(0, 10)]).unwrap();
        groups.create_mon(&slow, "m").unwrap();
        groups.create_mon(&Ctrl::DEFAULT, "n").unwrap();
        groups.add_task(&slow, std::process::id()).unwrap();
        assert_ne!(kernel.snapshot(|_| true), before);
    }
    assert_eq!(kernel.snapshot(|_| true), before);
}

#[test]
fn tasks_of_other_programs_stay_where_they_are() {
    let kernel = kernel();
    kernel.mkdir("theirs").unwrap();
    kernel.mkdir("mon_groups/watched").unwrap();
    for (tid, tasks) in [(100, "theirs/tasks"), (101, "mon_groups/watched/tasks")] {
        kernel.start_task(tid, None);
        kernel.write(tasks, &format!("{tid}\n")).unwrap();
    }
    kernel.start_task(102, None);
    let groups = open(&kernel);
    let slow = groups.create_ctrl("slow").unwrap();
    let foreign = groups.add_tasks(&slow, || vec![100, 101, 102]).unwrap();
    assert_eq!(foreign, [100, 101]);
    assert_eq!(groups.tasks(&slow).unwrap(), [102]);
    assert_eq!(kernel.task_groups(100).unwrap(), "res:theirs\nmon:\n");
    assert_eq!(kernel.task_groups(101).unwrap(), "res:/\nmon:watched\n");
}

#[test]
fn a_foreign_group_inside_ours_survives_without_throttling() {
    let kernel = kernel();
    let groups = open(&kernel);
    let slow = groups.create_ctrl("slow").unwrap();
    groups.create_mon(&slow, "m").unwrap();
    groups
        .set(&slow, Resource::Mb, &[(0, 10), (1, 20)])
        .unwrap();
    kernel.mkdir("drfq_slow/mon_groups/theirs").unwrap();
    groups.clean().unwrap();
    assert!(kernel.rmid("drfq_slow/mon_groups/theirs").is_some());
    assert_eq!(kernel.rmid("drfq_slow/mon_groups/drfq_m"), None);
    let values = groups.schemata(&slow).unwrap();
    assert_eq!(values.values(Resource::Mb), [(0, 100), (1, 100)]);
}

#[test]
fn a_group_that_vanishes_is_reported_as_gone() {
    let kernel = kernel();
    let groups = open(&kernel);
    kernel.start_task(100, None);
    let slow = groups.create_ctrl("slow").unwrap();
    let mut mon = groups.create_mon(&slow, "m").unwrap();
    kernel.rmdir("drfq_slow").unwrap();
    let kinds = [
        groups
            .set(&slow, Resource::Mb, &[(0, 50)])
            .unwrap_err()
            .kind,
        groups.reading(&mon, 0, Event::MbmTotal).unwrap_err().kind,
        groups.add_task(&slow, 100).unwrap_err().kind,
        groups.move_mon(&mut mon, &Ctrl::DEFAULT).unwrap_err().kind,
        groups.create_mon(&slow, "n").unwrap_err().kind,
        groups.schemata(&slow).unwrap_err().kind,
    ];
    assert_eq!(kinds, [Kind::Gone; 6]);
    groups.remove_mon(mon).unwrap();
    groups.remove_ctrl(slow).unwrap();
    groups.clean().unwrap();
}

#[test]
fn unmounting_underneath_is_told_apart_and_ends_cleanly() {
    let kernel = kernel();
    let groups = open(&kernel);
    let slow = groups.create_ctrl("slow").unwrap();
    kernel.unmount();
    let kinds = [
        groups
            .set(&slow, Resource::Mb, &[(0, 50)])
            .unwrap_err()
            .kind,
        groups.reading(&slow, 0, Event::MbmTotal).unwrap_err().kind,
        groups.add_task(&slow, 100).unwrap_err().kind,
        groups.create_ctrl("x").unwrap_err().kind,
    ];
    assert_eq!(kinds, [Kind::Unmounted; 4]);
    groups.remove_ctrl(slow).unwrap();
    groups.clean().unwrap();
    drop(groups);
    assert_eq!(Groups::open(&kernel).unwrap_err().kind, Kind::Unmounted);
}

#[test]
fn a_read_only_file_system_is_refused_in_plain_words() {
    let kernel = kernel();
    let groups = open(&kernel);
    kernel.make_read_only();
    let error = groups.create_ctrl("slow").unwrap_err();
    assert_eq!(error.kind, Kind::NotPermitted);
    let text = error.to_string();
    assert!(
        text.contains("Read-only") && text.contains("read-write"),
        "{text}"
    );
}

#[test]
fn a_kernel_that_hides_the_groups_of_tasks_is_refused() {
    let kernel = kernel();
    kernel.fail("task_groups", &std::process::id().to_string(), libc::ENOENT);
    let error = Groups::open(&kernel).unwrap_err().to_string();
    assert!(error.contains("CONFIG_PROC_CPU_RESCTRL"), "{error}");
}

#[test]
fn one_group_that_cannot_be_removed_does_not_keep_the_others() {
    let kernel = kernel();
    let groups = open(&kernel);
    groups.create_ctrl("a").unwrap();
    groups.create_ctrl("b").unwrap();
    groups.create_mon(&Ctrl::DEFAULT, "m").unwrap();
    kernel.fail("rmdir", "drfq_a", libc::EPERM);
    assert_eq!(groups.clean().unwrap_err().kind, Kind::NotPermitted);
    assert_eq!(kernel.rmid("drfq_b"), None);
    assert_eq!(kernel.rmid("mon_groups/drfq_m"), None);
}

#[test]
fn a_ctrl_group_whose_children_cannot_be_listed_is_kept() {
    let kernel = FakeKernel::new(Shape::default());
    kernel.mkdir("drfq_a").unwrap();
    kernel.fail("list", "drfq_a/mon_groups", libc::EIO);
    let _groups = Groups::open(&kernel).unwrap();
    assert!(kernel.rmid("drfq_a").is_some());
}
