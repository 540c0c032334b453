// SPDX-License-Identifier: GPL-2.0-only
//! The stats socket, which serves JSON in the protocol of scx_stats. Each
//! connection has its own intervals, from one request of a target to the next.
//! The first interval begins when the scheduler is loaded, and so does the first
//! one after it was loaded again.

use std::{
    collections::BTreeMap,
    fs::{self, Permissions},
    io::{ErrorKind, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result};
use drfq_stats::{
    controller_report::Controller,
    interval::{system, tasks},
    mba_report::{Mba, MbaGroup},
    report::{Cpu, System, Task, Tasks},
    rows::Rows,
    sample::{Facts, Load, Sample},
};
use scx_stats::{Meta, StatsMeta, StatsServerData};
use serde_json::Value;

use crate::connections::{self, Server};

/// The socket that all scx tools use for the loaded scheduler.
pub const SOCKET: &str = "/var/run/scx/root/stats";

/// Removes the socket when the agent ends. The socket stays while the scheduler is
/// loaded again, so that clients wait.
pub struct SocketFile(pub PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // It may have been removed already.
        let _ = fs::remove_file(&self.0);
    }
}

/// Whether the server needs a sample of all tasks.
pub type WithTasks = bool;

/// The agent's answer: the load of the scheduler and a sample of it, or why there is none.
pub type Answer = Result<(Arc<Load>, Sample), String>;

type Report = fn(&Facts, &Sample, &Sample, usize) -> Result<Value>;

/// What a client can ask for.
pub struct Target {
    /// Its name in a request.
    pub name: &'static str,
    /// Whether it needs a sample of all tasks.
    pub with_tasks: WithTasks,
    /// What it tells of the interval between two samples, of so many tasks at most.
    pub report: Report,
}

/// All of them.
pub const TARGETS: [Target; 3] = [
    Target {
        name: "top",
        with_tasks: false,
        report: |facts, prev, cur, _| Ok(serde_json::to_value(system(facts, prev, cur))?),
    },
    Target {
        name: "tasks",
        with_tasks: true,
        report: |facts, prev, cur, limit| Ok(serde_json::to_value(tasks(facts, prev, cur, limit))?),
    },
    Target {
        name: "rows",
        with_tasks: true,
        report: |facts, prev, cur, limit| {
            let tasks = tasks(facts, prev, cur, limit);
            Ok(serde_json::to_value(Rows::from(tasks))?)
        },
    },
];

/// Opens the socket at its path, for this user: the umask forbids others.
///
/// # Errors
/// What the user should know.
pub fn launch(path: &Path) -> Result<Server, String> {
    let opened = connections::open(path).context("cannot serve statistics");
    opened.map_err(|reason| unserved(&reason))
}

/// What the user reads if the socket cannot be opened.
pub fn unserved(reason: &anyhow::Error) -> String {
    format!("{reason:#}; scheduling goes on")
}

/// Makes the missing ones of the two directories above the socket, as other scx tools do: any
/// user may look into them.
///
/// # Errors
/// A directory cannot be created.
pub fn open_directories(path: &Path) -> Result<()> {
    let above = path.ancestors().skip(1).take(2).collect::<Vec<_>>();
    for directory in above.into_iter().rev() {
        let made = fs::create_dir(directory)
            .and_then(|()| fs::set_permissions(directory, Permissions::from_mode(0o755)));
        match made {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(error).with_context(|| {
                    format!(
                        "cannot serve statistics: cannot create {}",
                        directory.display()
                    )
                });
            }
            _ => (),
        }
    }
    Ok(())
}

/// Writes the description of everything that is served.
///
/// # Errors
/// The output cannot be written.
pub fn describe(output: &mut impl Write) -> Result<()> {
    let metas = all_metas().into_iter();
    let data = metas.fold(StatsServerData::<(), ()>::new(), StatsServerData::add_meta);
    data.describe_meta(output, Some(&["System"]))?;
    writeln!(output)?;
    data.describe_meta(output, Some(&["Tasks"]))
}

/// The descriptions of all that is served.
fn all_metas() -> [StatsMeta; 7] {
    [
        System::described(),
        Controller::meta(),
        Mba::meta(),
        MbaGroup::meta(),
        Tasks::meta(),
        Task::meta(),
        Cpu::meta(),
    ]
}

/// The same by name.
pub fn metas() -> BTreeMap<String, StatsMeta> {
    let named = all_metas().map(|meta| (meta.name.clone(), meta));
    named.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::{io::Read, net::Shutdown, os::unix::net::UnixStream};

    use drfq_stats::{events::EVENTS, sample::TaskSample};
    use proptest::{
        arbitrary::any,
        strategy::{Strategy, ValueTree},
        test_runner::TestRunner,
    };
    use scx_stats::StatsClient;

    use super::*;

    fn sample(at_ns: u64) -> Sample {
        let task = TaskSample {
            pid: 7,
            charged_ns: at_ns / 2,
            ..Default::default()
        };
        let events = vec![at_ns; EVENTS.len()];
        Sample {
            at_ns,
            vtime_ns: at_ns,
            busy_cpus: 1,
            events,
            tasks: vec![task],
            ..Default::default()
        }
    }

    #[test]
    fn each_request_covers_the_time_since_the_last() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stats");
        let facts = Facts {
            nr_cpus: 1,
            mem_source: "none".into(),
            ..Facts::default()
        };
        let load = |at_ns| {
            let (facts, first) = (facts.clone(), sample(at_ns));
            Arc::new(Load { facts, first })
        };
        let loads = [load(0), load(5000)];
        let Server { requests, samples } = launch(&path).unwrap();
        std::thread::spawn(move || {
            for (load, at_ns) in [(0, 1000), (0, 3000), (0, 3000), (0, 4000), (1, 5700)] {
                requests.recv().unwrap();
                let load = Arc::clone(&loads[load]);
                samples.send(Ok((load, sample(at_ns)))).unwrap();
            }
            requests.recv().unwrap();
            samples.send(Err("out of order".into())).unwrap();
        });
        let mut client = StatsClient::new()
            .set_path(&path)
            .connect(Some(10_000))
            .unwrap();
        let arguments = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs
                .iter()
                .map(|(key, value)| ((*key).into(), (*value).into()))
                .collect()
        };
        let of_tasks = arguments(&[("target", "tasks"), ("limit", "5")]);
        let first: Tasks = client.request("stats", of_tasks.clone()).unwrap();
        assert_eq!((first.system.interval_ns, first.tasks[0].pid), (1000, 7));
        let second: Tasks = client.request("stats", of_tasks).unwrap();
        assert_eq!(
            (second.system.interval_ns, second.tasks[0].cpu_pct),
            (2000, 50.0)
        );
        let of_rows = arguments(&[("target", "rows"), ("limit", "5")]);
        let rows: Rows = client.request("stats", of_rows).unwrap();
        let shown = Tasks::try_from(rows).unwrap();
        // The target has its own intervals: this one began when the scheduler was loaded.
        assert_eq!((shown.system.interval_ns, shown.tasks[0].pid), (3000, 7));
        assert_eq!(shown.tasks[0].cpu_pct, 50.0);
        let system: System = client.request("stats", vec![]).unwrap();
        assert_eq!(
            (system.interval_ns, system.events["switches"]),
            (4000, 4000)
        );
        // The scheduler was loaded again.
        let system: System = client.request("stats", vec![]).unwrap();
        assert_eq!(system.interval_ns, 700);
        let error = client.request::<System>("stats", vec![]).unwrap_err();
        assert!(format!("{error:#}").contains("out of order"), "{error:#}");
        let bad = arguments(&[("target", "tasks"), ("limit", "many")]);
        assert!(client.request::<Tasks>("stats", bad).is_err());
    }

    #[test]
    fn a_socket_that_cannot_be_opened_is_a_reason_and_no_end() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let reason = launch(&file.join("root/stats")).err().unwrap();
        assert!(
            reason.contains("file/root") && reason.ends_with("goes on"),
            "{reason}"
        );
    }

    #[test]
    fn any_user_may_look_into_the_directories_of_the_socket() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("scx/root/stats");
        for _ in 0..2 {
            open_directories(&path).unwrap();
        }
        for above in path.ancestors().skip(1).take(2) {
            let mode = fs::metadata(above).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o755);
        }
    }

    #[test]
    fn the_family_s_client_reads_the_description_and_nonsense_ends_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stats");
        let Server { requests, samples } = launch(&path).unwrap();
        std::thread::spawn(move || {
            let load = Arc::new(Load::default());
            while requests.recv().is_ok() {
                let answer = (Arc::clone(&load), sample(1000));
                samples.send(Ok(answer)).unwrap();
            }
        });
        let mut random = TestRunner::deterministic();
        for _ in 0..300 {
            let bytes = any::<Vec<u8>>().new_tree(&mut random).unwrap().current();
            let mut stream = UnixStream::connect(&path).unwrap();
            let target = b"{\"req\":\"stats\",\"args\":{\"target\":\"tasks\",\"limit\":\"";
            // The server may close the connection after the first line.
            let _ = stream.write_all(&bytes);
            let _ = stream.write_all(b"\n");
            let _ = stream.write_all(&[target, bytes.as_slice(), b"\"}}\n"].concat());
            // Its place is free once the server has closed it.
            let _ = stream.shutdown(Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        }
        let client = StatsClient::new().set_path(&path);
        let mut client = client.connect(Some(10_000)).unwrap();
        let meta: BTreeMap<String, StatsMeta> = client.request("stats_meta", vec![]).unwrap();
        for name in [
            "System",
            "Tasks",
            "Task",
            "Cpu",
            "Controller",
            "Mba",
            "MbaGroup",
        ] {
            assert!(meta.contains_key(name), "{name}");
        }
        assert!(meta["System"].attrs.top.is_some());
        assert!(client.request::<System>("stats", vec![]).is_ok());
    }

    #[test]
    fn the_description_names_every_part() {
        let mut text = Vec::new();
        describe(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for word in [
            "[System]",
            "[Tasks",
            "[Task]",
            "switches",
            "packets started",
            "fair_pct",
        ] {
            assert!(text.contains(word), "{word} in {text}");
        }
    }
}
