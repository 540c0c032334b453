// SPDX-License-Identifier: GPL-2.0-only
//! `scx_drfq export`: a recording as CSV, as JSON lines, or as a trace for Perfetto.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, BufWriter, Write},
};

use anyhow::Result;
use drfq_recording::reader::Reader;
use drfq_stats::report::{System, Task};
use drfq_view::snapshot::Snapshot;
use serde_json::{Value, json};

use crate::{
    cli::{Export, Format},
    json_lines,
};

/// Writes a recording to standard output.
///
/// # Errors
/// The recording cannot be read, or the output cannot be written.
pub fn run(options: &Export) -> Result<()> {
    let reader = Reader::open(&options.file)?;
    super::report::tell_loss(&reader);
    let mut output = BufWriter::new(io::stdout().lock());
    write(reader, options.format, &mut output)?;
    output.flush()?;
    Ok(())
}

fn write(mut reader: Reader, format: Format, output: &mut impl Write) -> Result<()> {
    let mut trace = Trace::default();
    match format {
        Format::Csv => writeln!(output, "{}", head())?,
        Format::Perfetto => write!(output, "[")?,
        Format::Jsonl => {}
    }
    while let Some(snapshot) = reader.read_next()? {
        match format {
            Format::Csv => rows(&snapshot, output)?,
            Format::Jsonl => {
                let line = json_lines::line(snapshot.at_unix_ns, &snapshot.report)?;
                writeln!(output, "{line}")?;
            }
            Format::Perfetto => {
                for event in trace.events(&snapshot) {
                    let comma = if trace.written { ",\n" } else { "\n" };
                    write!(output, "{comma}{event}")?;
                    trace.written = true;
                }
            }
        }
    }
    if format == Format::Perfetto {
        writeln!(output, "\n]")?;
    }
    Ok(())
}

/// What a row has before the statistics of the task.
const PLACE: [&str; 3] = ["time_ns", "user", "cgroup"];

/// The fields of a task, by name.
fn fields(task: &Task) -> BTreeMap<String, Value> {
    match serde_json::to_value(task) {
        Ok(Value::Object(fields)) => fields.into_iter().collect(),
        _ => BTreeMap::new(),
    }
}

fn head() -> String {
    let fields = fields(&Task::default());
    let names = PLACE.into_iter().chain(fields.keys().map(String::as_str));
    names.collect::<Vec<_>>().join(",")
}

fn rows(snapshot: &Snapshot, output: &mut impl Write) -> Result<()> {
    for task in &snapshot.report.tasks {
        let process = snapshot.processes.get(&task.tgid);
        let place = process.map_or(("", ""), |process| (&process.user, &process.cgroup));
        write!(
            output,
            "{},{},{}",
            snapshot.at_unix_ns,
            cell(place.0),
            cell(place.1)
        )?;
        for value in fields(task).values() {
            let text = value.as_str().map_or_else(|| value.to_string(), cell);
            write!(output, ",{text}")?;
        }
        writeln!(output)?;
    }
    Ok(())
}

/// A text as a cell (RFC 4180).
fn cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

/// What a trace has told so far.
#[derive(Default)]
struct Trace {
    written: bool,
    named: BTreeSet<u32>,
    system: System,
}

impl Trace {
    /// The events of a snapshot: counters of the machine and of each process that did
    /// something, and the times at which the scheduler was loaded.
    fn events(&mut self, snapshot: &Snapshot) -> Vec<Value> {
        /// The machine's process id in the trace.
        const MACHINE: u32 = 0;
        let system = &snapshot.report.system;
        let us = snapshot.at_unix_ns as f64 / 1e3;
        let counter = |pid: u32, name: &str, values: Value| {
            let mut event = json!({"ph": "C", "ts": us, "pid": pid, "name": name});
            event["args"] = values;
            event
        };
        let mut events = Vec::new();
        if self.named.insert(MACHINE) {
            events.push(process_name(MACHINE, "machine"));
        }
        if system.is_of_new_load(&self.system) {
            let name = "scx_drfq was loaded";
            events.push(
                json!({"ph": "i", "ts": us, "pid": MACHINE, "tid": 0, "s": "g", "name": name}),
            );
        }
        self.system = system.clone();
        events.push(counter(
            MACHINE,
            "busy CPUs",
            json!({"busy": system.busy_cpus}),
        ));
        let mut processes: BTreeMap<u32, [f64; 4]> = BTreeMap::new();
        for task in &snapshot.report.tasks {
            let sums = processes.entry(task.tgid).or_default();
            let used = [
                task.cpu_pct,
                task.fair_pct,
                task.mem_bytes_per_s,
                task.wait_pct,
            ];
            sums.iter_mut()
                .zip(used)
                .for_each(|(sum, used)| *sum += used);
        }
        for (pid, [cpu, fair, bytes, wait]) in processes {
            // An idle process that never did anything needs no track.
            if cpu + bytes + wait == 0.0 && !self.named.contains(&pid) {
                continue;
            }
            if self.named.insert(pid) {
                events.push(process_name(pid, &name_of(snapshot, pid)));
            }
            events.push(counter(pid, "CPU %", json!({"used": cpu, "fair": fair})));
            events.push(counter(pid, "memory bytes/s", json!({"moved": bytes})));
            events.push(counter(pid, "waiting %", json!({"waits": wait})));
        }
        events
    }
}

fn process_name(pid: u32, name: &str) -> Value {
    json!({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}})
}

fn name_of(snapshot: &Snapshot, pid: u32) -> String {
    let known = snapshot
        .processes
        .get(&pid)
        .map(|process| process.name.clone());
    let tasks = &snapshot.report.tasks;
    let task = || {
        tasks
            .iter()
            .find(|task| task.tgid == pid)
            .map(|task| task.comm.clone())
    };
    known.or_else(task).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use drfq_recording::writer::Writer;

    use super::*;

    /// Three seconds of a task with an awkward name, and a new load before the third.
    fn exported(format: Format) -> String {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r");
        let mut writer = Writer::open(&path, 1 << 20).unwrap();
        for seconds in 1..=3u64 {
            let mut snapshot = Snapshot {
                at_unix_ns: seconds * 1_000_000_000,
                ..Snapshot::default()
            };
            snapshot.report.system.uptime_ns = [0, 5, 9, 1][seconds as usize];
            let task = |pid, cpu_pct| Task {
                pid,
                tgid: pid,
                comm: "a,\"b\"".into(),
                cpu_pct,
                ..Task::default()
            };
            snapshot.report.tasks = vec![task(7, 50.0), task(8, 0.0)];
            writer.append(&snapshot).unwrap();
        }
        let mut output = Vec::new();
        write(Reader::open(&path).unwrap(), format, &mut output).unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn csv_has_a_row_for_each_task_and_time_with_quoted_names() {
        let text = exported(Format::Csv);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + 3 * 2);
        assert!(lines[0].starts_with("time_ns,user,cgroup,backlogged,bytes,"));
        assert!(lines[1].starts_with("1000000000,,,"));
        assert!(lines[1].contains("\"a,\"\"b\"\"\""), "{}", lines[1]);
    }

    #[test]
    fn json_lines_are_those_of_the_live_scheduler() {
        let text = exported(Format::Jsonl);
        let times: Vec<u64> = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .map(|value| value["time_ns"].as_u64().unwrap() / value["schema"].as_u64().unwrap())
            .collect();
        assert_eq!(times, [1_000_000_000, 2_000_000_000, 3_000_000_000]);
    }

    #[test]
    fn a_trace_names_processes_once_and_marks_loads() {
        let events: Vec<Value> = serde_json::from_str(&exported(Format::Perfetto)).unwrap();
        let count = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
        assert_eq!((count("M"), count("i")), (2, 1));
        assert!(events.iter().all(|event| event["pid"] != 8));
        let used = events
            .iter()
            .find(|event| event["name"] == "CPU %")
            .unwrap();
        assert_eq!(used["args"]["used"], 50.0);
    }
}
