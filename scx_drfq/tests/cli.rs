// SPDX-License-Identifier: GPL-2.0-only
//! The command as users meet it: exit statuses, and errors of one line. No test
//! needs a kernel with sched_ext; a test that pretends one says so in its name.

use std::{
    fs, io,
    path::Path,
    process::{Command, Output, Stdio},
};

use drfq_recording::writer::Writer;
use drfq_stats::report::Task;
use drfq_view::snapshot::Snapshot;

const BINARY: &str = env!("CARGO_BIN_EXE_scx_drfq");

fn run(arguments: &str) -> Output {
    let mut command = Command::new(BINARY);
    command.args(arguments.split_whitespace());
    command.output().expect("the binary starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("output is text")
}

/// Checks that the command failed with this status and this reason in one line.
#[track_caller]
fn assert_refused(output: &Output, status: i32, reason: &str) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.starts_with("scx_drfq: "), "{text}");
    assert!(text.contains(reason), "{text:?} does not say {reason:?}");
    assert!(output.stdout.is_empty(), "{}", stdout(output));
}

#[test]
fn a_bad_command_line_exits_2_with_one_line() {
    for (arguments, reason) in [
        ("--no-such-option", "'--no-such-option'"),
        ("frobnicate", "'frobnicate'"),
        ("--slice-us", "'--slice-us <US>'"),
        ("--slice-us 0", "100..=1000000"),
        ("--slice-us 99999999999999999999", "'--slice-us <US>'"),
        ("--slice-us -1", "'-1'"),
        ("--delta-slices 0", "1..=1000"),
        ("--cap-slices 0", "1..=1000"),
        ("--wake-credit-slices 1001", "0..=1000"),
        ("--hold-max-ms 0", "1..=10000"),
        ("--hold-max-ms 60000", "1..=10000"),
        ("--rescue-ms 0", "10..=10000"),
        ("--preempt-margin-us 18446744073709551615", "0..=1000000"),
        ("--memory-bandwidth 0", "between 1 MB/s and 100 TB/s"),
        ("--memory-bandwidth 1000T", "between 1 MB/s and 100 TB/s"),
        ("--memory-bandwidth fast", "bytes per second"),
        ("--perf-event no-such-event", "page-faults"),
        ("--perf-event raw:0x0", "page-faults"),
        ("--variant best", "delta-bounded"),
        ("--weights heavy", "thesis"),
        ("--stats 0", "0.1 and 3600"),
        ("--stats 1 --dry-run", "cannot be used with"),
        ("--monitor 1 --stats 1", "cannot be used with"),
        (
            "--variant memoryless --delta-slices 5",
            "delta-bounded only",
        ),
        (
            "--variant dovetailing --delta-slices 5",
            "delta-bounded only",
        ),
        ("--event-bytes 64", "needs --perf-event"),
        ("--event-bytes 0 --perf-event cache-misses", "1..=1048576"),
        ("--perf-event none --event-bytes 64", "contradicts"),
        ("--perf-event page-faults", "needs --event-bytes"),
        ("--no-delayed-wakeup --hold-slices 5", "cannot be used with"),
        ("--single-queue --steal-margin-us 5", "cannot be used with"),
        ("--controller /dev/uio0", "mmio:PATH"),
        ("--controller unix:", "path is missing"),
        (
            "--controller mmio:auto --controller-interval-us 1",
            "100..=1000000",
        ),
        ("--shadow mmio:auto", "--shadow needs unix:PATH"),
        (
            "--shadow unix:a --controller unix:a",
            "start another server",
        ),
        ("--slice-us 4000 top", "'top'"),
        ("top --interval 0", "0.1 and 3600"),
        ("top --rows 0", "1..=10000"),
        ("top --duration never", "0.1 and 3600"),
        ("charge-traffic", "--pid"),
        ("charge-traffic --pid 0 --bytes 1", "'--pid <PID>'"),
        ("charge-traffic --pid 1 --bytes 0", "'--bytes <BYTES>'"),
    ] {
        println!("{arguments}");
        assert_refused(&run(arguments), 2, reason);
    }
}

#[test]
fn a_bad_option_of_an_interface_exits_2_with_one_line() {
    for (arguments, reason) in [
        ("--json", "--json needs --stats SEC or --monitor SEC"),
        ("--json --dry-run", "cannot be used with"),
        ("--metrics 9877", "ADDRESS:PORT"),
        ("--metrics unix:", "path is missing"),
        (
            "--config /nonexistent --dry-run",
            "cannot read the configuration",
        ),
        ("--config /dev --dry-run", "cannot read the configuration"),
        ("--print-config --dry-run", "cannot be used with"),
        ("--exit-dump-len 5", "1024..=16777216"),
        ("--relaxed-maps maybe", "true, false"),
        ("record", "<FILE>"),
        ("record r --max-size 1k", "between 64k and 1000G"),
        ("record r --duration 0.5", "nothing is measured"),
        ("report r --at noon", "03:12"),
        ("export r --format xml", "jsonl"),
        ("top --at 03:12", "--replay"),
        (
            "top --plain --interval 2 --duration 1",
            "nothing is measured",
        ),
        ("top --replay r --interval 2", "cannot be used with"),
        ("completions tcsh", "zsh"),
    ] {
        println!("{arguments}");
        assert_refused(&run(arguments), 2, reason);
    }
}

#[test]
fn a_client_without_a_scheduler_exits_1() {
    if Path::new("/var/run/scx/root/stats").exists() {
        println!("skipped: a scheduler serves statistics on this machine");
        return;
    }
    for arguments in ["top", "top --plain", "--monitor 1", "--monitor 1 --json"] {
        assert_refused(&run(arguments), 1, "no scx_drfq is running");
    }
}

/// A directory that stands for `/` and holds these (path, content) pairs.
fn fake_root(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

const CPUS: [(&str, &str); 2] = [
    ("sys/devices/system/cpu/online", "0-3\n"),
    ("sys/devices/system/cpu/possible", "0-7\n"),
];
const DISABLED: (&str, &str) = ("sys/kernel/sched_ext/state", "disabled\n");

fn run_on(root: &Path, arguments: &str) -> Output {
    let mut command = Command::new(BINARY);
    command
        .args(arguments.split_whitespace())
        .env("SCX_SYSFS_PREFIX", root);
    command.output().expect("the binary starts")
}

#[test]
fn an_unreadable_sysfs_exits_1() {
    let root = fake_root(&[]);
    assert_refused(
        &run_on(root.path(), "--dry-run"),
        1,
        "sys/devices/system/cpu/online",
    );
    let root = fake_root(&[("sys/devices/system/cpu/online", "all of them\n"), CPUS[1]]);
    assert_refused(&run_on(root.path(), "--dry-run"), 1, "not a list of CPUs");
    let root = fake_root(&[CPUS[0], ("sys/devices/system/cpu/possible", "0-4095\n")]);
    assert_refused(&run_on(root.path(), "--dry-run"), 1, "4096 CPUs");
}

#[test]
fn a_pretended_kernel_without_sched_ext_is_diagnosed() {
    let release = ("proc/sys/kernel/osrelease", "6.12.9-test\n");
    let config = (
        "boot/config-6.12.9-test",
        "# CONFIG_SCHED_CLASS_EXT is not set\n",
    );
    let root = fake_root(&[CPUS[0], CPUS[1], release, config]);
    let reason = "kernel 6.12.9-test has no sched_ext (# CONFIG_SCHED_CLASS_EXT is not set)";
    assert_refused(&run_on(root.path(), ""), 1, reason);
}

#[test]
fn another_pretended_scheduler_is_named() {
    let state = ("sys/kernel/sched_ext/state", "enabled\n");
    let root = fake_root(&[
        CPUS[0],
        CPUS[1],
        state,
        ("sys/kernel/sched_ext/root/ops", "rusty_1\n"),
    ]);
    assert_refused(
        &run_on(root.path(), ""),
        1,
        "\"rusty_1\" is already loaded; stop it first",
    );
}

#[test]
fn without_privileges_the_error_names_them() {
    let root = fake_root(&[CPUS[0], CPUS[1], DISABLED]);
    // SAFETY: geteuid() has no preconditions.
    let mut command = if unsafe { libc::geteuid() } == 0 {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-all", "--inh-caps=-all", BINARY]);
        command
    } else {
        Command::new(BINARY)
    };
    let output = command
        .env("SCX_SYSFS_PREFIX", root.path())
        .output()
        .expect("setpriv starts");
    assert_refused(
        &output,
        1,
        "missing privileges: CAP_BPF and CAP_PERFMON; run scx_drfq with sudo",
    );
}

#[test]
fn a_dry_run_prints_what_would_be_loaded() {
    let root = fake_root(&CPUS);
    let output = run_on(
        root.path(),
        "--dry-run --slice-us 2000 --memory-bandwidth 4G",
    );
    assert!(output.status.success());
    let config: toml::Table = stdout(&output).parse().expect("it is TOML");
    for (name, value) in [
        ("nr_cpus", 4),
        ("nr_cpu_ids", 8),
        ("slice_ns", 2_000_000),
        ("preempt_margin_ns", 500_000),
        ("memory_bandwidth_bytes_per_s", 4_000_000_000),
        ("mem_ns_per_byte_q32", 1 << 30),
    ] {
        assert_eq!(config[name].as_integer(), Some(value), "{name}");
    }
}

#[test]
fn a_dry_run_says_why_memory_is_not_charged() {
    let root = fake_root(&CPUS);
    for (options, told) in [
        ("--dry-run", true),
        ("--dry-run --memory-bandwidth none", false),
    ] {
        let output = run_on(root.path(), options);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            said.contains("m is unknown here: cannot read"),
            told,
            "{said}"
        );
    }
}

#[test]
fn the_configuration_in_effect_is_printed_and_can_be_read_again() {
    let root = fake_root(&CPUS);
    let file = root.path().join("drfq.toml");
    fs::write(
        &file,
        "slice-us = 2000\n[[rule]]\ncommand = \"mbw\"\nweight = 2\n",
    )
    .unwrap();
    let print = |file: &Path, more: &str| {
        let arguments = format!("--config {} --print-config {more}", file.display());
        let output = run_on(root.path(), &arguments);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        stdout(&output)
    };
    let text = print(&file, "--cap-slices 7");
    assert!(text.contains("slice-us = 2000 # ") && text.contains("cap-slices = 7 # the command"));
    let again = root.path().join("again.toml");
    fs::write(&again, &text).unwrap();
    let values = |text: &str| text.parse::<toml::Table>().unwrap();
    assert_eq!(values(&print(&again, "")), values(&text));
}

#[test]
fn a_file_that_is_no_recording_exits_1() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("r");
    fs::write(&file, "text").unwrap();
    for command in ["report", "export", "top --replay"] {
        let output = run(&format!("{command} {}", file.display()));
        assert_refused(&output, 1, "is no recording");
    }
    assert_refused(&run("export /nonexistent"), 1, "cannot read /nonexistent");
}

#[test]
fn a_replay_keeps_to_its_rows_and_its_duration() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("r");
    let mut writer = Writer::open(&file, 1 << 20).unwrap();
    for second in 0..5 {
        let mut snapshot = Snapshot {
            at_unix_ns: second * 2_000_000_000,
            ..Snapshot::default()
        };
        let task = |pid| Task {
            pid,
            comm: format!("hog{pid}"),
            ..Task::default()
        };
        snapshot.report.tasks = (1..=5).map(task).collect();
        writer.append(&snapshot).unwrap();
    }
    drop(writer);
    let options = "--rows 2 --duration 0.5";
    let output = run(&format!(
        "top --plain --replay {} {options}",
        file.display()
    ));
    let text = stdout(&output);
    assert!(output.status.success(), "{text}");
    assert_eq!(text.matches("hog").count(), 2, "{text}");
}

#[test]
fn help_and_version_exit_0_without_errors() {
    for (arguments, word) in [
        ("--help", "--memory-bandwidth"),
        ("top --help", "--interval"),
        ("--version", "scx_drfq 0."),
        ("--help-stats", "packets started on a CPU"),
    ] {
        let output = run(arguments);
        assert!(
            output.status.success() && stdout(&output).contains(word),
            "{arguments}"
        );
        assert!(output.stderr.is_empty());
    }
}

#[test]
fn doctor_prints_one_line_for_each_requirement() {
    let output = run("doctor");
    let text = stdout(&output);
    assert!(output.stderr.is_empty());
    for line in text.lines() {
        let known = ["[ok]", "[warn]", "[FAIL]"]
            .iter()
            .any(|mark| line.starts_with(mark));
        assert!(known && line.contains(": "), "{line}");
    }
    for what in ["sched_ext", "BTF", "privileges", "CPUs", "PMU", "resctrl"] {
        assert!(text.contains(&format!(" {what}: ")), "{what} in {text}");
    }
    assert_eq!(output.status.success(), !text.contains("[FAIL]"));
}

#[test]
fn a_closed_pipe_is_no_error() {
    for arguments in [
        "--help",
        "--help-stats",
        "--dry-run --memory-bandwidth none",
        "--print-config",
        "completions bash",
        "doctor",
    ] {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(BINARY);
        command
            .args(arguments.split_whitespace())
            .stdout(writer)
            .stderr(Stdio::piped());
        let output = command.spawn().unwrap().wait_with_output().unwrap();
        assert!(
            output.stderr.is_empty(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(output.status.code(), Some(0), "{arguments}");
    }
}
