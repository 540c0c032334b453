// SPDX-License-Identifier: GPL-2.0-only
//! What the tests of the loop make of the model of the kernel's resctrl, and ask it.

use drfq_resctrl::{
    fake::{FakeKernel, Shape},
    fs::ResctrlFs as _,
    schemata::{Resource, Schemata},
};

/// A machine with MBA and MBM in one domain.
pub fn shape(closids: u32, rmids: u32) -> Shape {
    let mut shape = Shape {
        closids,
        rmids,
        schemata: "    MB:0=100\n    L3:0=7ff\n".into(),
        domains: vec![0],
        ..Shape::default()
    };
    for (path, text) in &mut shape.files {
        match path.as_str() {
            "info/MB/num_closids" => *text = format!("{closids}\n"),
            "info/L3_MON/num_rmids" => *text = format!("{rmids}\n"),
            _ => {}
        }
    }
    shape
}

/// The class and the MON group of a task.
pub fn place(kernel: &FakeKernel, tid: u32) -> (String, String) {
    let text = kernel.task_groups(tid).unwrap();
    let word = |prefix: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(prefix));
        line.unwrap_or_default().trim_matches('/').to_owned()
    };
    (word("res:"), word("mon:"))
}

/// The level of a task's class in domain 0, 0 to 1.
pub fn level(kernel: &FakeKernel, tid: u32) -> f64 {
    level_in(kernel, tid, 0)
}

/// The same in another domain.
pub fn level_in(kernel: &FakeKernel, tid: u32, domain: u32) -> f64 {
    let class = place(kernel, tid).0;
    let values = Schemata::parse(&kernel.read(&format!("{class}/schemata")).unwrap());
    f64::from(values.get(Resource::Mb, domain).unwrap()) / 100.0
}
