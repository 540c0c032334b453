// SPDX-License-Identifier: GPL-2.0-only
//! `scx_drfq doctor`: one line per requirement, and what to do about it.

use std::{fs, io::Write, path::Path};

use anyhow::Result;
use drfq_resctrl::{
    detection::Detection,
    info::{Bandwidth, Info, Unit},
};
use drfq_sense::{
    perf_event::{EventChoice, TrafficSource},
    root,
    sched_ext::{self, SchedExt},
    topology::Topology,
    traffic_counters::TrafficCounters,
};

use crate::{
    capacity::{Capacity, Wanted},
    group_limits::{GroupLimits, Reported},
    kernel_btf::KernelBtf,
    open_files, preflight, privileges,
};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    Ok,
    /// A feature will be missing.
    Warn,
    /// The scheduler cannot run.
    Fail,
}

/// One line of the report.
struct Finding {
    verdict: Verdict,
    what: &'static str,
    text: String,
}

impl Finding {
    fn new(verdict: Verdict, what: &'static str, text: impl Into<String>) -> Self {
        Self {
            verdict,
            what,
            text: text.into(),
        }
    }
}

/// Reports on this machine. Returns whether the scheduler can run.
///
/// # Errors
/// The output cannot be written.
pub fn run(output: &mut impl Write) -> Result<bool> {
    open_files::raise_limit();
    let root = root();
    let mut findings = vec![sched_ext(&root)];
    findings.push(btf(&root));
    findings.push(tracing());
    findings.extend(occupied(&root));
    findings.push(privileged());
    match Topology::read(&root) {
        Ok(topology) => findings.extend([cpus(&topology), pmu(&topology, &root), capacity(&root)]),
        Err(error) => findings.push(Finding::new(Verdict::Fail, "CPUs", format!("{error:#}"))),
    }
    findings.push(group_limits(&root));
    findings.extend(unsupported(&root));
    findings.extend(resctrl(&Detection::new(&root)));
    write(output, &findings)?;
    Ok(findings
        .iter()
        .all(|finding| finding.verdict != Verdict::Fail))
}

fn write(output: &mut impl Write, findings: &[Finding]) -> Result<()> {
    for Finding {
        verdict,
        what,
        text,
    } in findings
    {
        let mark = match verdict {
            Verdict::Ok => "[ok]",
            Verdict::Warn => "[warn]",
            Verdict::Fail => "[FAIL]",
        };
        writeln!(output, "{mark:6} {what}: {text}")?;
    }
    Ok(())
}

fn sched_ext(root: &Path) -> Finding {
    let release = sched_ext::release(root);
    match SchedExt::detect(root) {
        SchedExt::Available { .. } => match sched_ext::isolated_domains(root) {
            Some(parameter) => {
                Finding::new(Verdict::Fail, "sched_ext", preflight::isolated(&parameter))
            }
            None => Finding::new(
                Verdict::Ok,
                "sched_ext",
                format!("built into kernel {release}"),
            ),
        },
        SchedExt::Missing { config } => Finding::new(
            Verdict::Fail,
            "sched_ext",
            preflight::no_sched_ext(&release, config.as_deref()),
        ),
    }
}

fn btf(root: &Path) -> Finding {
    match preflight::broken_btf(&sched_ext::release(root), &KernelBtf::detect()) {
        None => Finding::new(Verdict::Ok, "BTF", "valid"),
        Some(reason) => Finding::new(Verdict::Fail, "BTF", reason),
    }
}

fn tracing() -> Finding {
    if scx_utils::compat::function_tracer_available() {
        return Finding::new(Verdict::Ok, "tracing", "built in");
    }
    let text = "the kernel lacks CONFIG_FUNCTION_TRACER, without which no BPF scheduler loads; boot \
                another kernel";
    Finding::new(Verdict::Fail, "tracing", text)
}

fn occupied(root: &Path) -> Option<Finding> {
    match SchedExt::detect(root) {
        SchedExt::Missing { .. } => None,
        SchedExt::Available { loaded: None } => Some(Finding::new(
            Verdict::Ok,
            "scheduler",
            "no other scheduler is loaded",
        )),
        SchedExt::Available { .. } if preflight::is_ours_loaded(root) => {
            Some(Finding::new(Verdict::Ok, "scheduler", "scx_drfq is loaded"))
        }
        SchedExt::Available { loaded: Some(name) } => Some(Finding::new(
            Verdict::Fail,
            "scheduler",
            preflight::occupied(&name),
        )),
    }
}

fn group_limits(root: &Path) -> Finding {
    groups_kept(Reported::detect(), root)
}

fn groups_kept(reported: Reported, root: &Path) -> Finding {
    if !reported.weights {
        let text = "cpu.weight has no effect, because the kernel lacks CONFIG_EXT_GROUP_SCHED: all \
                    tasks share the CPUs by their nice values; boot another kernel";
        return Finding::new(Verdict::Warn, "cgroups", text);
    }
    if let Some(warning) = GroupLimits::detect(root).warning(reported) {
        return Finding::new(Verdict::Warn, "cgroups", warning);
    }
    let text = match (reported.quotas, reported.idle) {
        (true, true) => "cpu.weight, cpu.max and cpu.idle are kept",
        (true, false) => "cpu.weight and cpu.max are kept; cpu.idle has no effect on this kernel",
        (false, true) => "cpu.weight and cpu.idle are kept; cpu.max has no effect on this kernel",
        (false, false) => "cpu.weight is kept; cpu.max and cpu.idle have no effect on this kernel",
    };
    Finding::new(Verdict::Ok, "cgroups", text)
}

/// Features of the kernel's own scheduler that have no effect here, if the machine uses them.
fn unsupported(root: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    let autogroup = fs::read_to_string(root.join("proc/sys/kernel/sched_autogroup_enabled"));
    if autogroup.is_ok_and(|text| text.trim() == "1") {
        findings.push(Finding::new(
            Verdict::Warn,
            "autogroup",
            "sessions are not grouped while the scheduler is loaded; use cgroups with cpu.weight",
        ));
    }
    if core_scheduling(root, cookie_of) {
        findings.push(Finding::new(
            Verdict::Warn,
            "core scheduling",
            if has_hardware_threads(root) {
                "a process has a cookie; under any sched_ext scheduler, kernels without the fix of \
                 sched-ext/scx issue 3715 hang then; switch core scheduling off (cloud-hypervisor: \
                 --cpus core_scheduling=off), or hardware threads (nosmt)"
            } else {
                "cookies keep tasks apart, but tasks of different cookies have no weighted shares"
            },
        ));
    }
    findings
}

fn has_hardware_threads(root: &Path) -> bool {
    let active = fs::read_to_string(root.join("sys/devices/system/cpu/smt/active"));
    active.is_ok_and(|text| text.trim() == "1")
}

/// Whether a process has a cookie, by which the kernel keeps others off its cores. Without
/// privileges only own processes can be asked.
fn core_scheduling(root: &Path, cookie_of: impl Fn(i32) -> Option<u64>) -> bool {
    let entries = fs::read_dir(root.join("proc"))
        .into_iter()
        .flatten()
        .flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.any(|pid| cookie_of(pid).is_some_and(|cookie| cookie != 0))
}

/// The cookie of a thread, 0 for none; none if the kernel does not tell.
fn cookie_of(pid: i32) -> Option<u64> {
    let mut cookie = 0_u64;
    let (get, thread) = (libc::PR_SCHED_CORE_GET, libc::PR_SCHED_CORE_SCOPE_THREAD);
    // SAFETY: the kernel writes 8 bytes to `cookie`.
    let status = unsafe { libc::prctl(libc::PR_SCHED_CORE, get, pid, thread, &raw mut cookie) };
    (status == 0).then_some(cookie)
}

fn privileged() -> Finding {
    match privileges::missing() {
        Ok(missing) if missing.is_empty() => {
            Finding::new(Verdict::Ok, "privileges", "CAP_BPF and CAP_PERFMON")
        }
        Ok(missing) => Finding::new(
            Verdict::Fail,
            "privileges",
            preflight::unprivileged(&missing),
        ),
        Err(error) => Finding::new(Verdict::Fail, "privileges", format!("{error:#}")),
    }
}

fn cpus(topology: &Topology) -> Finding {
    let text = format!(
        "{} online, last-level caches: {}",
        topology.online.len(),
        topology.nr_llcs
    );
    Finding::new(Verdict::Ok, "CPUs", text)
}

fn capacity(root: &Path) -> Finding {
    let capacity = Capacity::find(Wanted::Auto, root);
    match capacity.advice() {
        None => Finding::new(Verdict::Ok, "memory", capacity.to_string()),
        Some(advice) => Finding::new(Verdict::Warn, "memory", advice),
    }
}

fn pmu(topology: &Topology, root: &Path) -> Finding {
    let traffic = TrafficSource {
        event: EventChoice::Auto,
        event_bytes: None,
    };
    let counters = TrafficCounters::open(&traffic, topology, root);
    let degraded = counters
        .as_ref()
        .ok()
        .and_then(|counters| counters.degraded.clone());
    match (counters, degraded) {
        (_, Some(reason)) => Finding::new(
            Verdict::Warn,
            "PMU",
            format!(
                "{reason} (for a trial use a stand-in: --perf-event page-faults --event-bytes 4096)"
            ),
        ),
        (Ok(counters), None) => {
            let text = format!("counts {}, not {}", counters.source, counters.missing());
            Finding::new(Verdict::Ok, "PMU", text)
        }
        (Err(error), None) => Finding::new(Verdict::Warn, "PMU", format!("{error:#}")),
    }
}

fn resctrl(found: &Detection) -> Vec<Finding> {
    let Some(info) = found.info() else {
        let text = found.missing().unwrap_or_default();
        return vec![Finding::new(Verdict::Warn, "resctrl", text)];
    };
    let finding = |what, missing: Option<String>, present: String| match missing {
        Some(reason) => Finding::new(Verdict::Warn, what, reason),
        None => Finding::new(Verdict::Ok, what, present),
    };
    let mut monitors = format!("{} groups at most", rmids(info));
    if let Some(caveat) = found.caveat() {
        monitors = format!("{monitors}; {caveat}");
    }
    vec![
        Finding::new(Verdict::Ok, "resctrl", "mounted"),
        finding("MBM", found.missing_mbm(), monitors),
        finding(
            "MBA",
            found.missing_mba(),
            throttling(info.bandwidth.as_ref()),
        ),
    ]
}

fn rmids(info: &Info) -> u32 {
    info.monitoring.as_ref().map_or(0, |found| found.num_rmids)
}

fn throttling(bandwidth: Option<&Bandwidth>) -> String {
    let Some(found) = bandwidth else {
        return String::new();
    };
    let unit = match found.unit {
        Unit::Percent => "percent",
        Unit::EighthGbPerS => "1/8 GB/s",
        Unit::MibPerS => "MiB/s, by the kernel's own loop (mount option mba_MBps)",
    };
    format!("{} classes, in {unit}", found.num_closids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use drfq_resctrl::info::ThrottleMode;

    #[test]
    fn a_finding_is_one_line_with_its_mark() {
        let findings = [
            Finding::new(Verdict::Ok, "a", "fine"),
            Finding::new(Verdict::Warn, "b", "so so"),
            Finding::new(Verdict::Fail, "c", "broken"),
        ];
        let mut text = Vec::new();
        write(&mut text, &findings).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "[ok]   a: fine\n[warn] b: so so\n[FAIL] c: broken\n"
        );
    }

    #[test]
    fn a_kernel_without_groups_keeps_no_weights() {
        let root = tempfile::tempdir().unwrap();
        let mut reported = Reported {
            weights: true,
            quotas: true,
            idle: false,
        };
        let finding = groups_kept(reported, root.path());
        assert_eq!(finding.verdict, Verdict::Ok);
        assert!(finding.text.starts_with("cpu.weight and cpu.max are kept"));
        reported.weights = false;
        let finding = groups_kept(reported, root.path());
        assert_eq!(finding.verdict, Verdict::Warn);
        assert!(finding.text.contains("CONFIG_EXT_GROUP_SCHED"));
    }

    #[test]
    fn another_scheduler_is_in_the_way_and_our_own_is_not() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("sys/kernel/sched_ext/root");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.parent().unwrap().join("state"), "enabled\n").unwrap();
        let verdict = |name: &str| {
            fs::write(dir.join("ops"), name).unwrap();
            occupied(root.path()).unwrap().verdict
        };
        assert_eq!(verdict("drfq_0.1.0_x86_64\n"), Verdict::Ok);
        assert_eq!(verdict("simple\n"), Verdict::Fail);
    }

    #[test]
    fn one_cookie_is_core_scheduling() {
        let root = tempfile::tempdir().unwrap();
        for entry in ["1", "20", "self"] {
            fs::create_dir_all(root.path().join("proc").join(entry)).unwrap();
        }
        let cookies = |of_20| move |pid| (pid != 1).then_some(of_20);
        assert!(core_scheduling(root.path(), cookies(7)));
        assert!(!core_scheduling(root.path(), cookies(0)));
        assert!(!core_scheduling(root.path(), |_| None));
    }

    #[test]
    fn each_unit_of_throttling_has_its_words() {
        for (unit, words) in [
            (Unit::Percent, "percent"),
            (Unit::EighthGbPerS, "1/8 GB/s"),
            (Unit::MibPerS, "MiB/s"),
        ] {
            let text = throttling(Some(&Bandwidth {
                unit,
                min: 10,
                step: 10,
                max: 100,
                num_closids: 8,
                thread_throttle_mode: ThrottleMode::Unknown,
                domains: vec![0],
            }));
            assert!(text.contains(words) && text.contains("8 classes"), "{text}");
        }
    }

    #[test]
    fn autogroups_are_named_if_the_machine_uses_them() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("proc/sys/kernel");
        fs::create_dir_all(&dir).unwrap();
        let named = |text: &str| {
            fs::write(dir.join("sched_autogroup_enabled"), text).unwrap();
            let findings = unsupported(root.path());
            findings.iter().any(|finding| finding.what == "autogroup")
        };
        assert!(named("1\n") && !named("0\n"));
    }

    #[test]
    fn a_machine_without_resctrl_has_one_finding_with_the_reason() {
        let findings = resctrl(&Detection::new(Path::new("/nonexistent")));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].verdict, Verdict::Warn);
        assert!(!findings[0].text.is_empty());
    }
}
