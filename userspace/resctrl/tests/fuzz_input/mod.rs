// SPDX-License-Identifier: GPL-2.0-only
//! What must hold for any input: parsers keep what they do not know, and no sequence of
//! operations touches groups of other programs.

use std::time::Duration;

use drfq_resctrl::{
    fake::{FakeKernel, Shape},
    fs::ResctrlFs,
    groups::{Ctrl, Groups, Mon, PREFIX},
    info::{Info, Vendor},
    mount::Mount,
    reading::{Meter, Reading},
    schemata::{Resource, Schemata},
    task::TaskGroups,
};

/// Checks an input. Its first byte selects what it is.
pub fn check(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(data);
    match kind % 4 {
        0 => parsers(&text),
        1 => schemata(&text),
        2 => info(&text),
        _ => operations(data),
    }
}

fn parsers(text: &str) {
    let reading = Reading::parse(text);
    let mut meter = Meter::new(u64::MAX);
    let _ = meter.take(reading, Duration::from_secs(1));
    let _ = meter.take(reading, Duration::MAX);
    let _ = TaskGroups::parse(text);
    let _ = Mount::parse(text);
}

fn schemata(text: &str) {
    let now = Schemata::parse(text);
    assert_eq!(now.to_string(), text, "unchanged text is kept");
    assert_eq!(now.changes(&now), None);
    let mut wanted = now.clone();
    for resource in Resource::ALL {
        for (domain, value) in now.values(resource) {
            wanted.set(resource, *domain, value ^ 5).unwrap();
        }
    }
    let again = Schemata::parse(&wanted.to_string());
    let command = Schemata::parse(&now.changes(&wanted).unwrap_or_default());
    for resource in Resource::ALL {
        assert_eq!(again.values(resource), wanted.values(resource));
        // A second line of a resource is kept, but only the first one counts.
        for (domain, value) in command.values(resource) {
            assert_eq!(wanted.get(resource, *domain), Some(*value));
        }
    }
}

/// Each line becomes the content of a file of `info`.
fn info(text: &str) {
    let mut shape = Shape::default();
    let mut lines = text.split('\n');
    for (_, content) in &mut shape.files {
        *content = lines.next().unwrap_or_default().replace('|', "\n");
    }
    for name in ["mbm_assign_mode", "num_mbm_cntrs"] {
        let content = lines.next().unwrap_or_default().replace('|', "\n");
        shape.files.push((format!("info/L3_MON/{name}"), content));
    }
    let directory = lines.next().unwrap_or_default().replace('/', "");
    shape
        .files
        .push((format!("mon_data/{directory}/x"), String::new()));
    shape.schemata = lines.collect::<Vec<_>>().join("\n");
    for vendor in [Vendor::Intel, Vendor::Amd, Vendor::Arm] {
        let info = Info::read(&FakeKernel::new(shape.clone()), vendor).unwrap();
        let bandwidth = info.bandwidth.unwrap();
        assert_eq!(
            bandwidth.steps().take(300).max(),
            bandwidth.steps().take(300).last()
        );
    }
}

const FOREIGN: [&str; 3] = ["theirs", "theirs/mon_groups/w", "mon_groups/w"];

fn with_foreign_groups() -> FakeKernel {
    let kernel = FakeKernel::new(Shape {
        closids: 5,
        rmids: 9,
        ..Shape::default()
    });
    for (index, path) in FOREIGN.iter().enumerate() {
        kernel.mkdir(path).unwrap();
        let tid = 100 + u32::try_from(index).unwrap();
        kernel.start_task(tid, None);
        let ctrl = path.split_once("/mon_groups").map_or("", |(ctrl, _)| ctrl);
        if !ctrl.is_empty() {
            kernel
                .write(&format!("{ctrl}/tasks"), &format!("{tid}\n"))
                .unwrap();
        }
        kernel
            .write(&format!("{path}/tasks"), &format!("{tid}\n"))
            .unwrap();
    }
    for tid in 103..107 {
        kernel.start_task(tid, None);
    }
    kernel
}

fn foreign_state(kernel: &FakeKernel) -> String {
    let groups = kernel.snapshot(|path| !path.starts_with(PREFIX) && !path.contains("/drfq_"));
    // Our tasks come and go in the default group, the first line.
    let default = kernel.read("schemata").unwrap_or_default();
    groups
        .split_once('\n')
        .map_or(default.clone(), |(_, rest)| default + rest)
}

/// Two bytes are an operation: of ours, or of another program on our groups.
fn operations(data: &[u8]) {
    let kernel = with_foreign_groups();
    let before = foreign_state(&kernel);
    let skip = kernel.log().len();
    let groups = Groups::open(&kernel).unwrap();
    let mut ctrls: Vec<Ctrl> = vec![Ctrl::DEFAULT];
    let mut mons: Vec<Mon> = Vec::new();
    for pair in data.chunks_exact(2).take(200) {
        let (what, number) = (pair[0] % 10, usize::from(pair[1]));
        let ctrl = ctrls[number % ctrls.len()].clone();
        let mon_place = (!mons.is_empty()).then(|| number % mons.len().max(1));
        match (what, mon_place) {
            (0, _) => ctrls.extend(groups.create_ctrl(&format!("c{}", number % 7))),
            (1, _) => mons.extend(groups.create_mon(&ctrl, &format!("m{}", number % 11))),
            (2, Some(mon)) => drop(groups.move_mon(&mut mons[mon], &ctrl)),
            (3, Some(mon)) => drop(groups.remove_mon(mons.remove(mon))),
            (4, _) => {
                drop(groups.add_task(&ctrl, 100 + u32::from(pair[1] % 8)));
            }
            (5, Some(mon)) => {
                drop(groups.add_task(&mons[mon], 100 + u32::from(pair[1] % 8)));
            }
            (6, _) => drop(groups.set(&ctrl, Resource::Mb, &[(0, u32::from(pair[1]))])),
            (7, _) => drop(groups.clean()),
            // Another program removes a group of ours, or makes one in it.
            (8, _) if !ctrl.name().is_empty() => drop(kernel.rmdir(ctrl.name())),
            (9, _) if !ctrl.name().is_empty() => {
                drop(kernel.mkdir(&format!("{}/mon_groups/other", ctrl.name())));
            }
            _ => {}
        }
    }
    end(&kernel, groups, skip);
    assert_eq!(foreign_state(&kernel), before);
}

/// Removes everything and looks at what was done.
fn end(kernel: &FakeKernel, groups: Groups<&FakeKernel>, skip: usize) {
    drop(groups);
    for name in kernel.list("").unwrap() {
        if name.starts_with(PREFIX) {
            let inside = kernel.list(&format!("{name}/mon_groups")).unwrap();
            assert_eq!(
                inside,
                ["other"],
                "only what another program has made keeps {name}"
            );
            let values = Schemata::parse(&kernel.read(&format!("{name}/schemata")).unwrap());
            assert_eq!(values.values(Resource::Mb), [(0, 100), (1, 100)]);
        }
    }
    for change in &kernel.log()[skip..] {
        let path = change.split(' ').nth(1).unwrap();
        let ours = path.split('/').any(|part| part.starts_with(PREFIX));
        assert!(ours || path == "tasks", "{change}");
    }
}
