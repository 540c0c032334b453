// SPDX-License-Identifier: GPL-2.0-only
//! The demonstration without a terminal, with a script in place of the virtual machine.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

/// Runs the host's side with this script as `vm/vm`.
fn run(name: &str, script: &str) -> Output {
    run_by(name, script, Command::new(env!("CARGO_BIN_EXE_drfq-demo")))
}

/// The same by a command that takes the arguments of `drfq-demo`.
fn run_by(name: &str, script: &str, mut demo: Command) -> Output {
    let vm: PathBuf = env::temp_dir().join(format!("drfq-demo-{name}-{}", std::process::id()));
    fs::write(&vm, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&vm, fs::Permissions::from_mode(0o755)).unwrap();
    let machine = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../machines/lvtf.toml");
    let output = demo
        .args(["host", "--seconds", "1", "--vm"])
        .arg(&vm)
        .arg("--machine")
        .arg(machine)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    fs::remove_file(&vm).unwrap();
    output
}

fn sample(half_seconds: u64, scheduler: &str, latency_us: u64) -> String {
    let at_ns = half_seconds * 500_000_000;
    let usage = |bytes| {
        format!(r#"{{"cpu_us":{half_seconds},"bytes":{bytes},"weight":100,"processes":2}}"#)
    };
    let (service, hogs) = (usage(half_seconds), usage(half_seconds * 1_000_000));
    format!(r#"{{"at_ns":{at_ns},"scheduler":"{scheduler}","service":{service},"hogs":{hogs},"#)
        + &format!(r#""latencies_us":[{latency_us}],"message":null}}"#)
}

#[test]
fn without_a_terminal_both_schedulers_are_measured_and_the_result_is_text() {
    let eevdf = (0..8).map(|at| sample(at, "Eevdf", 40_000));
    let drfq = (8..20).map(|at| sample(at, "Drfq", 5_000));
    let lines: Vec<String> = eevdf.chain(drfq).collect();
    let script = format!("echo booting >&2\ncat <<'END'\n{}\nEND", lines.join("\n"));
    let output = run("text", &script);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    for words in [
        "Modelled: cores, caches, lpddr2-1066-x32 memory",
        "EEVDF: measuring",
        "scx_drfq: measuring",
        "at most 5.0 ms instead of 40.0 ms",
        "8.0 times less",
    ] {
        assert!(text.contains(words), "{words} in\n{text}");
    }
}

#[test]
fn a_virtual_machine_that_ends_early_is_an_error_with_its_last_words() {
    // Its errors come after the end of what it prints.
    let script = "exec >&-; sleep 0.2; echo 'vm: error: no static busybox' >&2; exit 125";
    let output = run("early", script);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("no static busybox"), "{errors}");
    assert!(
        errors.contains("ended before the demonstration did"),
        "{errors}"
    );
}

#[test]
fn orders_go_to_a_private_directory_that_was_not_there_before() {
    let temporary = tempfile::tempdir().unwrap();
    let kept = temporary.path().join("kept");
    fs::write(&kept, "kept").unwrap();
    // A directory that another user could foresee, with a link in place of the orders.
    let plant = r#"mkdir "$TMPDIR/drfq-demo.$$"; ln -s ../kept "$TMPDIR/drfq-demo.$$/orders"
        exec "$0" "$@""#;
    let mut demo = Command::new("sh");
    demo.args(["-c", plant, env!("CARGO_BIN_EXE_drfq-demo")])
        .env("TMPDIR", temporary.path());
    // The arguments are those of vm/vm run.
    let script =
        r#"while [ "$1" != --out ]; do shift; done; stat -c 'mode %a of %F' "$2" "$2/orders""#;
    let output = run_by("private", script, demo);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("mode 700 of directory"), "{text}");
    assert!(text.contains("of regular empty file"), "{text}");
    assert_eq!(fs::read_to_string(kept).unwrap(), "kept");
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 2);
}

/// Runs until the demonstration fails, with these samples. The virtual machine would go on.
fn run_that_fails(name: &str, lines: &[String]) -> String {
    let script = format!(
        "echo 'Error: no BTF' >&2\ncat <<'END'\n{}\nEND\nexec sleep 5",
        lines.join("\n")
    );
    let output = run(name, &script);
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_scheduler_that_ends_while_it_is_loaded_ends_the_demonstration_with_its_words() {
    let mut lines: Vec<String> = (0..8).map(|at| sample(at, "Eevdf", 40_000)).collect();
    lines.push(sample(8, "Eevdf", 40_000).replace("null", r#""scx_drfq ended by itself""#));
    let errors = run_that_fails("load", &lines);
    assert!(errors.contains("Error: no BTF"), "{errors}");
    assert!(
        errors.contains("scx_drfq ended by itself; there is nothing to compare"),
        "{errors}"
    );
}

#[test]
fn samples_of_another_scheduler_are_not_measured() {
    let eevdf = (0..8).map(|at| sample(at, "Eevdf", 40_000));
    let drfq = (8..14).map(|at| sample(at, "Drfq", 5_000));
    let other = (14..24).map(|at| sample(at, "Eevdf", 40_000));
    let errors = run_that_fails("other", &eevdf.chain(drfq).chain(other).collect::<Vec<_>>());
    assert!(
        errors.contains("EEVDF runs where scx_drfq was to be measured"),
        "{errors}"
    );
}
