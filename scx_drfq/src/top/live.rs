// SPDX-License-Identifier: GPL-2.0-only
//! Snapshots of the running scheduler: its statistics, and what `/proc` tells of the
//! processes and CPUs.

use std::{
    collections::{BTreeMap, HashMap},
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Result;
use drfq_sense::root;
use drfq_stats::report::Tasks;
use drfq_view::{
    snapshot::{Cgroup, CpuTime, Process, Snapshot},
    source::Source,
};

use crate::{client::Client, local_time};

/// What is known of a process is read again after this time, because it may move.
const PROCESS_AGE: Duration = Duration::from_secs(5);

/// What a snapshot has of each task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Every statistic.
    Whole,
    /// What a view shows; the scheduler may be of another version, and gives all.
    Shown,
}

impl Form {
    fn ask(self, client: &mut Client, limit: usize) -> Result<Tasks> {
        match self {
            Self::Whole => client.tasks(limit),
            Self::Shown => client.rows(limit),
        }
    }

    /// Connects. Returns the form that the scheduler knows.
    fn connect(self, connect: impl Fn() -> Result<Client>) -> Result<(Client, Self)> {
        let mut client = connect()?;
        // The first report would cover the time since the scheduler was loaded.
        if self.ask(&mut client, 0).is_ok() {
            return Ok((client, self));
        }
        drop(client);
        let mut client = connect()?;
        Self::Whole.ask(&mut client, 0)?;
        Ok((client, Self::Whole))
    }
}

/// Snapshots at regular intervals, as long as the scheduler runs.
pub struct Live {
    client: Client,
    interval: Duration,
    limit: usize,
    form: Form,
    next: Instant,
    end: Option<Instant>,
    kernel: Kernel,
}

impl Live {
    /// Connects to the running scheduler. A snapshot has at most `limit` tasks.
    ///
    /// # Errors
    /// No scheduler is running, or this user may not connect to it.
    pub fn open(
        interval: Duration,
        duration: Option<Duration>,
        limit: usize,
        form: Form,
    ) -> Result<Self> {
        let (client, form) = form.connect(Client::connect)?;
        let mut kernel = Kernel::new(root());
        kernel.cpus();
        let now = Instant::now();
        Ok(Self {
            client,
            interval,
            limit,
            form,
            next: now + interval,
            end: duration.map(|duration| now + duration),
            kernel,
        })
    }
}

impl Source for Live {
    fn name(&self) -> String {
        "live".into()
    }

    fn wait(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    fn poll(&mut self) -> Result<Option<Snapshot>> {
        if self.over() || !self.wait().is_zero() {
            return Ok(None);
        }
        self.next += self.interval;
        if let Ok(report) = self.form.ask(&mut self.client, self.limit) {
            // After a long pause, the missed intervals are not made up for.
            self.next = self.next.max(Instant::now());
            return Ok(Some(self.kernel.complete(report)));
        }
        (self.client, self.form) = self.form.connect(Client::reconnect)?;
        self.next = Instant::now() + self.interval;
        Ok(None)
    }

    fn over(&self) -> bool {
        self.end.is_some_and(|end| self.next > end)
    }
}

/// A file's text. Names may be in any encoding, and the kernel cuts those of tasks after 15 bytes.
fn text_of(path: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}

/// What `/proc` and the cgroup hierarchy tell.
pub struct Kernel {
    root: PathBuf,
    processes: HashMap<u32, (Instant, Arc<Process>)>,
    cgroups: HashMap<String, (Instant, Cgroup)>,
    users: HashMap<u32, String>,
    cpu_ticks: HashMap<u32, [u64; 3]>,
}

impl Kernel {
    /// The kernel of the machine whose `/` is `root`.
    pub fn new(root: PathBuf) -> Self {
        let text = text_of(&root.join("etc/passwd")).unwrap_or_default();
        Self {
            users: users(&text),
            root,
            processes: HashMap::new(),
            cgroups: HashMap::new(),
            cpu_ticks: HashMap::new(),
        }
    }

    /// A report with what is known of its processes.
    pub fn complete(&mut self, report: Tasks) -> Snapshot {
        let now = Instant::now();
        let mut snapshot = Snapshot {
            at_unix_ns: local_time::now_ns(),
            cpus: self.cpus(),
            ..Snapshot::default()
        };
        for task in report.tasks.iter().filter(|task| task.kthread == 0) {
            if snapshot.processes.contains_key(&task.tgid) {
                continue;
            }
            if let Some(process) = self.process(task.tgid, &task.comm, now) {
                if !snapshot.cgroups.contains_key(&process.cgroup) {
                    self.add_cgroups(&process.cgroup, now, &mut snapshot.cgroups);
                }
                snapshot.processes.insert(task.tgid, process);
            }
        }
        self.processes
            .retain(|pid, _| snapshot.processes.contains_key(pid));
        self.cgroups
            .retain(|path, _| snapshot.cgroups.contains_key(path));
        snapshot.report = report;
        snapshot
    }

    /// A process; none if it has ended.
    fn process(&mut self, pid: u32, name: &str, now: Instant) -> Option<Arc<Process>> {
        if let Some((read, process)) = self.processes.get(&pid)
            && now.duration_since(*read) < PROCESS_AGE
        {
            return Some(Arc::clone(process));
        }
        let directory = self.root.join(format!("proc/{pid}"));
        let status = text_of(&directory.join("status")).ok()?;
        let field = |key| status.lines().find_map(|line| line.strip_prefix(key));
        let uid = field("Uid:").and_then(|ids| ids.split_whitespace().next()?.parse().ok());
        let cgroup = text_of(&directory.join("cgroup")).unwrap_or_default();
        let cgroup = cgroup.lines().find_map(|line| line.strip_prefix("0::"));
        let process = Arc::new(Process {
            name: field("Name:").map_or(name, str::trim).to_owned(),
            user: uid.map_or_else(String::new, |uid: u32| {
                self.users.get(&uid).cloned().unwrap_or(uid.to_string())
            }),
            cgroup: cgroup.unwrap_or_default().to_owned(),
        });
        self.processes.insert(pid, (now, Arc::clone(&process)));
        Some(process)
    }

    /// Adds a cgroup and its parents.
    fn add_cgroups(&mut self, path: &str, now: Instant, to: &mut BTreeMap<String, Cgroup>) {
        let ends = path.match_indices('/').skip(1).map(|(at, _)| at);
        for end in ends.chain(std::iter::once(path.len())) {
            let path = &path[..end];
            if path.len() > 1 && !to.contains_key(path) {
                let cgroup = self.cgroup(path, now);
                to.insert(path.to_owned(), cgroup);
            }
        }
    }

    fn cgroup(&mut self, path: &str, now: Instant) -> Cgroup {
        if let Some((read, cgroup)) = self.cgroups.get(path)
            && now.duration_since(*read) < PROCESS_AGE
        {
            return *cgroup;
        }
        let file = self
            .root
            .join("sys/fs/cgroup")
            .join(path.trim_start_matches('/'));
        let text = fs::read_to_string(file.join("cpu.weight"));
        let cgroup = Cgroup {
            cpu_weight: text.ok().and_then(|text| text.trim().parse().ok()),
        };
        self.cgroups.insert(path.to_owned(), (now, cgroup));
        cgroup
    }

    /// How busy each CPU was since the last call.
    fn cpus(&mut self) -> Vec<CpuTime> {
        let text = fs::read_to_string(self.root.join("proc/stat")).unwrap_or_default();
        let ticks: HashMap<u32, [u64; 3]> = text.lines().filter_map(cpu_ticks).collect();
        let mut cpus: Vec<CpuTime> = ticks
            .iter()
            .map(|(&cpu, now)| {
                let before = self.cpu_ticks.get(&cpu).unwrap_or(now);
                let since = |at: usize| now[at].saturating_sub(before[at]) as f64;
                let total = since(0).max(1.0);
                CpuTime {
                    cpu,
                    busy_pct: 100.0 * since(1) / total,
                    irq_pct: 100.0 * since(2) / total,
                }
            })
            .collect();
        cpus.sort_by_key(|cpu| cpu.cpu);
        self.cpu_ticks = ticks;
        cpus
    }
}

/// A line of /proc/stat: the CPU, and its ticks in all, while busy, and in interrupts.
fn cpu_ticks(line: &str) -> Option<(u32, [u64; 3])> {
    let mut words = line.strip_prefix("cpu")?.split(' ');
    let cpu = words.next()?.parse().ok()?;
    // user nice system idle iowait irq softirq steal; guests count as user, too.
    let ticks: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
    let total: u64 = ticks.iter().sum();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    let irq: u64 = ticks.iter().skip(5).take(2).sum();
    Some((cpu, [total, total - idle, irq]))
}

/// The names of users in /etc/passwd.
fn users(text: &str) -> HashMap<u32, String> {
    let user = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        Some((fields.nth(1)?.parse().ok()?, name.to_owned()))
    };
    text.lines().filter_map(user).collect()
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader, Write},
        os::unix::net::UnixListener,
    };

    use drfq_stats::report::Task;

    use super::*;

    fn write(root: &Path, file: &str, text: impl AsRef<[u8]>) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Serves two connections of a scheduler that knows the target `tasks` alone.
    fn older_scheduler(listener: &UnixListener) {
        for stream in listener.incoming().take(2).map(Result::unwrap) {
            for request in BufReader::new(&stream).lines() {
                let answer = if request.unwrap().contains(r#""target":"tasks""#) {
                    r#"{"errno":0,"args":{"resp":{"nr_tasks":5}}}"#
                } else {
                    r#"{"errno":22,"args":{"resp":"unknown stat target"}}"#
                };
                writeln!(&stream, "{answer}").unwrap();
            }
        }
    }

    #[test]
    fn a_scheduler_that_is_older_than_the_view_is_asked_for_whole_tasks() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stats");
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || older_scheduler(&listener));
        let connect = || Ok(Client::connect_to(&path)?);
        let (mut client, form) = Form::Shown.connect(connect).unwrap();
        assert_eq!(form, Form::Whole);
        assert_eq!(form.ask(&mut client, 9).unwrap().nr_tasks, 5);
        drop(client);
        server.join().unwrap();
    }

    #[test]
    fn a_report_is_completed_with_processes_cgroups_and_cpus() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        write(
            root,
            "etc/passwd",
            b"root:x:0:0:r\xf6\xf6t:/root:/bin/sh\nada:x:7:7::/:/bin/sh\n",
        );
        // A name that was cut inside a letter.
        write(root, "proc/7/status", b"Name:\tab\xd0\nUid:\t7\t7\t7\t7\n");
        write(root, "proc/7/cgroup", "0::/system.slice/pg.service\n");
        write(root, "proc/3/status", "Name:\tpostgres\nUid:\t7\t7\t7\t7\n");
        write(
            root,
            "proc/3/cgroup",
            "1:name=systemd:/x\n0::/system.slice/pg.service\n",
        );
        write(
            root,
            "sys/fs/cgroup/system.slice/pg.service/cpu.weight",
            "300\n",
        );
        write(
            root,
            "proc/stat",
            "cpu  9 0 0 9\ncpu0 0 0 0 0 0 0 0 0 0 0\nintr 1\n",
        );
        let mut kernel = Kernel::new(root.to_owned());
        kernel.cpus();
        write(root, "proc/stat", "cpu0 20 0 10 60 0 5 5 0 0 0\n");
        let task = |pid, tgid, kthread| Task {
            pid,
            tgid,
            kthread,
            ..Default::default()
        };
        let snapshot = kernel.complete(Tasks {
            tasks: [(3, 3, 0), (4, 3, 0), (5, 5, 0), (6, 6, 1), (7, 7, 0)]
                .map(|(pid, tgid, kthread)| task(pid, tgid, kthread))
                .into(),
            ..Default::default()
        });
        assert_eq!(
            snapshot.processes.len(),
            2,
            "5 has ended, 6 is the kernel's"
        );
        let process = &snapshot.processes[&3];
        assert_eq!((&*process.name, &*process.user), ("postgres", "ada"));
        let process = &snapshot.processes[&7];
        assert_eq!((&*process.name, &*process.user), ("ab\u{fffd}", "ada"));
        let weights: Vec<_> = snapshot.cgroups.iter().collect();
        let cgroup = |cpu_weight| Cgroup { cpu_weight };
        assert_eq!(
            weights,
            [
                (&"/system.slice".to_owned(), &cgroup(None)),
                (&"/system.slice/pg.service".to_owned(), &cgroup(Some(300)))
            ]
        );
        let cpu = snapshot.cpus[0];
        assert_eq!((cpu.cpu, cpu.busy_pct, cpu.irq_pct), (0, 40.0, 10.0));
    }
}
