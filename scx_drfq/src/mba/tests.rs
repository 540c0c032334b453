// SPDX-License-Identifier: GPL-2.0-only
//! The loop on a model of the kernel's resctrl.

use std::{
    cell::Cell,
    collections::BTreeSet,
    sync::{Arc, LazyLock},
};

use drfq_policy::drf::Class;
use drfq_resctrl::{
    fake::{FakeKernel, Shape},
    fs::ResctrlFs as _,
    reading::{Event, Reading},
};
use drfq_stats::sample::{TaskSample, TaskState};

use super::*;
use crate::settings::rules::Target;

mod arriving;
mod counters;
mod membership;
mod memories;
pub mod modelled;
mod rest;
mod vanished;

use modelled::{level_in, place, shape};

thread_local! {
    /// Time of the machine since an arbitrary moment.
    static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    /// Whether /proc hides the processes.
    static HIDES: Cell<bool> = const { Cell::new(false) };
}

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

fn clock() -> Instant {
    *START + NOW.get()
}

/// A cgroup for each process, /P with cpu.weight 100 P.
struct Cgroups;

impl Hierarchy for Cgroups {
    fn cgroup_of(&self, pid: u32) -> Option<String> {
        (!HIDES.get()).then(|| format!("/{pid}"))
    }
    fn weight_of(&self, cgroup: &str) -> Option<f64> {
        let weight: f64 = cgroup.trim_start_matches('/').parse().ok()?;
        Some(100.0 * weight)
    }
}

impl<H: Hierarchy> Running<'_, H> {
    /// One period, with a look at the tasks or without one.
    pub(super) fn turn(&mut self, look: Option<(Look, Instant)>, report: &Mutex<Mba>) -> Plan {
        let measured = self.measure();
        if let Some((look, now)) = look {
            self.look(look, now);
        }
        self.step(&measured, PERIOD, report)
    }
}

/// Hogs 1, 2 ... in a memory of 1 GB/s, and the loop that shares it.
struct Machine<'a> {
    kernel: &'a FakeKernel,
    running: Running<'a, Cgroups>,
    report: Mutex<Mba>,
    hogs: u32,
    /// The first hogs have a hundredth of a CPU.
    light: u32,
    /// The hogs run in so many domains by turns.
    domains: u32,
    /// What each id moved in each domain (bytes).
    moved: BTreeMap<(u32, u32), u64>,
    /// What the loop charged each hog (bytes). No event counts what they move.
    charged: Arc<Mutex<BTreeMap<u32, u64>>>,
    began: Instant,
    cpu_ns: u64,
}

impl<'a> Machine<'a> {
    fn new(kernel: &'a FakeKernel, hogs: u32) -> Self {
        Self::of(kernel, hogs, Vendor::Intel)
    }

    fn of(kernel: &'a FakeKernel, hogs: u32, vendor: Vendor) -> Self {
        Self::on(kernel, hogs, vendor, &BTreeMap::new())
    }

    /// `nodes`: the NUMA nodes of each domain.
    fn on(
        kernel: &'a FakeKernel,
        hogs: u32,
        vendor: Vendor,
        nodes: &BTreeMap<u32, BTreeSet<u32>>,
    ) -> Self {
        let info = Info::read(&kernel, vendor).unwrap();
        let classes = info.num_closids as usize - 1;
        let actuator = Actuator::open(kernel, &info, classes, clock).unwrap();
        let actuator = actuator.sharing(nodes);
        let memories = actuator.memories().count();
        NOW.set(Duration::ZERO);
        for pid in 1..=hogs {
            kernel.start_task(pid, None);
        }
        let charged: Arc<Mutex<BTreeMap<u32, u64>>> = Arc::default();
        let account = charged.clone();
        let ready = Loop {
            charge: Some(Box::new(move |tid, bytes| {
                *account.lock().unwrap().entry(tid).or_default() += bytes;
                Ok(true)
            })),
            curve: actuator::curve(&info, None),
            throttle: Box::new(actuator),
            capacity: vec![1e9 / memories as f64; memories],
            cpus: 8.0,
            entity: Entity::Cgroup,
            state: "on".into(),
            hindrance: None,
            caveat: None,
            most: f64::INFINITY,
            trace: None,
            point: None,
            cleaner: None,
        };
        Self {
            kernel,
            running: Running::new(ready, Cgroups),
            report: Mutex::default(),
            hogs,
            light: 0,
            domains: info.bandwidth.unwrap().domains.len() as u32,
            moved: BTreeMap::new(),
            charged,
            began: Instant::now(),
            cpu_ns: 0,
        }
    }

    /// Each hog wants 0.6 GB/s; the level of its class decides what it gets.
    fn serve(&mut self) -> Vec<f64> {
        let level = |pid: u32| level_in(self.kernel, pid, pid % self.domains);
        let wanted: Vec<f64> = (1..=self.hogs).map(|pid| 0.6e9 * level(pid)).collect();
        let full = wanted.iter().sum::<f64>().max(1e9) / 1e9;
        let got: Vec<f64> = wanted.iter().map(|wanted| wanted / full).collect();
        for (pid, rate) in (1..).zip(&got) {
            let (class, mon) = self.place(pid);
            let Some(rmid) = self.kernel.rmid(&format!("{class}/mon_groups/{mon}")) else {
                continue;
            };
            let domain = pid % self.domains;
            let moved = self.moved.entry((rmid, domain)).or_default();
            *moved += (rate * 0.05) as u64;
            let reading = Reading::Bytes(*moved);
            self.kernel
                .set_reading(rmid, domain, Event::MbmTotal, reading);
        }
        got
    }

    fn place(&self, tid: u32) -> (String, String) {
        place(self.kernel, tid)
    }

    /// What there is half a second after the last look.
    fn look(&mut self) -> Look {
        self.cpu_ns += 500_000_000;
        let charged = self.charged.lock().unwrap().clone();
        let task = |pid| TaskSample {
            pid,
            tgid: pid,
            bytes: charged.get(&pid).copied().unwrap_or(0),
            comm: format!("hog{pid}"),
            weight: 1 << 20,
            state: TaskState::Running,
            cpu_ns: self.cpu_ns / if pid <= self.light { 100 } else { 1 },
            charged_ns: self.cpu_ns / if pid <= self.light { 100 } else { 1 },
            ..TaskSample::default()
        };
        let tasks: Vec<_> = (1..=self.hogs).map(task).collect();
        tasks.into()
    }

    /// Runs for so many half seconds. Returns what each hog got in the last one.
    fn run(&mut self, halves: u32) -> Vec<f64> {
        // A busy host must not stretch the time between two runs.
        let start = self.began + Duration::from_nanos(self.cpu_ns);
        let mut sums = vec![0.0; self.hogs as usize];
        for half in 0..halves {
            let now = start + Duration::from_millis(500) * half;
            let mut look = Some((self.look(), now));
            sums.fill(0.0);
            for _ in 0..LOOK_PERIODS {
                let plan = self.running.turn(look.take(), &self.report);
                NOW.set(NOW.get() + PERIOD);
                for slot in 0..2 {
                    self.running.apply(&plan, slot);
                    for (sum, got) in sums.iter_mut().zip(self.serve()) {
                        *sum += got;
                    }
                }
            }
        }
        sums
    }
}

fn spread(got: &[f64]) -> f64 {
    let levels = (1..).zip(got).map(|(weight, got)| got / f64::from(weight));
    let (low, high) = levels.fold((f64::INFINITY, 0.0f64), |(low, high), level| {
        (low.min(level), high.max(level))
    });
    high / low - 1.0
}

#[test]
fn hogs_share_by_cpu_weight_and_everything_is_removed_at_the_end() {
    let kernel = FakeKernel::new(shape(8, 32));
    let mut machine = Machine::new(&kernel, 4);
    let before = kernel.snapshot(|_| true);
    machine.run(12);
    let got = machine.run(4);
    assert!(spread(&got) < 0.10, "{got:?}");
    let report = machine.report.lock().unwrap().clone();
    assert_eq!((report.saturated, report.acting, report.errors), (1, 1, 0));
    assert_eq!(report.groups.len(), 4);
    assert_eq!(report.groups[0].name, "/4");
    assert!(report.groups[0].level_pct > report.groups[3].level_pct);
    // At most 20 writes a second for each of three throttled classes.
    assert!(report.writes <= report.periods * 2 * 4, "{report:?}");
    drop(machine);
    assert_eq!(kernel.snapshot(|_| true), before);
}

#[test]
fn hogs_are_charged_what_only_mbm_counts() {
    let kernel = FakeKernel::new(shape(8, 32));
    let mut machine = Machine::new(&kernel, 4);
    machine.run(12);
    // What was charged, and what MBM has counted, by process.
    let look = |machine: &Machine| -> BTreeMap<u32, (u64, u64)> {
        let charged = machine.charged.lock().unwrap().clone();
        let report = machine.report.lock().unwrap().clone();
        let groups = report.groups.iter().map(|group| {
            let pid: u32 = group.name.trim_start_matches('/').parse().unwrap();
            (pid, (charged[&pid], group.bytes))
        });
        groups.collect()
    };
    let before = look(&machine);
    machine.run(20);
    for (pid, (charged, moved)) in look(&machine) {
        let (charged_before, moved_before) = before[&pid];
        let error = (charged - charged_before) as f64 / (moved - moved_before) as f64 - 1.0;
        assert!(error.abs() < 0.03, "hog {pid}: {error}");
    }
}

#[test]
fn a_loop_that_observes_a_memory_of_unknown_bandwidth_reports_no_saturation() {
    let kernel = FakeKernel::new(shape(8, 32));
    let mut machine = Machine::new(&kernel, 4);
    (machine.running.setup.curve, machine.running.setup.capacity) = (None, Vec::new());
    machine.run(12);
    let report = machine.report.lock().unwrap().clone();
    assert_eq!((report.saturated, report.capacity_bytes_per_s), (0, 0.0));
    assert!(report.bytes_per_s > 0.0, "{report:?}");
}

#[test]
fn a_rule_bounds_what_a_cgroup_moves_and_replaces_its_weight() {
    let rule = |cgroup: &str, weight, min, max| Rule {
        target: Target::new(true, cgroup).unwrap(),
        weight,
        memory: Bounds {
            min: Bandwidth::new(min),
            max: Bandwidth::new(max),
        },
    };
    // Bytes per second of each hog, in the last of eight seconds.
    let served = |hogs, rule| -> Vec<f64> {
        let kernel = FakeKernel::new(shape(8, 32));
        let mut machine = Machine::new(&kernel, hogs);
        machine.running.rules = vec![rule];
        machine.run(14);
        let both = [machine.run(1), machine.run(1)];
        let mean = |hog: usize| (both[0][hog] + both[1][hog]) / 20.0;
        (0..hogs as usize).map(mean).collect()
    };
    // It alone would move 0.6 GB/s, of 1 GB/s.
    let alone = served(1, rule("/1", None, 0, 200_000_000))[0];
    assert!((alone / 0.2e9 - 1.0).abs() < 0.1, "{alone}");
    // By its weight it would move 0.1 GB/s.
    let least = served(4, rule("/1", None, 300_000_000, 0))[0];
    assert!((0.28e9..0.34e9).contains(&least), "{least}");
    // Weights 9 and 2 where cpu.weight says 1 and 2: the first cannot move more than 0.6 GB/s.
    let both = served(2, rule("/1", Some(9.0), 0, 0));
    assert!(both[0] > 0.55e9, "{both:?}");
}

#[test]
fn with_few_classes_the_groups_climb_a_ladder() {
    let kernel = FakeKernel::new(shape(3, 32));
    let mut machine = Machine::new(&kernel, 4);
    machine.run(12);
    let got = machine.run(4);
    assert!(spread(&got) < 1.0, "{got:?}");
    assert_eq!(machine.report.lock().unwrap().errors, 0);
}

/// What the loop monitors.
fn monitored(machine: &Machine) -> Vec<String> {
    let report = machine.report.lock().unwrap();
    let mut names: Vec<String> = report.groups.iter().map(|g| g.name.clone()).collect();
    names.sort();
    names
}

#[test]
fn a_class_gets_one_of_few_monitoring_ids() {
    // The default group has an id, and a class has one.
    let kernel = FakeKernel::new(shape(8, 4));
    let mut machine = Machine::new(&kernel, 4);
    machine.run(12);
    let got = machine.run(4);
    assert_eq!(monitored(&machine), ["/1", "/2"]);
    let report = machine.report.lock().unwrap();
    assert_eq!((report.acting, report.errors), (1, 0), "{}", report.state);
    assert!(got[0] < 0.6 * got[1], "{got:?}");
}

#[test]
fn hardware_with_many_monitoring_ids_monitors_as_many_entities() {
    // The default group has one, and each of seven classes, and one is left to other programs.
    for (ids, expected) in [(80, 71), (1000, 128)] {
        let kernel = FakeKernel::new(shape(8, ids));
        let mut machine = Machine::new(&kernel, 150);
        machine.run(4);
        assert_eq!(monitored(&machine).len(), expected);
    }
}

#[test]
fn heavy_entities_take_the_monitoring_ids_of_light_ones() {
    let kernel = FakeKernel::new(shape(8, 4));
    let mut machine = Machine::new(&kernel, 4);
    machine.running.setup.charge = None;
    machine.run(4);
    assert_eq!(monitored(&machine), ["/1", "/2"]);
    machine.light = 2;
    machine.cpu_ns *= 100;
    machine.run(4);
    assert_eq!(monitored(&machine), ["/3", "/4"]);
}

#[test]
fn monitoring_ids_that_other_programs_give_back_are_used() {
    let kernel = FakeKernel::new(shape(8, 32));
    let mut machine = Machine::new(&kernel, 4);
    for number in 0..30 {
        kernel.mkdir(&format!("mon_groups/theirs{number}")).unwrap();
    }
    machine.run(4);
    assert_eq!(monitored(&machine).len(), 1);
    let state = machine.report.lock().unwrap().state.clone();
    assert!(state.contains("last failure"), "{state}");
    for number in 0..30 {
        kernel.rmdir(&format!("mon_groups/theirs{number}")).unwrap();
    }
    for _ in 0..4 {
        machine.running.audit();
        machine.run(4);
    }
    assert_eq!(monitored(&machine).len(), 4);
}

#[test]
fn a_number_of_monitoring_ids_that_means_nothing_bounds_no_groups() {
    for (rmids, vendor) in [("1", Vendor::Intel), ("4", Vendor::Arm)] {
        let mut shape = shape(8, 32);
        let number = shape.files.iter_mut();
        for (_, text) in number.filter(|(path, _)| path == "info/L3_MON/num_rmids") {
            *text = format!("{rmids}\n");
        }
        let kernel = FakeKernel::new(shape);
        let mut machine = Machine::of(&kernel, 4, vendor);
        machine.running.audit();
        machine.run(4);
        assert_eq!(monitored(&machine).len(), 4, "{vendor:?}");
    }
}

#[test]
fn monitoring_ids_in_limbo_are_waited_for_without_errors() {
    let kernel = FakeKernel::new(shape(8, 32));
    let mut machine = Machine::new(&kernel, 4);
    let hold = |ids: std::ops::Range<u32>| ids.for_each(|id| kernel.hold_in_limbo(id));
    hold(1..32);
    machine.run(4);
    assert_eq!(monitored(&machine), [""; 0]);
    // The groups get ids, and the classes get none.
    kernel.drain_limbo();
    hold(5..32);
    machine.run(12);
    assert_eq!((monitored(&machine).len(), classes(&kernel)), (4, 0));
    kernel.drain_limbo();
    let plan = machine.running.turn(None, &machine.report);
    machine.running.apply(&plan, 0);
    assert!(classes(&kernel) > 0);
    // What was planned while there were no classes throttles nobody to the floor.
    let levels: Vec<f64> = (1..=4).map(|pid| level_in(&kernel, pid, 0)).collect();
    let fair = [0.25, 0.5, 0.75, 1.0];
    let enough = levels
        .iter()
        .zip(fair)
        .all(|(level, fair)| *level >= fair / 2.0);
    assert!(enough, "{levels:?}");
    machine.run(12);
    let got = machine.run(4);
    assert!(spread(&got) < 0.10, "{got:?}");
    let report = machine.report.lock().unwrap();
    assert_eq!((report.errors, report.state.as_str()), (0, "on"));
}

/// How many classes the loop has made.
fn classes(kernel: &FakeKernel) -> usize {
    let names = kernel.list("").unwrap();
    names
        .iter()
        .filter(|name| name.starts_with("drfq_"))
        .count()
}

#[test]
fn classes_that_other_programs_give_back_are_used() {
    let kernel = FakeKernel::new(shape(4, 32));
    let mut machine = Machine::new(&kernel, 4);
    let theirs: Vec<String> = (0..3).map(|number| format!("theirs{number}")).collect();
    theirs.iter().for_each(|name| kernel.mkdir(name).unwrap());
    machine.run(12);
    assert_eq!(classes(&kernel), 0);
    theirs.iter().for_each(|name| kernel.rmdir(name).unwrap());
    for _ in 0..4 {
        machine.running.audit();
        machine.run(4);
    }
    let got = machine.run(4);
    assert_eq!(classes(&kernel), 3);
    assert!(spread(&got) < 0.10, "{got:?}");
}

#[test]
fn an_entity_that_ends_gives_its_group_back() {
    let kernel = FakeKernel::new(shape(8, 32));
    let mut machine = Machine::new(&kernel, 3);
    machine.run(6);
    kernel.end_task(3);
    machine.hogs = 2;
    machine.run(2);
    assert_eq!(machine.report.lock().unwrap().groups.len(), 2);
    let groups = kernel.snapshot(|_| true);
    let ours = groups
        .lines()
        .filter(|line| line.split(' ').next().unwrap().contains("drfq_g"));
    assert_eq!(ours.count(), 2, "{groups}");
}

/// Three hogs that are throttled by their weights, after what `act` does; the audit comes once.
fn after(act: impl FnOnce(&FakeKernel, &Machine)) -> (Vec<f64>, Mba) {
    let kernel = FakeKernel::new(shape(8, 32));
    let mut machine = Machine::new(&kernel, 4);
    machine.run(12);
    act(&kernel, &machine);
    machine.running.audit();
    machine.run(12);
    let got = machine.run(4);
    let report = machine.report.lock().unwrap().clone();
    drop(machine);
    let left = kernel.snapshot(|path| path.contains("drfq_"));
    assert!(left.is_empty(), "{left}");
    (got, report)
}

#[test]
fn levels_that_another_program_changed_are_set_again() {
    let (got, report) = after(|kernel, machine| {
        let (class, _) = machine.place(1);
        kernel
            .write(&format!("{class}/schemata"), "MB:0=100\n")
            .unwrap();
    });
    assert!(spread(&got) < 0.10, "{got:?}");
    assert!(
        report.state.contains("changed the levels"),
        "{}",
        report.state
    );
}

#[test]
fn groups_that_another_program_removed_are_made_again() {
    let (got, report) = after(|kernel, machine| {
        for (class, mon) in (1..=3).map(|pid| machine.place(pid)) {
            let _ = kernel.rmdir(&format!("{class}/mon_groups/{mon}"));
            let _ = kernel.rmdir(&class);
        }
    });
    assert!(spread(&got) < 0.10, "{got:?}");
    assert_eq!(report.groups.len(), 4);
}

#[test]
fn classes_that_another_program_took_are_no_panic() {
    for left in 0..3 {
        let kernel = FakeKernel::new(shape(4, 32));
        let mut machine = Machine::new(&kernel, 4);
        for number in left..3 {
            kernel.mkdir(&format!("theirs{number}")).unwrap();
        }
        machine.run(12);
        let report = machine.report.lock().unwrap().clone();
        assert_eq!(report.groups.len(), 4, "{left} classes");
        assert!(report.errors > 0, "{left} classes");
    }
}

#[test]
fn nothing_is_throttled_while_another_program_has_classes_or_limits_the_default_group() {
    type Act = fn(&FakeKernel);
    let cases: [(Act, Act, &str); 3] = [
        (
            |kernel| kernel.mkdir("theirs").unwrap(),
            |kernel| kernel.rmdir("theirs").unwrap(),
            "observe: another program has classes in resctrl: 1",
        ),
        (
            |kernel| kernel.write("schemata", "MB:0=90\n").unwrap(),
            |kernel| kernel.write("schemata", "MB:0=100\n").unwrap(),
            "observe: the default group of resctrl has limits: MB:0=90",
        ),
        (
            |kernel| kernel.write("schemata", "L3:0=ff\n").unwrap(),
            |kernel| kernel.write("schemata", "L3:0=7ff\n").unwrap(),
            "observe: the default group of resctrl has limits: L3:0=ff",
        ),
    ];
    for (come, go, words) in cases {
        let kernel = FakeKernel::new(shape(8, 32));
        let mut machine = Machine::new(&kernel, 4);
        machine.run(12);
        assert_eq!(classes(&kernel), 3);
        come(&kernel);
        machine.running.audit();
        machine.run(4);
        let report = machine.report.lock().unwrap().clone();
        assert_eq!((report.state.as_str(), report.acting), (words, 0));
        assert_eq!((classes(&kernel), report.groups.len()), (0, 4));
        assert!((1..=4).all(|pid| machine.place(pid).0.is_empty()));
        go(&kernel);
        machine.running.audit();
        machine.run(12);
        let got = machine.run(4);
        assert!(spread(&got) < 0.10, "{got:?}");
        let report = machine.report.lock().unwrap().clone();
        assert_eq!((report.state.as_str(), report.acting), ("on", 1));
    }
}

#[test]
fn nothing_is_throttled_while_classes_cannot_be_listed() {
    let kernel = FakeKernel::new(shape(8, 32));
    let mut machine = Machine::new(&kernel, 4);
    kernel.fail("list", "", libc::EIO);
    machine.running.audit();
    machine.run(12);
    let report = machine.report.lock().unwrap().clone();
    assert!(report.state.contains("cannot be listed"), "{report:?}");
}

#[test]
fn tasks_that_another_program_took_out_are_put_back() {
    let (got, report) = after(|kernel, _| {
        for pid in 1..=4 {
            kernel.write("tasks", &format!("{pid}\n")).unwrap();
        }
    });
    assert!(spread(&got) < 0.10, "{got:?}");
    assert_eq!(report.errors, 0);
}
