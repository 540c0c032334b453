// SPDX-License-Identifier: GPL-2.0-only
//! Makes a case that breaks an invariant as small as possible.

use crate::fuzz::{Case, Finding, judge};
use crate::trace::Step;

/// The case without one task; steps and events that concern it go as well.
fn without_task(case: &Case, gone: usize) -> Case {
    let mut smaller = case.clone();
    smaller.tasks.remove(gone);
    let shifted = |i: &mut usize| *i -= usize::from(*i > gone);
    for task in &mut smaller.tasks {
        let concerns =
            |s: &Step| matches!(s, Step::Spawn(i) | Step::Wake { spec: i, .. } if *i == gone);
        task.steps.retain(|step| !concerns(step));
        for step in &mut task.steps {
            if let Step::Spawn(i) | Step::Wake { spec: i, .. } = step {
                shifted(i);
            }
        }
    }
    smaller
}

/// The case without one group; what was in it is in the root group.
fn without_group(case: &Case, gone: usize) -> Case {
    let mut smaller = case.clone();
    let above = smaller.groups.remove(gone).parent;
    let shifted = |i: usize| i - usize::from(i > gone);
    let moved = |i: usize| if i == gone { above } else { Some(shifted(i)) };
    for group in &mut smaller.groups {
        group.parent = group.parent.and_then(moved);
    }
    for task in &mut smaller.tasks {
        task.group = task.group.filter(|i| *i != gone).map(shifted);
    }
    let events = &mut smaller.events;
    events.retain(|(_, outside)| outside.group() != Some(gone));
    for (_, outside) in events {
        if let Some(group) = outside.group_mut() {
            *group = shifted(*group);
        }
    }
    smaller
}

/// Cases that are a little smaller than this one, the smallest first.
fn smaller_cases(case: &Case) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |change: &dyn Fn(&mut Case)| {
        let mut smaller = case.clone();
        change(&mut smaller);
        cases.push(smaller);
    };
    add(&|c| c.duration_ns /= 2);
    add(&|c| c.events.clear());
    add(&|c| c.traffic.clear());
    add(&|c| c.llcs = 1);
    add(&|c| c.smt = false);
    add(&|c| c.exact_slices = false);
    add(&|c| c.skewed_ticks = false);
    add(&|c| c.memory_bytes_per_s = 0);
    add(&|c| c.resched_ns = 0);
    add(&|c| c.cpus -= 1);
    for event in 0..case.events.len() {
        add(&|c| {
            c.events.remove(event);
        });
    }
    let half = case.traffic.len() / 2;
    add(&|c| c.traffic.truncate(half));
    add(&|c| drop(c.traffic.drain(..half)));
    for event in 0..case.traffic.len() {
        add(&|c| {
            c.traffic.remove(event);
        });
    }
    for task in 0..case.tasks.len() {
        for step in 0..case.tasks[task].steps.len() {
            add(&|c| {
                c.tasks[task].steps.remove(step);
            });
            add(&|c| {
                if let Step::Run { bytes_per_s, .. } = &mut c.tasks[task].steps[step] {
                    *bytes_per_s = 0;
                }
            });
        }
        add(&|c| c.tasks[task].kthread = false);
        add(&|c| c.tasks[task].group = None);
        add(&|c| {
            if c.tasks[task].arrival_ns.is_some() {
                c.tasks[task].arrival_ns = Some(0);
            }
        });
    }
    cases.splice(0..0, (0..case.groups.len()).map(|g| without_group(case, g)));
    cases.splice(0..0, (0..case.tasks.len()).map(|t| without_task(case, t)));
    cases.retain(|smaller| smaller != case && smaller.is_valid());
    cases
}

/// Removes what is not needed for a finding of the same kind. Runs at most `runs` cases.
pub fn shrink(case: &Case, finding: &Finding, runs: usize) -> Case {
    let mut smallest = case.clone();
    let mut left = runs;
    loop {
        let mut found = None;
        for smaller in smaller_cases(&smallest) {
            if left == 0 {
                return smallest;
            }
            left -= 1;
            if judge(&smaller).is_some_and(|f| f.kind == finding.kind) {
                found = Some(smaller);
                break;
            }
        }
        match found {
            Some(smaller) => smallest = smaller,
            None => return smallest,
        }
    }
}
