// SPDX-License-Identifier: GPL-2.0-only
//! Situations, and what their explanation must and must not say.

use std::sync::Arc;

use drfq_stats::{
    mba_report::MbaGroup,
    report::{System, Task},
};

use super::*;
use crate::{
    fixture,
    snapshot::{Cgroup, CpuTime, Process},
};

/// A task that wants a CPU all the time and gets its fair half of one.
fn hog(pid: u32) -> Task {
    Task {
        pid,
        tgid: pid,
        comm: format!("hog{pid}"),
        weight: 1.0,
        state: "queued".into(),
        cpu_pct: 50.0,
        fair_pct: 50.0,
        backlogged: 1,
        wait_pct: 50.0,
        wait_per_run_ns: 4e6,
        ..Task::default()
    }
}

/// Two hogs on one CPU.
fn contended() -> Snapshot {
    let mut snapshot = Snapshot::default();
    snapshot.report.tasks = vec![hog(1), hog(2)];
    snapshot.report.system = System {
        interval_ns: 1_000_000_000,
        nr_cpus: 1,
        busy_cpus: 1,
        mem_measured: 1,
        mem_bytes_per_s: 10_000_000_000,
        ..System::default()
    };
    snapshot.cpus = vec![CpuTime {
        busy_pct: 100.0,
        ..CpuTime::default()
    }];
    for pid in [1, 2] {
        let process = Process {
            name: format!("hog{pid}"),
            user: "ada".into(),
            cgroup: "/a.slice".into(),
        };
        snapshot.processes.insert(pid, Arc::new(process));
    }
    let cgroup = Cgroup {
        cpu_weight: Some(100),
    };
    snapshot.cgroups.insert("/a.slice".into(), cgroup);
    snapshot
}

/// The explanation of an entity after a change of `contended`.
#[track_caller]
fn check(entity: Entity, change: fn(&mut Snapshot), says: &[&str], not: &[&str]) {
    let mut snapshot = contended();
    change(&mut snapshot);
    let mut history = History::default();
    history.push(snapshot);
    let text = explain(&history, 0, &entity).text();
    for part in says {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
    for part in not {
        assert!(!text.contains(part), "{part} should not be in:\n{text}");
    }
}

const TASK: Entity = Entity::Task(1);

#[test]
fn a_task_in_a_fair_queue_is_held_back_by_its_weight() {
    let says = [
        "It asked for 100 % of a CPU, all the time.",
        "That is its fair share (50 %).",
        "The CPUs are contended.",
        "It competes with hog2 2 (50 %).",
        "The queue for CPUs holds it back: it waited 50 % of the time, 4.0 ms each time, as its \
         weight 1.00",
        "sudo renice -n -5 -p 1",
    ];
    check(TASK, |_| {}, &says, &["throttle", "--memory-bandwidth"]);
}

#[test]
fn a_task_below_its_share_is_told_so() {
    let starve = |snapshot: &mut Snapshot| snapshot.report.tasks[0].cpu_pct = 40.0;
    check(
        TASK,
        starve,
        &["20 % less than its fair share of 50 %"],
        &[],
    );
}

#[test]
fn a_task_above_its_share_is_told_so() {
    let more = |snapshot: &mut Snapshot| snapshot.report.tasks[0].cpu_pct = 60.0;
    check(TASK, more, &["20 % more than its fair share of 50 %"], &[]);
}

#[test]
fn a_sleeping_task_asked_for_nothing() {
    let sleep = |snapshot: &mut Snapshot| {
        snapshot.report.tasks[0] = Task {
            cpu_pct: 0.0,
            wait_pct: 0.0,
            backlogged: 0,
            state: "blocked".into(),
            ..hog(1)
        };
    };
    let says = ["asked for nothing", "it waits for an event"];
    check(TASK, sleep, &says, &["fair share", "queue"]);
}

#[test]
fn alone_on_idle_cpus_nothing_holds_a_task_back() {
    let idle = |snapshot: &mut Snapshot| {
        snapshot.report.tasks.truncate(1);
        let task = &mut snapshot.report.tasks[0];
        (task.cpu_pct, task.fair_pct, task.wait_pct) = (100.0, 100.0, 0.0);
        snapshot.report.system.nr_cpus = 4;
        snapshot.cpus[0].busy_pct = 25.0;
    };
    let says = [
        "Neither the CPUs nor the memory are full.",
        "Nothing holds it back.",
    ];
    check(TASK, idle, &says, &["competes"]);
}

#[test]
fn a_held_task_owes_for_dma() {
    let hold = |snapshot: &mut Snapshot| {
        let task = &mut snapshot.report.tasks[0];
        (task.held_pct, task.dma_bytes_per_s, task.mem_bytes_per_s) = (30.0, 2e9, 3e9);
    };
    let says = [
        "Delayed wake-up holds it back (30 % of the time)",
        "2.00 GB/s of it by DMA",
    ];
    check(TASK, hold, &says, &["The queue"]);
}

fn saturate(snapshot: &mut Snapshot) {
    let system = &mut snapshot.report.system;
    system.nr_cpus = 4;
    system.busy_cpus = 2;
    snapshot.cpus[0].busy_pct = 50.0;
    for task in &mut snapshot.report.tasks {
        (task.cpu_pct, task.fair_pct, task.wait_pct) = (100.0, 100.0, 0.0);
        task.mem_bytes_per_s = 4.8e9;
    }
}

#[test]
fn a_full_memory_without_throttles_is_named_with_the_remedy() {
    let says = [
        "memory is its dominant resource with 48.0 % of the machine",
        "Memory bandwidth is contended: 9.60 GB/s of 10.0 GB/s.",
        "It competes with hog2 2 (48 %).",
        "Its cache misses wait for the full memory; nothing throttles the others.",
        "stop scx_drfq\n",
        "sudo scx_drfq calibrate\n",
        "sudo scx_drfq --mba on\n",
    ];
    check(TASK, saturate, &says, &["The queue"]);
}

/// The explanation of a task in a full memory, of which nothing is throttled.
fn explain_full(change: impl Fn(&mut Mba)) -> Explanation {
    let mut snapshot = contended();
    saturate(&mut snapshot);
    change(&mut snapshot.report.system.mba);
    let mut history = History::default();
    history.push(snapshot);
    explain(&history, 0, &TASK)
}

#[test]
fn a_start_with_throttles_is_offered_where_it_may_throttle() {
    for (state, offered) in [
        ("off", true),
        ("observe", true),
        ("observe; last failure: no iterator", true),
        (&format!("observe: {NOT_MEASURED}; measure it"), true),
        (&format!("observe: {NO_SCALE}; measure it"), true),
        ("observe: another program has classes in resctrl: 1", false),
        ("observe: resctrl does not throttle", false),
        ("on", false),
        ("hold", false),
    ] {
        let found = explain_full(|mba| mba.state = state.into());
        let text = found.text();
        assert_eq!(text.contains("--mba on"), offered, "{text}");
        assert_eq!(text.contains("calibrate\n"), offered, "{text}");
        assert_eq!(found.paragraph().contains(" rest"), !offered, "{text}");
    }
}

#[test]
fn a_loop_that_rests_tells_why() {
    for (state, saturated, runnable, says) in [
        (
            "on",
            1,
            6.5,
            "Throttles (MBA) rest while more tasks want a CPU (6.5) than there are CPUs (4), as \
             virtual time enforces the shares then.",
        ),
        (
            "hold; last failure: x",
            1,
            9.0,
            "Paces rest while more tasks want a CPU (9.0) than there are CPUs (4)",
        ),
        (
            "on",
            0,
            2.0,
            "Throttles (MBA) rest while the traffic that they measure is below what counts as full.",
        ),
        (
            "observe: another program has classes in resctrl: 1",
            0,
            2.0,
            "Throttles (MBA) rest: another program has classes in resctrl: 1.",
        ),
    ] {
        let change = |mba: &mut Mba| {
            (mba.state, mba.saturated, mba.runnable) = (state.into(), saturated, runnable);
        };
        let text = explain_full(change).text();
        assert!(text.contains(says), "{says} is missing in:\n{text}");
    }
}

#[test]
fn a_throttled_group_is_told_its_level() {
    let throttle = |snapshot: &mut Snapshot| {
        saturate(snapshot);
        let mba = &mut snapshot.report.system.mba;
        (mba.domains, mba.saturated, mba.acting) = (1, 1, 1);
        (mba.bytes_per_s, mba.capacity_bytes_per_s) = (9.6e9, 1e10);
        mba.groups = vec![MbaGroup {
            name: "/a.slice".into(),
            level_pct: 40.0,
            ..MbaGroup::default()
        }];
    };
    let says = [
        "A throttle (MBA) holds it back: level 40 %",
        "dominant share is the largest",
    ];
    check(TASK, throttle, &says, &["--mba on"]);
    check(
        Entity::Cgroup("/a.slice".into()),
        throttle,
        &says,
        &["competes with hog"],
    );
}

#[test]
fn a_group_with_a_pace_is_not_told_of_mba() {
    let pace = |snapshot: &mut Snapshot| {
        saturate(snapshot);
        let mba = &mut snapshot.report.system.mba;
        (mba.domains, mba.saturated, mba.acting) = (1, 1, 1);
        mba.state = "hold".into();
        mba.groups = vec![MbaGroup {
            name: "/a.slice".into(),
            level_pct: 40.0,
            ..MbaGroup::default()
        }];
    };
    check(TASK, pace, &["A pace holds it back: level 40 %"], &["MBA"]);
}

#[test]
fn a_throttled_task_waits_for_a_limit_of_its_group() {
    let limit = |snapshot: &mut Snapshot| {
        let task = &mut snapshot.report.tasks[0];
        (task.state, task.cpu_pct, task.wait_pct) = ("throttled".into(), 0.0, 0.0);
    };
    let says = ["waited for a quota or a pace", "A limit of its group"];
    check(TASK, limit, &says, &["asked for nothing", "an event"]);
}

#[test]
fn a_loop_that_knows_no_capacity_leaves_the_judgement_to_m() {
    let observe = |snapshot: &mut Snapshot| {
        saturate(snapshot);
        let mba = &mut snapshot.report.system.mba;
        (mba.domains, mba.bytes_per_s) = (1, 3e9);
    };
    let says = ["Neither the CPUs nor the memory are full."];
    check(TASK, observe, &says, &["of 0 B/s"]);
    let full = |snapshot: &mut Snapshot| {
        saturate(snapshot);
        let mba = &mut snapshot.report.system.mba;
        (mba.domains, mba.bytes_per_s) = (1, 9.6e9);
    };
    check(TASK, full, &["contended: 9.60 GB/s of 10.0 GB/s."], &[]);
}

#[test]
fn both_resources_can_be_contended() {
    let both = |snapshot: &mut Snapshot| {
        saturate(snapshot);
        snapshot.cpus[0].busy_pct = 99.0;
    };
    check(
        TASK,
        both,
        &["The CPUs and memory bandwidth are contended (9.60 GB/s"],
        &[],
    );
}

#[test]
fn unmeasured_traffic_and_an_unknown_bandwidth_are_told() {
    let unmeasured = |snapshot: &mut Snapshot| {
        let system = &mut snapshot.report.system;
        (system.mem_measured, system.mem_bytes_per_s) = (0, 0);
    };
    let says = [
        "its memory traffic is not measured",
        "stop scx_drfq\n",
        "sudo scx_drfq calibrate\n",
        "sudo scx_drfq\n",
    ];
    check(TASK, unmeasured, &says, &["--mba on"]);
}

#[test]
fn a_cgroup_is_weighed_by_its_file_and_a_unit_by_systemd() {
    let unit = Entity::Cgroup("/a.slice".into());
    let says = [
        "a.slice (/a.slice)",
        "Its 2 tasks asked for 200 % of a CPU.",
        "Nothing else competes with it.",
        "its cpu.weight 100 gives it no more",
        "sudo systemctl set-property --runtime 'a.slice' CPUWeight=200",
    ];
    check(unit, |_| {}, &says, &["renice"]);
    let plain = Entity::Cgroup("/docker/x".into());
    check(
        plain,
        |snapshot| rename(snapshot, "/docker/x"),
        &["echo 200 | sudo tee '/sys/fs/cgroup/docker/x/cpu.weight'"],
        &[],
    );
}

/// Moves all tasks and their weight to another cgroup.
fn rename(snapshot: &mut Snapshot, path: &str) {
    for process in snapshot.processes.values_mut() {
        Arc::make_mut(process).cgroup = path.into();
    }
    let cgroup = snapshot.cgroups.remove("/a.slice").unwrap();
    snapshot.cgroups.insert(path.into(), cgroup);
}

#[test]
fn a_unit_of_a_user_s_manager_is_weighed_by_its_file() {
    const UNIT: &str = "/user.slice/user-7.slice/user@7.service/app.slice/x.service";
    let tee = format!("echo 200 | sudo tee '/sys/fs/cgroup{UNIT}/cpu.weight'");
    let below = |snapshot: &mut Snapshot| rename(snapshot, UNIT);
    check(
        Entity::Cgroup(UNIT.into()),
        below,
        &[&tee],
        &["systemctl set-property"],
    );
    // The manager itself is the system's.
    const MANAGER: &str = "/user.slice/user-7.slice/user@7.service";
    let manager = |snapshot: &mut Snapshot| rename(snapshot, MANAGER);
    let says = ["set-property --runtime 'user@7.service' CPUWeight=200"];
    check(Entity::Cgroup(MANAGER.into()), manager, &says, &["tee"]);
}

#[test]
fn no_file_is_named_for_a_cgroup_without_a_weight() {
    let weightless = |snapshot: &mut Snapshot| {
        rename(snapshot, "/docker/x");
        snapshot.cgroups.clear();
    };
    let says = ["Its 2 tasks asked for"];
    check(
        Entity::Cgroup("/docker/x".into()),
        weightless,
        &says,
        &["tee"],
    );
}

#[test]
fn a_process_of_many_threads_is_reniced_as_a_whole() {
    let threads = |snapshot: &mut Snapshot| snapshot.report.tasks[1].tgid = 1;
    let says = ["Its 2 tasks asked for 200 %", "$(ls /proc/1/task)"];
    check(Entity::Process(1), threads, &says, &[]);
}

#[test]
fn what_has_ended_or_never_ran_is_told_apart() {
    check(
        Entity::Task(9),
        |_| {},
        &["it does not exist"],
        &["has ended"],
    );
    let mut history = History::default();
    history.push(contended());
    history.push(Snapshot::default());
    assert_eq!(explain(&history, 0, &TASK).paragraph(), "It has ended.");
    assert!(
        explain(&history, 1, &TASK)
            .paragraph()
            .contains("fair share")
    );
    let none = explain(&History::default(), 0, &TASK);
    assert_eq!(none.paragraph(), "There is no measurement yet.");
}

#[test]
fn a_change_is_compared_with_the_time_before() {
    let mut history = History::default();
    for _ in 0..9 {
        history.push(contended());
    }
    let mut snapshot = contended();
    snapshot.report.tasks[0].cpu_pct = 10.0;
    history.push(snapshot);
    let text = explain(&history, 0, &TASK).paragraph();
    assert!(
        text.contains("Over the last 9 intervals it had 50 %"),
        "{text}"
    );
    let text = explain(&history, 1, &TASK).paragraph();
    assert!(!text.contains("Over the last"), "{text}");
}

#[test]
fn a_hostile_name_cannot_leave_its_quotes() {
    let mut snapshot = contended();
    rename(&mut snapshot, "/x'; reboot; '");
    let mut history = History::default();
    history.push(snapshot);
    let entity = Entity::Cgroup("/x'; reboot; '".into());
    let commands = explain(&history, 0, &entity).commands;
    assert!(!commands.is_empty());
    for (command, _) in commands {
        assert_eq!(command.matches('\'').count() % 2, 0, "{command}");
        assert!(!command.contains("';"), "{command}");
    }
}

#[test]
fn the_noisy_neighbour_of_the_fixture_is_named_by_its_victim() {
    let mut history = History::default();
    (0..5).for_each(|second| history.push(fixture::snapshot(second)));
    let text = explain(&history, 0, &Entity::Process(311)).paragraph();
    assert!(text.contains("It competes with analytics 901"), "{text}");
}

#[test]
fn what_a_rule_replaces_is_not_promised() {
    let rules = |snapshot: &mut Snapshot| snapshot.report.system.weight_rules = 1;
    let unit = Entity::Cgroup("/a.slice".into());
    let says = [
        "its weight (cpu.weight 100, if no rule replaces it) gives it no more",
        "doubles its weight until the next boot; if a rule of /etc/scx_drfq.toml",
    ];
    check(unit, rules, &says, &["as its cpu.weight"]);
}

#[test]
fn with_the_weights_of_the_thesis_a_higher_nice_value_weighs_more() {
    let thesis = |snapshot: &mut Snapshot| snapshot.report.system.thesis_weights = 1;
    let says = ["renice -n 2 -p 1", "nice -2 makes it a third"];
    check(TASK, thesis, &says, &["-n -5"]);
}
