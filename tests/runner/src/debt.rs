// SPDX-License-Identifier: GPL-2.0-only
//! Debts of device traffic that are injected into a sleeping task, and the
//! time at which rule 4.10 releases it.

use crate::loads::Load;
use crate::process::{Stat, cpu_ns, now_ns};
use crate::stats_client::{Stats, Task};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Time between two readings of V during a hold.
const READING_INTERVAL: Duration = Duration::from_millis(20);

/// Readings of V further apart than this say too little about the time between them.
/// A busy agent answers late.
const READINGS_APART_MAX_NS: u64 = 50_000_000;

/// One injected debt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Debt {
    /// `CLOCK_MONOTONIC` when it was injected, ns.
    pub injected_ns: u64,
    /// S of the next packet: S before, and the debt (ns of virtual time).
    pub start_ns: u64,
    /// Readings of V from then on: time (ns) and V (ns of virtual time).
    pub v: Vec<(u64, u64)>,
    /// How long delayed wake-up held the task for it, ns. It may have waited
    /// in the queue after that: its S is late.
    pub held_ns: u64,
}

impl Debt {
    /// When V reached S - K: the last reading before that and the first after it.
    /// V moves by packets, so no more is known of the time between them.
    /// `None` if no reading is that late. `hold_ns` is K.
    pub fn release(&self, hold_ns: u64) -> Option<Release> {
        let released_at = self.start_ns.saturating_sub(hold_ns);
        let (first_ns, first_v) = *self.v.first()?;
        if first_v >= released_at {
            return Some(Release {
                earliest_ns: first_ns,
                latest_ns: first_ns,
            });
        }
        let after = self.v.iter().position(|(_, v)| *v >= released_at)?;
        Some(Release {
            earliest_ns: self.v[after - 1].0,
            latest_ns: self.v[after].0,
        })
    }

    /// How late a timer that was due at this time (`CLOCK_MONOTONIC`, ns) may have fired, ns.
    /// A long gap between the readings of V around it shows that something kept a CPU. `None`
    /// if the gap is too long to tell anything.
    pub fn late_max_ns(&self, due_ns: u64) -> Option<u64> {
        let around = |w: &&[(u64, u64)]| w[0].0 <= due_ns && due_ns <= w[1].0;
        let window = self.v.windows(2).find(around);
        let Some(w) = window else {
            return Some(0);
        };
        let apart_ns = w[1].0 - w[0].0;
        let late_ns = if apart_ns > READINGS_APART_MAX_NS {
            w[1].0 - due_ns
        } else {
            0
        };
        (apart_ns <= 3 * READINGS_APART_MAX_NS).then_some(late_ns)
    }
}

/// The times between which V reached a value, by `CLOCK_MONOTONIC` (ns).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Release {
    /// V had not reached it.
    pub earliest_ns: u64,
    /// V had reached it.
    pub latest_ns: u64,
}

impl Release {
    /// Whether the two times are close enough to judge a hold by them.
    pub fn known(&self) -> bool {
        self.latest_ns - self.earliest_ns <= READINGS_APART_MAX_NS
    }
}

/// Injects debts into one task, one each time it sleeps.
pub struct Injector<'a> {
    /// The scx_drfq executable.
    pub program: &'a Path,
    /// Traffic of one debt, bytes.
    pub bytes: u64,
    /// 1/m: ns of the whole memory bandwidth that a byte takes.
    pub ns_per_byte: f64,
    /// Read V until the task runs. Not for a task that must be alone, because
    /// the reader keeps a CPU busy.
    pub follow: bool,
}

/// When the scheduler was loaded, by `CLOCK_MONOTONIC` (ns). Each answer tells its
/// age and so bounds that time from both sides.
struct LoadTime {
    earliest_ns: u64,
    latest_ns: u64,
}

impl LoadTime {
    fn learn(&mut self, stats: &Stats) {
        let (asked_ns, answered_ns) = stats.asked_ns;
        let uptime_ns = stats.system.uptime_ns;
        self.earliest_ns = self.earliest_ns.max(asked_ns.saturating_sub(uptime_ns));
        self.latest_ns = self.latest_ns.min(answered_ns.saturating_sub(uptime_ns));
    }

    /// V and the uptime when it was that.
    fn sample(&mut self, stats: &Stats) -> (u64, u64) {
        self.learn(stats);
        (stats.system.uptime_ns, stats.system.vtime_ns)
    }
}

/// The account of a task, and what the task had run when it was asked for.
struct Account {
    task: Task,
    cpu_ns: u64,
}

impl Account {
    fn ask(pid: u32, loaded: &mut LoadTime) -> Result<(Self, (u64, u64))> {
        let cpu_ns = cpu_ns(pid)?;
        let stats = Stats::ask()?;
        let sample = loaded.sample(&stats);
        let task = stats.into_task(pid)?;
        Ok((Self { task, cpu_ns }, sample))
    }
}

impl Injector<'_> {
    /// Goes on until `end_ns` (`CLOCK_MONOTONIC`).
    pub fn run(&self, load: &Load, end_ns: u64) -> Result<Vec<Debt>> {
        let mut debts = Vec::new();
        let mut charger = Charger::start(self.program, load.pid())?;
        let mut loaded = LoadTime {
            earliest_ns: 0,
            latest_ns: u64::MAX,
        };
        let (mut account, _) = Account::ask(load.pid(), &mut loaded)?;
        let before = account.task.dma_bytes;
        let mut injected = 0;
        while wait_asleep(load.pid(), end_ns)? {
            // It still ran when the account was asked for.
            if cpu_ns(load.pid())? != account.cpu_ns {
                (account, _) = Account::ask(load.pid(), &mut loaded)?;
                continue;
            }
            injected += self.bytes;
            debts.extend(self.one(&mut charger, end_ns, &mut loaded, &mut account)?);
        }
        let charged = account.task.dma_bytes - before;
        // The task may not have run since the last one.
        ensure!(
            (injected.saturating_sub(self.bytes)..=injected).contains(&charged),
            "{charged} bytes were charged for debts of {injected}"
        );
        let loaded_ns = loaded.earliest_ns.midpoint(loaded.latest_ns);
        for (at_ns, _) in debts.iter_mut().flat_map(|debt: &mut Debt| &mut debt.v) {
            *at_ns += loaded_ns;
        }
        Ok(debts)
    }

    /// One debt, from its injection until the task has run with it. `None` if the task ran
    /// between `account` and the debt, or not before the end. Renews `account`. Times of V
    /// are uptimes.
    ///
    /// An account takes the agent and this program half a second of a slow machine. It is
    /// asked for once the task has run, not while V is watched.
    fn one(
        &self,
        charger: &mut Charger,
        end_ns: u64,
        loaded: &mut LoadTime,
        account: &mut Account,
    ) -> Result<Option<Debt>> {
        let pid = charger.pid;
        charger.charge(self.bytes)?;
        let injected_ns = now_ns();
        let cpu_before_ns = cpu_ns(pid)?;
        let as_accounted = cpu_before_ns == account.cpu_ns;
        // The debt is charged at the wake-up (4.5): it is in no figure yet.
        let debt_ns = (self.bytes as f64 * self.ns_per_byte) as u64;
        let before = &account.task;
        let start_ns = before.cpu_vt_ns.max(before.mem_vt_ns + debt_ns);
        let mut v = vec![loaded.sample(&Stats::ask_system()?)];
        while cpu_ns(pid)? == cpu_before_ns && now_ns() < end_ns {
            std::thread::sleep(READING_INTERVAL);
            if self.follow {
                v.push(loaded.sample(&Stats::ask_system()?));
            }
        }
        let (ran, at_end) = Account::ask(pid, loaded)?;
        v.push(at_end);
        let charged = ran.task.dma_bytes == before.dma_bytes + self.bytes;
        let debt = Debt {
            injected_ns,
            start_ns,
            v,
            held_ns: ran.task.held_ns - before.held_ns,
        };
        *account = ran;
        Ok((as_accounted && charged && now_ns() < end_ns).then_some(debt))
    }
}

/// `scx_drfq charge-traffic`, started once for all charges. The start of a program
/// reads files. With a clock that skips idle time, such a read may last until the
/// task that is alone wakes up.
struct Charger {
    pid: u32,
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Charger {
    fn start(program: &Path, pid: u32) -> Result<Self> {
        let mut child = Command::new(program)
            .args(["charge-traffic", "--pid", &pid.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let requests = child.stdin.take().context("no pipe to charge-traffic")?;
        let answers = child.stdout.take().context("no pipe from charge-traffic")?;
        let answers = BufReader::new(answers);
        Ok(Self {
            pid,
            child,
            requests,
            answers,
        })
    }

    /// Returns when the debt is charged.
    fn charge(&mut self, bytes: u64) -> Result<()> {
        writeln!(self.requests, "{bytes}")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        ensure!(!answer.is_empty(), "scx_drfq charge-traffic ended");
        Ok(())
    }
}

impl Drop for Charger {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until the task sleeps; false if `end_ns` comes first.
fn wait_asleep(pid: u32, end_ns: u64) -> Result<bool> {
    while now_ns() < end_ns {
        if Stat::read(pid)?.state == 'S' {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn debt(v: &[(u64, u64)]) -> Debt {
        Debt {
            injected_ns: 0,
            start_ns: 1000,
            v: v.to_vec(),
            held_ns: 0,
        }
    }

    fn release(v: &[(u64, u64)], hold_ns: u64) -> Option<(u64, u64)> {
        let found = debt(v).release(hold_ns)?;
        Some((found.earliest_ns, found.latest_ns))
    }

    #[test]
    fn the_release_is_between_the_two_readings_around_it() {
        let v = [(10, 100), (20, 600), (40, 1000)];
        assert_eq!(release(&v, 200), Some((20, 40)));
        assert_eq!(release(&v, 400), Some((10, 20)));
        assert_eq!(release(&v, 900), Some((10, 10)));
    }

    #[test]
    fn readings_far_apart_do_not_tell_the_release() {
        let far = [(10, 100), (READINGS_APART_MAX_NS + 11, 1000)];
        assert!(!debt(&far).release(200).unwrap().known());
        let near = [(10, 100), (READINGS_APART_MAX_NS + 10, 1000)];
        assert!(debt(&near).release(200).unwrap().known());
    }

    #[test]
    fn a_timer_may_fire_late_in_a_long_gap_between_readings() {
        let end = READINGS_APART_MAX_NS + 21;
        let debt = debt(&[(10, 100), (20, 200), (end, 300), (5 * end, 400)]);
        assert_eq!([9, 10, 20].map(|at| debt.late_max_ns(at)), [Some(0); 3]);
        assert_eq!(debt.late_max_ns(21), Some(end - 21));
        assert_eq!(debt.late_max_ns(2 * end), None);
    }

    #[test]
    fn a_goal_beyond_the_last_reading_has_no_release() {
        assert_eq!(release(&[(10, 100), (20, 600)], 200), None);
        assert_eq!(release(&[], 200), None);
    }

    #[test]
    fn a_debt_below_k_is_released_at_the_first_reading() {
        assert_eq!(release(&[(10, 100)], 5000), Some((10, 10)));
    }
}
