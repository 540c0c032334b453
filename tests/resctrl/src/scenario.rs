// SPDX-License-Identifier: GPL-2.0-only
//! The test's steps, in order. Prints a line of JSON for each measurement. Both of its
//! readings are between two lines of ground truth, because the kernel's work for a reading
//! evicts modified lines of the group.

use std::{
    arch::x86_64::__cpuid_count,
    env,
    ffi::CString,
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use drfq_resctrl::{
    error::{Error, Kind},
    fs::{KernelFs, ResctrlFs},
    groups::{Ctrl, Group, Groups, Mon, Placed},
    info::{Info, Vendor},
    reading::{Delta, Event, Meter},
    schemata::Resource,
};
use serde_json::json;

use crate::{POINT, foreign::Foreign, load::Load, open};

type Kernel = Groups<KernelFs>;

/// Runs all steps.
pub fn run() -> Result<()> {
    check_info()?;
    let foreign = Foreign::new()?;
    let mut load = Load::start(2)?;
    kill_in_the_middle(&load)?;
    foreign.check("after SIGKILL")?;
    let groups = clean(&load)?;
    foreign.check("after cleaning")?;
    let slow = limbo(&groups)?;
    let mon = groups.create_mon(&Ctrl::DEFAULT, "m")?;
    run_out(&groups, &slow)?;
    ensure!(groups.add_task(&mon, load.tid())? == Placed::Moved);
    measure(&groups, mon, &slow, &mut load)?;
    foreign.check("after measuring")?;
    drop(groups);
    let left = ours()?;
    ensure!(left.is_empty(), "dropping the owner has left {left:?}");
    foreign.check("after dropping the owner")?;
    unmount(&load)
}

/// Checks the properties that the machine's description gives.
fn check_info() -> Result<()> {
    let info = Info::read(&KernelFs::open(Path::new(POINT))?, Vendor::Intel)?;
    let bandwidth = info.bandwidth.context("no MBA")?;
    let monitoring = info.monitoring.context("no monitoring")?;
    let found = (
        info.num_closids,
        monitoring.num_rmids,
        bandwidth.min,
        bandwidth.step,
    );
    ensure!(
        found == (3, 4, 10, 10),
        "classes, RMIDs, minimum, step: {found:?}"
    );
    let domains = (&bandwidth.domains[..], &monitoring.domains[..]);
    ensure!(domains == (&[0], &[0]), "domains: {domains:?}");
    ensure!(
        monitoring.events == Event::ALL,
        "events: {:?}",
        monitoring.events
    );
    Ok(())
}

/// Lets another process of user 0, which has no capability but CAP_DAC_OVERRIDE, make groups,
/// and kills it.
fn kill_in_the_middle(load: &Load) -> Result<()> {
    let mut holder = Command::new("setpriv")
        .args([
            "--bounding-set=-all,+dac_override",
            "--inh-caps=-all",
            "--ambient-caps=-all",
            "--",
        ])
        .arg(env::current_exe()?)
        .args(["hold", &load.tid().to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .context("start setpriv")?;
    let mut line = String::new();
    BufReader::new(holder.stdout.take().context("no pipe")?).read_line(&mut line)?;
    holder.kill()?;
    holder.wait()?;
    ensure!(line == "ready\n", "the holder has failed");
    let left = ours()?;
    ensure!(
        left == ["drfq_left", "mon_groups/drfq_left"],
        "left: {left:?}"
    );
    Ok(())
}

/// Starts as the agent does, which removes what was left.
fn clean(load: &Load) -> Result<Kernel> {
    let groups = open()?;
    let left = ours()?;
    ensure!(left.is_empty(), "cleaning has left {left:?}");
    let task = groups.fs().task_groups(load.tid())?;
    ensure!(task == "res:/\nmon:\n", "the task is in {task:?}");
    Ok(groups)
}

/// All RMIDs but two were freed just now. They become usable within some seconds.
fn limbo(groups: &Kernel) -> Result<Ctrl> {
    let began = Instant::now();
    let mut busy = 0;
    while began.elapsed() < Duration::from_secs(20) {
        match groups.create_ctrl("slow") {
            Ok(slow) => {
                ensure!(busy > 0, "no RMID was in limbo");
                println!(
                    "{}",
                    json!({"step": "limbo", "ms": began.elapsed().as_millis()})
                );
                return Ok(slow);
            }
            Err(error) if error.kind == Kind::Limbo => busy += 1,
            Err(error) => return Err(error.into()),
        }
        thread::sleep(Duration::from_millis(100));
    }
    bail!("the RMIDs stayed in limbo")
}

/// All ids are taken: the default group, the foreign one, and two of ours.
fn run_out(groups: &Kernel, slow: &Ctrl) -> Result<()> {
    expect(groups.create_ctrl("x"), Kind::NoIds, "Out of CLOSIDs")?;
    expect(groups.create_mon(slow, "x"), Kind::NoIds, "Out of RMIDs")?;
    let refused = groups.set(slow, Resource::Mb, &[(0, 5)]);
    expect(refused, Kind::Refused, "out of range")?;
    expect(groups.create_ctrl("slow"), Kind::Exists, "exists")
}

fn expect<T>(result: Result<T, Error>, kind: Kind, words: &str) -> Result<()> {
    match result {
        Ok(_) => bail!("{kind:?} was expected, not success"),
        Err(error) => {
            let text = error.to_string();
            ensure!(
                error.kind == kind && text.contains(words),
                "{kind:?} was expected, not {text}"
            );
            Ok(())
        }
    }
}

/// Moves a group between classes at each level and reads its traffic, n = 40.
fn measure(groups: &Kernel, mut mon: Mon, slow: &Ctrl, load: &mut Load) -> Result<()> {
    let rmid = hardware_id(groups, &mon)?;
    let mut meter = Meter::new(1 << 30);
    let mut last = Instant::now();
    let mut moved = |groups: &Kernel, mon: &Mon| -> Result<Delta> {
        let reading = groups.reading(mon, 0, Event::MbmTotal)?;
        let delta = meter.take(reading, last.elapsed());
        last = Instant::now();
        Ok(delta)
    };
    moved(groups, &mon)?;
    for round in 0..4 {
        for level in (10..=100).step_by(10) {
            groups.set(slow, Resource::Mb, &[(0, level)])?;
            // Each level is measured twice, between measurements without throttling.
            let class = if (round + level / 10) % 2 == 0 {
                slow
            } else {
                &Ctrl::DEFAULT
            };
            groups.move_mon(&mut mon, class)?;
            let level = if class == slow { level } else { 100 };
            report()?;
            moved(groups, &mon)?;
            report()?;
            let began = Instant::now();
            load.pass()?;
            let ns = u64::try_from(began.elapsed().as_nanos())?;
            report()?;
            let delta = moved(groups, &mon)?;
            report()?;
            let Delta::Bytes(bytes) = delta else {
                bail!("round {round}, level {level}: {delta:?}");
            };
            let line =
                json!({"step": "mbm", "rmid": rmid, "level": level, "bytes": bytes, "ns": ns});
            println!("{line}");
        }
    }
    ensure!(
        hardware_id(groups, &mon)? == rmid,
        "moving has changed the RMID"
    );
    Ok(())
}

/// Reads a group's traffic after each pass until it has moved so much (MiB). A counter that
/// wraps meanwhile must not matter.
pub fn wrap(mib: u64) -> Result<()> {
    let groups = open()?;
    let mut load = Load::start(2)?;
    let mon = groups.create_mon(&Ctrl::DEFAULT, "m")?;
    ensure!(groups.add_task(&mon, load.tid())? == Placed::Moved);
    let mut meter = Meter::new(1 << 30);
    let mut last = Instant::now();
    let mut add = |sum: &mut u64| -> Result<()> {
        let reading = groups.reading(&mon, 0, Event::MbmTotal)?;
        let delta = meter.take(reading, last.elapsed());
        last = Instant::now();
        match delta {
            Delta::Bytes(bytes) => *sum += bytes,
            Delta::First => {}
            other => bail!("after {sum} bytes: {other:?}"),
        }
        Ok(())
    };
    let mut sum = 0;
    report()?;
    add(&mut sum)?;
    report()?;
    let began = Instant::now();
    while sum < mib << 20 {
        load.pass()?;
        add(&mut sum)?;
    }
    let ns = u64::try_from(began.elapsed().as_nanos())?;
    report()?;
    add(&mut sum)?;
    report()?;
    let rmid = hardware_id(&groups, &mon)?;
    println!(
        "{}",
        json!({"step": "mbm", "rmid": rmid, "level": 100, "bytes": sum, "ns": ns})
    );
    Ok(())
}

fn hardware_id(groups: &Kernel, mon: &Mon) -> Result<u32> {
    let text = groups.fs().read(&format!("{}/mon_hw_id", mon.path()))?;
    Ok(text.trim().parse()?)
}

/// Requests a line of ground truth (vm/guest/plugin_call.h). A process would evict cache
/// lines of the group meanwhile.
fn report() -> Result<()> {
    const LEAF: u32 = 0x40d0_d0d1;
    const ANSWER: u32 = 0x7166_7264;
    let answer = __cpuid_count(LEAF, 0);
    ensure!(
        answer.ebx == ANSWER && answer.eax != 0,
        "no ground truth here; start the VM with --machine and --machine-stats"
    );
    Ok(())
}

/// Unmounts resctrl under a running owner.
fn unmount(load: &Load) -> Result<()> {
    let groups = open()?;
    // Freed RMIDs are in limbo again, so a class may have to wait.
    let slow = limbo(&groups)?;
    let point = CString::new(POINT)?;
    // SAFETY: the path ends in NUL.
    let status = unsafe { libc::umount(point.as_ptr()) };
    ensure!(status == 0, "cannot unmount resctrl");
    let words = "no longer mounted";
    expect(
        groups.set(&slow, Resource::Mb, &[(0, 50)]),
        Kind::Unmounted,
        words,
    )?;
    expect(
        groups.reading(&slow, 0, Event::MbmTotal),
        Kind::Unmounted,
        words,
    )?;
    expect(groups.add_task(&slow, load.tid()), Kind::Unmounted, words)?;
    expect(groups.create_ctrl("x"), Kind::Unmounted, words)?;
    groups.clean()?;
    drop(groups);
    ensure!(
        KernelFs::open(Path::new(POINT)).is_err(),
        "an unmounted resctrl was opened"
    );
    Ok(())
}

/// The paths of our groups, as the file system shows them.
fn ours() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for directory in ["", "mon_groups/"] {
        for entry in fs::read_dir(format!("{POINT}/{directory}"))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.starts_with("drfq_") {
                found.push(format!("{directory}{name}"));
            }
        }
    }
    Ok(found)
}
