// SPDX-License-Identifier: GPL-2.0-only
//! What a new task inherits and an ending one leaves (`fork.bpf.h`).

use crate::cpu::TaskId;
use crate::engine::Sim;
use crate::ffi::{self, Flow};

impl Sim {
    /// `ops.init_task`: a task starts at V (4.8), but a forked one no earlier
    /// than its parent has got to, or a chain of short tasks would never age.
    pub(crate) fn init_task(&mut self, task: TaskId, parent: Option<TaskId>) {
        let mut start = self.vtime_local(self.tasks[task].cpu);
        if let Some(parent) = parent {
            let p = &self.tasks[parent];
            start = self.vtime_local(p.cpu);
            let mut flow = p.flow;
            let run_ns = p.report.cpu_ns - p.charged_ns;
            flow.charge(&self.config.conf, run_ns, 0, self.busy_cpus);
            start = ffi::later(start, flow.start());
        }
        let t = &mut self.tasks[task];
        t.parent = parent;
        t.flow = Flow::new(start, t.report.weight);
    }

    /// `ops.exit_task`: the parent goes on from where its child ended. So a
    /// family whose members run one after the other is one flow.
    pub(crate) fn exit_task(&mut self, task: TaskId) {
        let Some(parent) = self.tasks[task].parent else {
            return;
        };
        let mut child = self.tasks[task].flow;
        child.cap(&self.config.conf, self.v_ns);
        let flow = &mut self.tasks[parent].flow;
        flow.cpu_vt = ffi::later(flow.cpu_vt, child.start());
    }
}
