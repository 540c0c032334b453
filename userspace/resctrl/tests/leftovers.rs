// SPDX-License-Identifier: GPL-2.0-only
//! Groups that could not be removed, or must remain, on the modelled kernel.

mod common;

use common::{kernel, open};
use drfq_resctrl::{error::Kind, fs::ResctrlFs, groups::Ctrl, schemata::Resource};

#[test]
fn tasks_of_a_group_that_remains_return_to_the_default_group() {
    let kernel = kernel();
    let groups = open(&kernel);
    let slow = groups.create_ctrl("slow").unwrap();
    let mon = groups.create_mon(&slow, "m").unwrap();
    for tid in 100..=102 {
        kernel.start_task(tid, None);
    }
    groups.add_tasks(&slow, || vec![100]).unwrap();
    groups.add_tasks(&mon, || vec![101]).unwrap();
    kernel.mkdir("drfq_slow/mon_groups/theirs").unwrap();
    groups.add_tasks(&slow, || vec![102]).unwrap();
    kernel
        .write("drfq_slow/mon_groups/theirs/tasks", "102\n")
        .unwrap();
    groups.clean().unwrap();
    let places = [100, 101, 102].map(|tid| kernel.task_groups(tid).unwrap());
    let default = "res:/\nmon:\n";
    assert_eq!(places, [default, default, "res:drfq_slow\nmon:theirs\n"]);
}

#[test]
fn a_group_that_could_not_be_removed_is_replaced() {
    let kernel = kernel();
    let groups = open(&kernel);
    kernel.mkdir("drfq_slow").unwrap();
    kernel.mkdir("mon_groups/drfq_m").unwrap();
    kernel
        .write("drfq_slow/schemata", "MB:0=10;1=10\n")
        .unwrap();
    let slow = groups.replace_ctrl("slow").unwrap();
    let values = groups.schemata(&slow).unwrap();
    assert_eq!(values.values(Resource::Mb), [(0, 100), (1, 100)]);
    groups.replace_mon(&Ctrl::DEFAULT, "m").unwrap();
    // One in which another program has groups remains.
    kernel.mkdir("drfq_slow/mon_groups/theirs").unwrap();
    groups.set(&slow, Resource::Mb, &[(0, 10)]).unwrap();
    let slow = groups.replace_ctrl("slow").unwrap();
    let values = groups.schemata(&slow).unwrap();
    assert_eq!(values.values(Resource::Mb), [(0, 100), (1, 100)]);
}

#[test]
fn a_group_that_remains_is_not_throttled_though_its_tasks_cannot_be_moved() {
    let kernel = kernel();
    let groups = open(&kernel);
    let slow = groups.create_ctrl("slow").unwrap();
    groups.create_mon(&slow, "m").unwrap();
    kernel.start_task(100, None);
    groups.add_tasks(&slow, || vec![100]).unwrap();
    groups.set(&slow, Resource::Mb, &[(0, 10)]).unwrap();
    kernel.mkdir("drfq_slow/mon_groups/theirs").unwrap();
    kernel.fail("write", "tasks", libc::EIO);
    groups.clean().unwrap_err();
    let values = groups.schemata(&slow).unwrap();
    assert_eq!(values.values(Resource::Mb), [(0, 100), (1, 100)]);
    assert_eq!(kernel.rmid("drfq_slow/mon_groups/drfq_m"), None);
}

#[test]
fn a_lack_of_descriptors_is_not_taken_for_an_unmounted_resctrl() {
    let kernel = kernel();
    let groups = open(&kernel);
    let slow = groups.create_ctrl("slow").unwrap();
    for path in ["drfq_slow/schemata", "info/last_cmd_status"] {
        kernel.fail("read", path, libc::EMFILE);
    }
    assert_eq!(groups.schemata(&slow).unwrap_err().kind, Kind::Other);
}
