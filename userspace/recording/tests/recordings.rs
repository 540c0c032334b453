// SPDX-License-Identifier: GPL-2.0-only
//! Recordings as files: what is written is read, whatever happens to the file.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, sync::Arc, time::Duration};

use drfq_recording::{
    KEY_INTERVAL, TASKS_MAX,
    reader::{Reader, Replay},
    writer::Writer,
};
use drfq_stats::report::Task;
use drfq_view::{
    snapshot::{Process, Snapshot},
    source::Source,
};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

/// A snapshot of `tasks` tasks after `seconds` s. Those with even ids rest.
fn snapshot(seconds: u64, tasks: u32) -> Snapshot {
    let mut snapshot = Snapshot {
        at_unix_ns: seconds * SECOND,
        ..Snapshot::default()
    };
    let report = &mut snapshot.report;
    report.nr_tasks = tasks.into();
    report.system.vtime_ns = seconds * 7;
    for pid in 1..=tasks {
        let busy = u64::from(pid % 2) * seconds;
        report.tasks.push(Task {
            pid,
            tgid: pid,
            comm: format!("task {pid}"),
            state: "blocked".into(),
            dominant_pct: f64::from(tasks - pid),
            cpu_pct: (busy % 13) as f64,
            charged_ns: busy * 123_456_789,
            lag_ns: -(busy as i64),
            ..Task::default()
        });
        let process = Process {
            name: format!("task {pid}"),
            ..Process::default()
        };
        snapshot.processes.insert(pid, Arc::new(process));
    }
    snapshot
}

fn write(path: &Path, range: std::ops::Range<u64>, tasks: u32) {
    let mut writer = Writer::open(path, 1 << 30).unwrap();
    for seconds in range {
        writer.append(&snapshot(seconds, tasks)).unwrap();
    }
}

fn read(path: &Path) -> Vec<Snapshot> {
    let mut reader = Reader::open(path).unwrap();
    std::iter::from_fn(|| reader.read_next().unwrap()).collect()
}

fn expected(range: std::ops::Range<u64>, tasks: u32) -> Vec<Snapshot> {
    range.map(|seconds| snapshot(seconds, tasks)).collect()
}

#[test]
fn what_was_written_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    write(&path, 1..150, 5);
    assert_eq!(read(&path), expected(1..150, 5));
    assert_eq!(Reader::open(&path).unwrap().lost_bytes(), 0);
}

#[test]
fn a_recording_is_continued() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    write(&path, 1..5, 3);
    // A crash cut the last frame.
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
    write(&path, 5..9, 3);
    assert_eq!(read(&path), [expected(1..4, 3), expected(5..9, 3)].concat());
}

#[test]
fn another_kind_of_file_is_refused_and_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("passwd");
    fs::write(&path, "root:x:0:0::/root:/bin/sh\n").unwrap();
    let refused = Writer::open(&path, 1 << 20).err().unwrap().to_string();
    assert!(
        refused.contains("is no recording and stays as it is"),
        "{refused}"
    );
    assert!(fs::read_to_string(&path).unwrap().starts_with("root"));
    assert!(Reader::open(&path).is_err());
    fs::write(&path, "").unwrap();
    assert!(Reader::open(&path).is_err());
}

#[test]
fn two_writers_of_one_file_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    let _first = Writer::open(&path, 1 << 20).unwrap();
    let refused = Writer::open(&path, 1 << 20).err().unwrap().to_string();
    assert!(refused.contains("another scx_drfq record"), "{refused}");
}

#[test]
fn a_file_cut_anywhere_is_read_up_to_there() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    write(&path, 1..9, 2);
    let (whole, expected) = (fs::read(&path).unwrap(), expected(1..9, 2));
    let mut last = 0;
    for length in 0..=whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        let Ok(mut reader) = Reader::open(&path) else {
            assert_eq!(last, 0);
            continue;
        };
        let got: Vec<_> = std::iter::from_fn(|| reader.read_next().unwrap()).collect();
        assert!(
            got.len() >= last && got == expected[..got.len()],
            "{length}"
        );
        last = got.len();
    }
    assert_eq!(last, expected.len());
}

#[test]
fn a_flipped_bit_ends_the_recording_before_its_frame() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    write(&path, 1..6, 2);
    let (whole, expected) = (fs::read(&path).unwrap(), expected(1..6, 2));
    for at in 8..whole.len() {
        let mut spoiled = whole.clone();
        spoiled[at] ^= 1 << (at % 8);
        fs::write(&path, &spoiled).unwrap();
        let Ok(mut reader) = Reader::open(&path) else {
            continue;
        };
        let got: Vec<_> = std::iter::from_fn(|| reader.read_next().unwrap()).collect();
        assert!(
            got.len() < expected.len() && got == expected[..got.len()],
            "{at}"
        );
        assert!(reader.lost_bytes() > 0);
    }
}

#[test]
fn a_recording_that_is_spoiled_in_the_middle_is_refused_and_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    write(&path, 1..6, 2);
    let mut spoiled = fs::read(&path).unwrap();
    spoiled[40] ^= 1;
    fs::write(&path, &spoiled).unwrap();
    let refused = Writer::open(&path, 1 << 20).err().unwrap().to_string();
    assert!(refused.contains("is damaged after"), "{refused}");
    assert_eq!(fs::read(&path).unwrap(), spoiled);
}

#[test]
fn a_recording_behind_a_link_stays_behind_it() {
    let directory = tempfile::tempdir().unwrap();
    let (path, link) = (directory.path().join("r"), directory.path().join("link"));
    fs::write(&path, "").unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let mut writer = Writer::open(&link, 10_000).unwrap();
    for seconds in 1..300 {
        writer.append(&snapshot(seconds, 20)).unwrap();
    }
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::metadata(&path).unwrap().len(), writer.bytes());
}

#[test]
fn the_size_is_bounded_and_the_newest_half_keeps_every_second() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    let most = 60_000;
    let mut writer = Writer::open(&path, most).unwrap();
    for seconds in 1..1500 {
        writer.append(&snapshot(seconds, 20)).unwrap();
        assert!(writer.bytes() <= most);
        assert_eq!(fs::metadata(&path).unwrap().len(), writer.bytes());
    }
    let got = read(&path);
    for (got, seconds) in got
        .iter()
        .rev()
        .zip((1..1500).rev())
        .take(KEY_INTERVAL as usize)
    {
        assert_eq!(*got, snapshot(seconds, 20));
    }
    let gaps = got
        .windows(2)
        .map(|pair| (pair[1].at_unix_ns - pair[0].at_unix_ns) / SECOND);
    let mut gaps: Vec<u64> = gaps.collect();
    gaps.sort_unstable();
    gaps.dedup();
    assert!(
        gaps[0] == 1 && gaps.last() <= Some(&u64::from(KEY_INTERVAL)),
        "{gaps:?}"
    );
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn a_new_recording_is_private_and_one_that_exists_keeps_its_mode() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    write(&path, 1..3, 2);
    assert_eq!(mode(), 0o600);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    write(&path, 3..5, 2);
    assert_eq!(mode(), 0o640);
}

#[test]
fn a_recording_that_shrinks_stays_private_and_touches_no_other_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r.1");
    let other = directory.path().join("other");
    fs::write(&other, "theirs").unwrap();
    std::os::unix::fs::symlink(&other, directory.path().join("r.1.shrinking")).unwrap();
    let mut writer = Writer::open(&path, 60_000).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    for seconds in 1..1500 {
        writer.append(&snapshot(seconds, 20)).unwrap();
    }
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(fs::read(&other).unwrap(), b"theirs");
}

#[test]
fn the_times_of_a_recording_hold_although_the_clock_was_set_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    write(&path, 100..110, 3);
    write(&path, 50..55, 3);
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.times(), (50 * SECOND, 109 * SECOND));
}

#[test]
fn a_recording_that_cannot_be_shrunk_is_shrunk_a_minute_later() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    let obstacle = directory.path().join("r.shrinking");
    fs::create_dir(&obstacle).unwrap();
    let mut writer = Writer::open(&path, 20_000).unwrap();
    let mut append = |seconds| writer.append(&snapshot(seconds, 50));
    let full = (1..).find(|&seconds| append(seconds).is_err()).unwrap();
    fs::remove_dir(&obstacle).unwrap();
    let before = fs::read(&path).unwrap();
    let error = append(full + 59).unwrap_err();
    assert!(format!("{error:#}").contains("cannot shrink"), "{error:#}");
    assert_eq!(fs::read(&path).unwrap(), before);
    append(full + 60).unwrap();
    append(full + 61).unwrap();
    assert_eq!(read(&path).pop(), Some(snapshot(full + 61, 50)));
}

#[test]
fn a_snapshot_that_never_fits_is_an_error_that_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(&directory.path().join("r"), 200).unwrap();
    let error = writer.append(&snapshot(1, 50)).unwrap_err().to_string();
    assert!(error.contains("--max-size"), "{error}");
}

#[test]
fn a_snapshot_that_no_reader_would_take_is_not_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    let mut writer = Writer::open(&path, 1 << 30).unwrap();
    writer.append(&snapshot(1, 2)).unwrap();
    let mut large = snapshot(2, 2);
    large.report.tasks[0].comm = "x".repeat(33 << 20);
    let error = writer.append(&large).unwrap_err().to_string();
    assert!(error.contains("too large"), "{error}");
    drop(writer);
    assert_eq!(read(&path), expected(1..2, 2));
}

#[test]
fn a_snapshot_of_as_many_tasks_as_are_recorded_fits() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(&directory.path().join("r"), 1 << 30).unwrap();
    let mut large = snapshot(1, TASKS_MAX as u32);
    for task in &mut large.report.tasks {
        (task.pid, task.tgid) = (task.pid + 4_000_000, task.tgid + 4_000_000);
        task.comm = "123456789012345".into();
        for count in [&mut task.bytes, &mut task.charged_ns, &mut task.wait_ns] {
            *count = u64::MAX / 3;
        }
    }
    writer.append(&large).unwrap();
}

#[test]
fn a_full_disk_is_an_error_and_leaves_what_there_was() {
    let error = Writer::open(Path::new("/dev/full"), 1 << 20).err().unwrap();
    assert!(format!("{error:#}").contains("/dev/full"), "{error:#}");
}

#[test]
fn a_replay_can_go_to_any_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    write(&path, 100..300, 3);
    let mut replay = Replay::new(Reader::open(&path).unwrap()).unwrap();
    assert_eq!(replay.span(), Some((100 * SECOND, 299 * SECOND)));
    for (asked, got) in [(250, 250), (0, 100), (100, 100), (9999, 299), (161, 161)] {
        assert!(replay.seek(asked * SECOND + 5).unwrap());
        assert_eq!(replay.poll().unwrap(), Some(snapshot(got, 3)));
    }
    assert!(replay.wait() > Duration::from_millis(500));
    assert_eq!(replay.poll().unwrap(), None);
    assert_eq!(replay.step().unwrap(), Some(snapshot(162, 3)));
    replay.seek(9999 * SECOND).unwrap();
    assert!(!replay.over());
    replay.poll().unwrap();
    assert!(replay.over());
}

#[test]
fn a_second_of_200_tasks_of_which_10_run_takes_little_room() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    let mut writer = Writer::open(&path, 1 << 30).unwrap();
    for seconds in 0..600 {
        let mut snapshot = snapshot(seconds, 200);
        for task in snapshot
            .report
            .tasks
            .iter_mut()
            .filter(|task| task.pid > 20)
        {
            (task.charged_ns, task.cpu_pct, task.lag_ns) = (0, 0.0, 0);
        }
        writer.append(&snapshot).unwrap();
    }
    let per_second = writer.bytes() / 600;
    println!("{per_second} bytes per second");
    assert!(per_second < 1000, "{per_second}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_recording_cut_anywhere_is_read_up_to_there(
        tasks in prop::collection::vec(0..6u32, 1..90),
        cut in any::<prop::sample::Index>(),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r");
        let mut writer = Writer::open(&path, 1 << 30).unwrap();
        let (mut expected, mut ends) = (Vec::new(), Vec::new());
        for (seconds, &tasks) in (1..).zip(&tasks) {
            expected.push(snapshot(seconds, tasks));
            writer.append(&expected[expected.len() - 1]).unwrap();
            ends.push(writer.bytes());
        }
        drop(writer);
        let whole = fs::read(&path).unwrap();
        prop_assert_eq!(ends.last(), Some(&(whole.len() as u64)));
        let length = cut.index(whole.len() + 1);
        fs::write(&path, &whole[..length]).unwrap();
        let frames = ends.iter().filter(|&&end| end <= length as u64).count();
        if frames == 0 {
            prop_assert!(Reader::open(&path).is_err());
        } else {
            prop_assert_eq!(read(&path), &expected[..frames]);
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes: Vec<u8>, spoil in 0usize..4000, by: u8) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r");
        fs::write(&path, [b"DRFQREC\x01".as_slice(), &bytes].concat()).unwrap();
        if let Ok(mut reader) = Reader::open(&path) {
            while let Ok(Some(_)) = reader.read_next() {}
        }
        // A whole frame with a right checksum and a wrong content.
        let mut frame = drfq_recording::frame::encode(
            drfq_recording::frame::Kind::Key, 1, &serde_json::json!({"report": by}),
        ).unwrap();
        let at = spoil % frame.len();
        frame[at] ^= by;
        fs::write(&path, [b"DRFQREC\x01".as_slice(), &frame].concat()).unwrap();
        if let Ok(mut reader) = Reader::open(&path) {
            while let Ok(Some(_)) = reader.read_next() {}
        }
    }
}
