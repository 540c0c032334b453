// SPDX-License-Identifier: GPL-2.0-only
use super::*;
use crate::settings::rules::{Bounds, Target};

/// Settings by a command line and a file.
fn read(arguments: &str, text: &str) -> Result<Settings, String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f.toml");
    fs::write(&path, text).unwrap();
    let words = std::iter::once("scx_drfq").chain(arguments.split_whitespace());
    let settings = Settings::read_with(words.map(OsString::from).collect(), &path, || Ok(()));
    settings.map_err(|refusal| {
        let directory = format!("{}/", directory.path().display());
        refusal.text().replace(&directory, "")
    })
}

#[track_caller]
fn assert_refused(text: &str, reason: &str) {
    let error = read("", text).err().expect("it is refused");
    assert!(
        error.starts_with("f.toml") && !error.contains('\n'),
        "{error}"
    );
    assert!(error.contains(reason), "{error:?} does not say {reason:?}");
}

#[test]
fn a_file_sets_options_and_rules() {
    let text = "slice-us = 2000\nmemory-bandwidth = '12.5G'\nno-dma = true\nmba = 'observe'\n\
                verbose = false\nrelaxed-maps = true\n\
                [[rule]]\ncgroup = '/a'\nweight = 3\n[[rule]]\ncommand = 'mbw*'\nweight = 0.5\n\
                memory-min = 20000000\nmemory-max = '1.5G'\n";
    let settings = read("", text).unwrap();
    let options = &settings.cli.options;
    assert_eq!(options.slice_us, 2000);
    assert_eq!(options.memory_bandwidth.to_string(), "12500000000");
    assert!(options.no_dma && !settings.cli.run.verbose);
    let libbpf = settings.cli.libbpf.options();
    assert_eq!(libbpf.relaxed_maps, Some(true));
    assert_eq!((libbpf.pin_root_path, libbpf.kconfig), (None, None));
    let rule = |target, weight, memory| Rule {
        target,
        weight: Some(weight),
        memory,
    };
    let bounds = Bounds {
        min: Some("20M".parse().unwrap()),
        max: Some("1500M".parse().unwrap()),
    };
    assert_eq!(
        settings.rules,
        [
            rule(Target::Cgroup("/a".into()), 3.0, Bounds::default()),
            rule(Target::Command("mbw*".into()), 0.5, bounds)
        ]
    );
}

#[test]
fn the_command_line_wins_over_the_file() {
    let settings = read("--slice-us 500", "slice-us = 2000\ncap-slices = 3\n").unwrap();
    assert_eq!(settings.cli.options.slice_us, 500);
    assert_eq!(settings.cli.options.cap_slices, 3);
    // Also over what contradicts it, in both directions.
    let settings = read("--no-delayed-wakeup", "hold-slices = 5\n").unwrap();
    assert_eq!(settings.cli.options.hold_slices, None);
    let settings = read("--hold-slices 5", "no-delayed-wakeup = true\n").unwrap();
    assert!(!settings.cli.options.no_delayed_wakeup);
}

#[test]
fn the_command_line_wins_over_what_its_values_make_meaningless() {
    let event = "perf-event = \"page-faults\"\nevent-bytes = 4096\n";
    for arguments in ["--perf-event none", "--perf-event auto"] {
        let options = read(arguments, event).unwrap().cli.options;
        assert_eq!(options.event_bytes, None, "{arguments}");
    }
    let options = read("--perf-event minor-faults", event)
        .unwrap()
        .cli
        .options;
    assert_eq!(options.event_bytes, Some(4096));
    let slices = "delta-slices = 5\n";
    let options = read("--variant memoryless", slices).unwrap().cli.options;
    assert_eq!(options.delta_slices, None);
    let options = read("--variant delta-bounded", slices).unwrap().cli.options;
    assert_eq!(options.delta_slices, Some(5));
    let controller = "controller = \"unix:a\"\ncontroller-interval-us = 500\n";
    let options = read("--throttle hold", controller).unwrap().cli.options;
    assert_eq!(
        (options.controller, options.controller_interval_us),
        (None, 1000)
    );
    // Without a part of the command line in it, a file is wrong as before.
    assert!(read("", "controller-interval-us = 500\n").is_err());
}

#[test]
fn the_longest_wait_for_a_pace_stays_where_wake_ups_are_not_delayed() {
    let settings = read("--no-delayed-wakeup", "hold-max-ms = 50\n").unwrap();
    assert!(settings.cli.options.no_delayed_wakeup);
    assert_eq!(settings.cli.options.hold_max_ms, Some(50));
}

#[test]
fn a_command_that_does_not_schedule_reads_no_default_file() {
    for arguments in ["doctor", "--monitor 1", "--help-stats"] {
        assert!(read(arguments, "this is not TOML").is_ok(), "{arguments}");
    }
    assert!(read("", "this is not TOML").is_err());
}

#[test]
fn an_error_names_file_line_and_reason() {
    for (text, reason) in [
        (
            "slice-us = 0\n",
            "f.toml:1: invalid value '0' for '--slice-us <US>'",
        ),
        ("\n\nslice-us = 'x'\n", "f.toml:3: invalid value 'x'"),
        ("a = 1\n", "f.toml:1: there is no option \"a\""),
        ("\n\nslice-us = [1]\n", "f.toml:3: slice-us needs a number"),
        ("no-dma = 1\n", "f.toml:1: no-dma is switched on by true"),
        (
            "dry-run = true\n",
            "f.toml:1: dry-run works on the command line only",
        ),
        ("config = 'x'\n", "command line only"),
        ("x = \n", "f.toml:1: not TOML"),
        (
            "slice-us = 1000\nslice-us = 1000\n",
            "f.toml:2: not TOML: duplicate key",
        ),
        (
            "hold-slices = 5\nno-delayed-wakeup = true\n",
            "f.toml: the argument",
        ),
        (
            "controller-interval-us = 500\n",
            "f.toml: the following required",
        ),
    ] {
        println!("{text}");
        assert_refused(text, reason);
    }
}

#[test]
fn an_error_in_a_rule_names_file_line_and_reason() {
    for (text, reason) in [
        ("\nrule = 5\n", "f.toml:2: write each rule under"),
        ("[[rule]]\nweight = 1\n", "f.toml:1: the rule needs cgroup"),
        (
            "[[rule]]\ncgroup = '/a'\n",
            "f.toml:1: the rule needs weight",
        ),
        (
            "[[rule]]\ncgroup = '/a'\nweight = 0\n",
            "f.toml:3: weight needs a number",
        ),
        (
            "[[rule]]\ncgroup = '/a'\nweight = nan\n",
            "f.toml:3: weight needs",
        ),
        (
            "[[rule]]\ncgroup = '/a'\nweight = 101\n",
            "f.toml:3: weight needs",
        ),
        (
            "[[rule]]\ncgroup = 'a'\nweight = 1\n",
            "f.toml:2: cgroup \"a\" needs a path",
        ),
        (
            "[[rule]]\ncgroup = '/'\nweight = 1\n",
            "f.toml:2: cgroup \"/\" needs a path",
        ),
        (
            "[[rule]]\ncommand = ''\nweight = 1\n",
            "f.toml:2: command \"\" needs 1 to 15",
        ),
        (
            "[[rule]]\ncommand = 5\nweight = 1\n",
            "f.toml:2: command needs a string",
        ),
        (
            "[[rule]]\ncolour = 5\nweight = 1\n",
            "f.toml:2: a rule has cgroup or",
        ),
        (
            "[[rule]]\ncgroup = '/a'\nmemory-max = 'much'\n",
            "f.toml:3: memory-max: expected a number of bytes",
        ),
        (
            "[[rule]]\ncgroup = '/a'\nmemory-min = true\n",
            "f.toml:3: memory-min: expected",
        ),
        (
            "[[rule]]\ncgroup = '/a'\nmemory-min = '2G'\nmemory-max = '1G'\n",
            "f.toml:1: memory-min is more than memory-max",
        ),
        (
            "[[rule]]\ncgroup = '/a'\ncommand = 'b'\nweight = 1\n",
            "f.toml:3: a rule is for a cgroup or for a command",
        ),
    ] {
        println!("{text}");
        assert_refused(text, reason);
    }
}

#[test]
fn what_is_printed_can_be_read_and_means_the_same() {
    let text = "mba = 'on'\nperf-event = 'cache-misses'\n\
                [[rule]]\ncommand = 'a\"b'\nweight = 2.5\n\
                [[rule]]\ncgroup = '/b'\nmemory-min = '20M'\nmemory-max = '1G'\n";
    let settings = read("--slice-us 500 --no-dma", text).unwrap();
    let mut output = Vec::new();
    print(&settings, &mut output).unwrap();
    let output = String::from_utf8(output).unwrap();
    assert!(
        output.contains("slice-us = 500 # the command line"),
        "{output}"
    );
    assert!(output.contains("f.toml"), "{output}");
    let again = read("", &output).unwrap();
    assert_eq!(again.rules, settings.rules);
    let texts = |settings: &Settings| -> Vec<_> {
        let values = settings.values.iter();
        values
            .map(|value| (value.name.clone(), value.text.clone()))
            .collect()
    };
    assert_eq!(texts(&again), texts(&settings));
}

#[test]
fn a_reload_takes_rules_and_refuses_everything_else() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f.toml");
    let rule = |weight| format!("[[rule]]\ncommand = 'a'\nweight = {weight}\n");
    fs::write(&path, format!("slice-us = 2000\n{}", rule(2))).unwrap();
    let words = ["scx_drfq", "--cap-slices", "5"].map(OsString::from);
    let mut settings = Settings::read_with(words.into(), &path, || Ok(())).unwrap();
    let weight = |settings: &Settings| settings.rules[0].weight;

    fs::write(
        &path,
        format!("cap-slices = 9\nslice-us = 2000\n{}", rule(3)),
    )
    .unwrap();
    // The command line wins over cap-slices, so that nothing but the rule has changed.
    assert_eq!(settings.reload(), Ok(()));
    assert_eq!(weight(&settings), Some(3.0));

    fs::write(&path, rule(4)).unwrap();
    let refused = settings.reload().unwrap_err();
    assert!(refused.contains("slice-us cannot change"), "{refused}");
    assert_eq!(weight(&settings), Some(3.0));

    fs::write(&path, "slice-us = 2000\n[[rule]]\n").unwrap();
    let refused = settings.reload().unwrap_err();
    assert!(refused.contains(":2: the rule needs"), "{refused}");
    fs::remove_file(&path).unwrap();
    assert!(settings.reload().unwrap_err().contains("cannot read"));
    assert_eq!(weight(&settings), Some(3.0));
}

#[test]
fn an_empty_device_is_a_configuration_that_sets_nothing() {
    let file = File::read(Path::new("/dev/null")).unwrap();
    assert!(file.entries.is_empty() && file.rules.is_empty());
}

#[test]
fn a_file_that_the_agent_may_not_read_again_belongs_into_etc() {
    let text = unread_again(
        Path::new("my.toml"),
        &io::ErrorKind::PermissionDenied.into(),
    );
    assert!(
        text.starts_with("my.toml: ") && text.ends_with("keep the file in /etc"),
        "{text}"
    );
    let text = unread_again(Path::new("my.toml"), &io::ErrorKind::NotFound.into());
    assert!(text.contains("put it back"), "{text}");
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "[a-z\\-=\\[\\]'\"0-9\\n\\.# {}]{0,80}") {
        let _ = File::parse("f", &text);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes: Vec<u8>) {
        let _ = File::parse("f", &String::from_utf8_lossy(&bytes));
        let _ = read("--dry-run", &String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn a_device_without_end_is_no_configuration() {
    let error = File::read(Path::new("/dev/zero")).unwrap_err();
    assert!(error.contains("are no configuration"), "{error}");
}

#[test]
fn only_a_regular_file_is_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f.toml");
    fs::write(&path, "").unwrap();
    let read = |path: &Path| Settings::read_with(vec!["scx_drfq".into()], path, || Ok(())).unwrap();
    let mut settings = read(&path);
    fs::remove_file(&path).unwrap();
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the path ends in NUL.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    // It has no writer, so that a plain open would wait for one.
    let refused = settings.reload().unwrap_err();
    assert!(refused.contains("cannot be read twice"), "{refused}");
    assert_eq!(read(Path::new("/dev/null")).reload(), Ok(()));
}

#[test]
fn the_agent_listens_to_reloads_before_it_reads_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let (absent, wrong) = (
        directory.path().join("absent"),
        directory.path().join("wrong"),
    );
    fs::write(&wrong, "no option").unwrap();
    let config = format!("--config={}", wrong.display());
    for (words, default, expected) in [
        (vec!["scx_drfq"], &absent, false),
        (vec!["scx_drfq"], &wrong, true),
        (vec!["scx_drfq", &config], &absent, true),
        (vec!["scx_drfq", "doctor"], &wrong, false),
    ] {
        let mut listens = false;
        let arguments = words.iter().map(OsString::from).collect();
        let settings = Settings::read_with(arguments, default, || {
            listens = true;
            Ok(())
        });
        assert_eq!(
            (listens, settings.is_err()),
            (expected, expected),
            "{words:?}"
        );
    }
}
