// SPDX-License-Identifier: GPL-2.0-only
//! What an entity asked for, what it got, why, and what to type to change it, in plain words.

use drfq_stats::{
    mba_report::{Mba, NO_SCALE, NOT_MEASURED},
    report::System,
};

use crate::{
    entity::{Entity, clean, unit_name},
    history::{History, capacity, traffic},
    row::{Row, State},
    snapshot::Snapshot,
    words::rate_in_words,
};

/// A resource counts as contended from this part of it on (percent).
const FULL_PCT: f64 = 90.0;
/// A task that waited, or was held, for less than this is not held back (percent).
const NOTABLE_PCT: f64 = 5.0;
/// A share that differs by less than this is the fair one (percent of it).
const FAIR_PCT: f64 = 5.0;
/// Competitors that are named.
const COMPETITORS: usize = 3;

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// What it is about.
    pub title: String,
    /// The paragraph, one fact a sentence.
    pub sentences: Vec<String>,
    /// What to type to change it, each with its effect.
    pub commands: Vec<(String, String)>,
}

impl Explanation {
    /// The paragraph.
    pub fn paragraph(&self) -> String {
        self.sentences.join(" ")
    }

    /// The answer as text.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n\n{}\n", self.title, self.paragraph());
        if !self.commands.is_empty() {
            text += "\nTo change it:\n";
        }
        for (command, effect) in &self.commands {
            text += &format!("  {command}\n      {effect}\n");
        }
        text
    }
}

/// A resource that is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contended {
    None,
    Cpu,
    Memory,
    Both,
}

impl Contended {
    fn of(snapshot: &Snapshot) -> Self {
        let system = &snapshot.report.system;
        let busy: f64 = snapshot.cpus.iter().map(|cpu| cpu.busy_pct).sum();
        let cpus = snapshot.cpus.len().max(1) as f64;
        let waits = snapshot.report.tasks.iter();
        let queues = waits.map(|task| task.wait_pct).sum::<f64>() > 10.0 * NOTABLE_PCT;
        let cpu = busy / cpus >= FULL_PCT
            || (queues && system.busy_cpus > 0 && system.busy_cpus >= system.nr_cpus);
        let full = capacity(system);
        let near = full > 0.0 && 100.0 * traffic(snapshot) / full >= FULL_PCT;
        match (cpu, near || system.mba.saturated > 0) {
            (true, true) => Self::Both,
            (true, false) => Self::Cpu,
            (false, true) => Self::Memory,
            (false, false) => Self::None,
        }
    }

    fn memory(self) -> bool {
        matches!(self, Self::Memory | Self::Both)
    }
}

/// The row of an entity; none if it has no task in the snapshot.
fn sum(snapshot: &Snapshot, entity: &Entity) -> Option<Row> {
    let first = entity.tasks(snapshot).next()?;
    let mut row = match entity {
        Entity::Cgroup(path) => Row::of_cgroup(path, 0, snapshot),
        _ => Row::new(entity.clone(), clean(&first.comm)),
    };
    let weight = row.weight;
    entity.tasks(snapshot).for_each(|task| row.add(task));
    if matches!(entity, Entity::Cgroup(_)) {
        row.weight = weight;
    } else {
        row.place(first, snapshot);
    }
    row.finish(snapshot, entity.group(snapshot));
    Some(row)
}

/// Explains an entity in the snapshot that is `back` steps before the newest.
pub fn explain(history: &History, back: usize, entity: &Entity) -> Explanation {
    let Some(snapshot) = history.back(back) else {
        return without(entity, "There is no measurement yet.".into());
    };
    let Some(row) = sum(snapshot, entity) else {
        return gone(history, back, entity);
    };
    let contended = Contended::of(snapshot);
    let mut sentences = vec![asked(&row), got(&row, &snapshot.report.system)];
    sentences.extend(compared(&row));
    sentences.push(resource(contended, snapshot));
    sentences.extend(rests(contended, &snapshot.report.system));
    sentences.extend(competitors(snapshot, &row, contended));
    sentences.push(holds_back(&row, contended, &snapshot.report.system));
    sentences.extend(change(history, back, entity));
    Explanation {
        title: title(&row),
        sentences,
        commands: commands(&row, &snapshot.report.system, contended),
    }
}

fn without(entity: &Entity, sentence: String) -> Explanation {
    Explanation {
        title: clean(&entity.to_string()),
        sentences: vec![sentence],
        commands: Vec::new(),
    }
}

fn gone(history: &History, back: usize, entity: &Entity) -> Explanation {
    let was = history
        .until(back, usize::MAX)
        .any(|snapshot| entity.tasks(snapshot).next().is_some());
    let reason = if was {
        "It has ended."
    } else {
        "No task of it has an account: it does not exist, it is a real-time task, or it has not \
         run since the scheduler was loaded."
    };
    without(entity, reason.into())
}

fn title(row: &Row) -> String {
    match &row.entity {
        Entity::Cgroup(path) => format!("{} ({})", unit_name(path), clean(path)),
        entity => format!("{} ({entity})", row.name),
    }
}

fn asked(row: &Row) -> String {
    let many = if row.tasks == 1 {
        "It".into()
    } else {
        format!("Its {} tasks", row.tasks)
    };
    let wanted = row.cpu_pct + row.wait_pct;
    if wanted < 0.05 && row.state == State::Throttled {
        return format!("{many} asked for CPU time, and waited for a quota or a pace.");
    }
    if wanted < 0.05 {
        return format!("{many} asked for nothing: blocked for the whole interval.");
    }
    let constantly = if row.entitled && row.tasks == 1 {
        ", all the time"
    } else {
        ""
    };
    format!("{many} asked for {wanted:.0} % of a CPU{constantly}.")
}

fn got(row: &Row, system: &System) -> String {
    let dma = if row.dma_bytes_per_s > 0.0 {
        format!(", {} of it by DMA", rate_in_words(row.dma_bytes_per_s))
    } else {
        String::new()
    };
    let memory = if system.mem_measured == 0 && row.mem_bytes_per_s <= 0.0 {
        "its memory traffic is not measured".into()
    } else {
        format!("moved {}{dma}", rate_in_words(row.mem_bytes_per_s))
    };
    let dominant = match row.dominant() {
        "memory" => format!(
            "; memory is its dominant resource with {:.1} % of the machine",
            row.mem_share_pct
        ),
        "cpu" => format!(
            "; CPU time is its dominant resource with {:.1} % of the machine",
            row.cpu_share_pct
        ),
        _ => String::new(),
    };
    format!(
        "It got {:.0} % of a CPU and {memory}{dominant}.",
        row.cpu_pct
    )
}

fn compared(row: &Row) -> Option<String> {
    let distance = row.distance_pct()?;
    let fair = row.fair_pct;
    Some(if distance <= -FAIR_PCT {
        format!(
            "That is {:.0} % less than its fair share of {fair:.0} %.",
            -distance
        )
    } else if distance >= FAIR_PCT {
        format!(
            "That is {distance:.0} % more than its fair share of {fair:.0} %, which others left."
        )
    } else {
        format!("That is its fair share ({fair:.0} %).")
    })
}

fn resource(contended: Contended, snapshot: &Snapshot) -> String {
    let moved = rate_in_words(traffic(snapshot));
    let full = rate_in_words(capacity(&snapshot.report.system));
    match contended {
        Contended::None => "Neither the CPUs nor the memory are full.".into(),
        Contended::Cpu => "The CPUs are contended.".into(),
        Contended::Memory => format!("Memory bandwidth is contended: {moved} of {full}."),
        Contended::Both => {
            format!("The CPUs and memory bandwidth are contended ({moved} of {full}).")
        }
    }
}

/// Whether a calibration and a start with --mba on may throttle where the loop of this state does
/// not. Nothing else in the way ends by them.
fn may_throttle(state: &str) -> bool {
    let known = |reason: &str| !reason.starts_with(NOT_MEASURED) && !reason.starts_with(NO_SCALE);
    match state.split([':', ';']).next() {
        Some("" | "off") => true,
        Some("observe") => !state.strip_prefix("observe: ").is_some_and(known),
        _ => false,
    }
}

/// Whether full memory is to be shared by a start with --mba on.
fn lacks_throttle(contended: Contended, mba: &Mba) -> bool {
    contended.memory() && mba.acting == 0 && may_throttle(&mba.state)
}

/// Why a loop that shares memory bandwidth leaves full memory alone.
fn rests(contended: Contended, system: &System) -> Option<String> {
    let mba = &system.mba;
    if !contended.memory() || mba.acting > 0 || may_throttle(&mba.state) {
        return None;
    }
    let means = match mba.state.starts_with("hold") {
        true => "Paces",
        false => "Throttles (MBA)",
    };
    if let Some(reason) = mba.state.strip_prefix("observe: ") {
        return Some(format!("{means} rest: {reason}."));
    }
    // A loop that may throttle acts on full memory unless tasks wait for CPUs.
    let (tasks, cpus) = (mba.runnable, system.nr_cpus);
    let why = match mba.saturated {
        0 => "the traffic that they measure is below what counts as full".into(),
        _ => format!(
            "more tasks want a CPU ({tasks:.1}) than there are CPUs ({cpus}), as virtual time \
             enforces the shares then"
        ),
    };
    Some(format!("{means} rest while {why}."))
}

/// The heaviest others of the same kind in the contended resource.
fn competitors(snapshot: &Snapshot, row: &Row, contended: Contended) -> Option<String> {
    if contended == Contended::None {
        return None;
    }
    let size = |row: &Row| match contended {
        Contended::Memory => row.mem_share_pct,
        _ => row.dominant_pct(),
    };
    let mut others: Vec<Row> = others(snapshot, &row.entity)
        .filter_map(|entity| sum(snapshot, &entity))
        .filter(|other| size(other) >= 1.0)
        .collect();
    others.sort_by(|a, b| size(b).total_cmp(&size(a)).then(a.entity.cmp(&b.entity)));
    others.truncate(COMPETITORS);
    if others.is_empty() {
        return Some("Nothing else competes with it.".into());
    }
    let name = |row: &Row| {
        let id = row.pid().map_or(String::new(), |pid| format!(" {pid}"));
        format!("{}{id} ({:.0} %)", row.name, size(row))
    };
    let names: Vec<String> = others.iter().map(name).collect();
    Some(format!("It competes with {}.", names.join(", ")))
}

/// The other entities of the same kind: leaves of the tree in the case of cgroups.
fn others<'a>(
    snapshot: &'a Snapshot,
    entity: &'a Entity,
) -> impl Iterator<Item = Entity> + use<'a> {
    let tasks = snapshot.report.tasks.iter();
    let key = |task: &drfq_stats::report::Task| match entity {
        Entity::Task(_) => Entity::Task(task.pid),
        Entity::Process(_) => Entity::Process(task.tgid),
        Entity::Cgroup(_) => Entity::Cgroup(crate::entity::cgroup_of(task, snapshot).to_owned()),
    };
    let others = tasks
        .filter(|task| !entity.holds(task, snapshot) && task.kthread == 0)
        .map(key);
    // The root contains the entity, so it is no competitor.
    let others = others.filter(|other| *other != Entity::Cgroup("/".into()));
    others
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
}

fn holds_back(row: &Row, contended: Contended, system: &System) -> String {
    let tasks = f64::from(row.tasks.max(1));
    let throttle = row.level_pct.filter(|level| *level < 99.5);
    let (held, waited) = (row.held_pct / tasks, row.wait_pct / tasks);
    let weight = match row.entity {
        Entity::Cgroup(_) if system.weight_rules > 0 => {
            format!(
                "weight (cpu.weight {:.0}, if no rule replaces it)",
                row.weight
            )
        }
        Entity::Cgroup(_) => format!("cpu.weight {:.0}", row.weight),
        _ => format!("weight {:.2}", row.weight),
    };
    if let Some(level) = throttle {
        let (means, class) = match system.mba.state.starts_with("hold") {
            true => ("pace", "group"),
            false => ("throttle (MBA)", "class"),
        };
        let why = match row.mem_share_pct > row.cpu_share_pct {
            true => "its dominant share is the largest for its weight".into(),
            false => format!("its {class} is throttled"),
        };
        return format!("A {means} holds it back: level {level:.0} %, because {why}.");
    }
    if row.state == State::Throttled {
        return "A limit of its group holds it back: a quota (cpu.max), or a pace of memory traffic."
            .into();
    }
    if held >= NOTABLE_PCT {
        return format!(
            "Delayed wake-up holds it back ({held:.0} % of the time): devices moved traffic for it \
             that its share did not cover yet."
        );
    }
    if waited >= NOTABLE_PCT {
        let each = match row.wait_per_run_ns {
            0.0 => String::new(),
            ns => format!(", {:.1} ms each time", ns / 1e6),
        };
        return format!(
            "The queue for CPUs holds it back: it waited {waited:.0} % of the time{each}, as its \
             {weight} gives it no more."
        );
    }
    if contended.memory() && system.mba.acting == 0 && row.mem_share_pct >= 1.0 {
        return "Its cache misses wait for the full memory; nothing throttles the others.".into();
    }
    match row.cpu_pct + row.wait_pct {
        0.0..0.05 => "Nothing holds it back; it waits for an event.".into(),
        _ => "Nothing holds it back.".into(),
    }
}

/// How its CPU time differs from a while ago.
fn change(history: &History, back: usize, entity: &Entity) -> Option<String> {
    const STEPS: usize = 30;
    let series = history.entity(entity, back, STEPS).cpu_pct;
    let (&now, before) = series.split_last()?;
    if before.len() < 4 {
        return None;
    }
    let mean = before.iter().sum::<f64>() / before.len() as f64;
    let notable = (now - mean).abs() > 10.0 && (now - mean).abs() > 0.25 * mean;
    notable.then(|| {
        format!(
            "Over the last {} intervals it had {mean:.0} % of a CPU on average.",
            before.len()
        )
    })
}

fn commands(row: &Row, system: &System, contended: Contended) -> Vec<(String, String)> {
    let mut commands = Vec::new();
    let ruled = match system.weight_rules {
        0 => "",
        _ => "; if a rule of /etc/scx_drfq.toml gives it one, change that in its place",
    };
    let mut add =
        |command: String, effect: &str| commands.push((command, format!("{effect}{ruled}")));
    // The levels that triple a weight, and that make it a third.
    let (more, less) = match system.thesis_weights {
        0 => (-5, 5),
        _ => (2, -2),
    };
    match &row.entity {
        Entity::Cgroup(path) if path != "/" => {
            let double = if row.weight > 0.0 {
                row.weight * 2.0
            } else {
                200.0
            };
            let value = double.min(10_000.0);
            let (above, unit) = path.rsplit_once('/').unwrap_or(("", path));
            let is_unit = [".service", ".slice", ".scope"]
                .iter()
                .any(|kind| unit.ends_with(kind));
            // Units below are those of the user's own manager, which this command does not ask.
            let of_user = above
                .split('/')
                .any(|part| part.starts_with("user@") && part.ends_with(".service"));
            if is_unit && !of_user {
                let unit = clean(unit).replace('\'', "");
                add(
                    format!("sudo systemctl set-property --runtime '{unit}' CPUWeight={value:.0}"),
                    "doubles its weight until the next boot",
                );
            } else if row.weight > 0.0 {
                // Without a weight there is no such file.
                let path = clean(path).replace('\'', "");
                add(
                    format!("echo {value:.0} | sudo tee '/sys/fs/cgroup{path}/cpu.weight'"),
                    "doubles its weight",
                );
            }
        }
        Entity::Cgroup(_) => {}
        Entity::Task(pid) => add(
            format!("sudo renice -n {more} -p {pid}"),
            &format!("triples its weight (nice {more}; nice {less} makes it a third)"),
        ),
        Entity::Process(pid) => add(
            format!("sudo renice -n {more} -p $(ls /proc/{pid}/task)"),
            &format!(
                "triples the weight of its threads (nice {more}; nice {less} makes it a third)"
            ),
        ),
    }
    let throttle = lacks_throttle(contended, &system.mba);
    if throttle || system.mem_bytes_per_s == 0 {
        commands.extend(restart(throttle));
    }
    commands
}

/// Only a start of the scheduler changes its options, and it must not run while it is calibrated.
fn restart(throttle: bool) -> impl Iterator<Item = (String, String)> {
    let start = match throttle {
        true => (
            "sudo scx_drfq --mba on",
            "starts it again, and throttles the heaviest users of memory bandwidth, where the \
             machine has MBA; for each start, write mba = \"on\" into /etc/scx_drfq.toml",
        ),
        false => ("sudo scx_drfq", "starts it again"),
    };
    let steps = [
        (
            "sudo systemctl stop scx_drfq",
            "stops the scheduler; without the service, press Ctrl-C where it runs",
        ),
        (
            "sudo scx_drfq calibrate",
            "measures the memory, so that its traffic is charged",
        ),
        start,
    ];
    steps
        .into_iter()
        .map(|(command, effect)| (command.to_owned(), effect.to_owned()))
}

#[cfg(test)]
mod tests;
