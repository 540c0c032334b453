// SPDX-License-Identifier: GPL-2.0-only
//! The running agent. It loads the scheduler, gives samples to the process that serves
//! statistics, and loads the scheduler again when CPUs come or go. Unless a loop shares
//! memory bandwidth, it reads nothing until a client asks.

use std::{
    io,
    mem::MaybeUninit,
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use drfq_controller_link::scheduler_view::Charging;
use drfq_resctrl::detection::Detection;
use drfq_sense::{
    perf_event::EventChoice,
    root,
    topology::Topology,
    traffic_counters::{TrafficCounters, needs_sys_admin},
};
use drfq_stats::{
    mba_report::Mba,
    sample::{Facts, Load, Sample},
};
use drfq_version::VERSION;
use libbpf_rs::{PrintLevel, set_print};

use crate::{
    accounts::Accounts,
    bandwidth::Bandwidth,
    bpf_skel::types::drfq_label,
    capacity::Capacity,
    config::{Config, MbaMode, Throttle, Weights},
    exit_report::Exit,
    links::{self, Counted, Links},
    loader::{Loading, Scheduler, Window},
    mba::{self, access::Access, trace::Recording},
    metrics, open_files,
    periodic::Periodic,
    preflight,
    printer::write_soon,
    privileges, realtime,
    rule_weights::RuleWeights,
    server::SOCKET,
    settings::{Settings, rules::Rule},
    signals::{Hangup, Reload, Signals},
    stats_group::StatsGroup,
    stats_process::StatsProcess,
};

/// How often the agent checks whether the kernel or the user has ended the
/// scheduler. There is no event to wait for.
const POLL: Duration = Duration::from_millis(250);

/// Schedules until the user or the kernel ends it. `reload` has listened since before the
/// configuration file was read, if there is one.
///
/// # Errors
/// The scheduler cannot run here, or the kernel ended it because of a fault.
pub fn run(mut settings: Settings, reload: Reload) -> Result<()> {
    let options = settings.cli.options.clone();
    // The firmware's tables and the calibration are root's.
    let capacity = Capacity::find(options.memory_bandwidth, &root());
    preflight::check(&root())?;
    keep_pages_small();
    open_files::raise_limit();
    // Before privileges are dropped and threads are started.
    let access = Access::open(options.mba_mode(), &capacity, &root());
    let counts = options.perf_event != EventChoice::None;
    let pagemap = links::open_pagemap(options.controller.as_ref());
    links::enable(options.controller.as_ref())?;
    let group = settings.cli.run.stats_group;
    group.map_or(Ok(()), StatsGroup::check)?;
    listen_to_libbpf(settings.cli.run.verbose);
    let path = options.mba_trace.as_deref();
    let recording = path.map(Recording::create).transpose();
    let recording = recording.inspect_err(|line| say(line)).unwrap_or_default();
    // After the cleaner, whose process would else hold the connection.
    let statistics = StatsProcess::start(Path::new(SOCKET), group);
    // After the other processes, which need no such right.
    realtime::allow();
    privileges::confine(counts && needs_sys_admin(&root()))?;
    let hangup = match &settings.file {
        Some(_) => Hangup::Reloads(reload),
        None => Hangup::EndsUnlessIgnored,
    };
    let signals = Signals::listen(hangup).context("cannot handle signals")?;

    let config = options.resolve(&Topology::read(&root())?, &capacity)?;
    let metrics = settings.cli.run.metrics.as_ref();
    let _metrics = metrics.map(metrics::Server::launch).transpose()?;
    let links = Links::open(&config, pagemap, say)?;
    let mut lasting = Lasting {
        links,
        statistics,
        accounts: stored_accounts(),
    };
    loop {
        let outcome = run_once(
            &mut settings,
            &capacity,
            &signals,
            &access,
            recording.as_ref(),
            &mut lasting,
        );
        lasting.links.retract();
        let again = outcome?;
        if signals.stop() || !again {
            // The scheduler has ended as it should, whatever becomes of the accounts.
            let stored = lasting.accounts.map_or(Ok(()), |left| left.store());
            stored.unwrap_or_else(|error| say(&format!("{error:#}")));
            return Ok(());
        }
        say("CPUs were added or removed; loading the scheduler again");
    }
}

/// Keeps khugepaged from joining pages of the agent and of the processes that it
/// starts. khugepaged has nice 19, so beside hogs a page fault of the agent would wait
/// for seconds, for a lock that khugepaged holds.
fn keep_pages_small() {
    // SAFETY: the call touches no memory. No kernel refuses it.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
}

fn listen_to_libbpf(verbose: bool) {
    let level = if verbose {
        log::LevelFilter::Debug
    } else {
        log::LevelFilter::Warn
    };
    let mut builder = env_logger::Builder::new();
    builder.filter_level(level).parse_default_env().init();
    if verbose {
        scx_utils::init_libbpf_logging(Some(PrintLevel::Debug));
    } else {
        // libbpf's messages also come back as errors, which the agent explains.
        set_print(None);
    }
}

/// What an agent before this one has left to systemd.
fn stored_accounts() -> Option<Accounts> {
    match Accounts::from_store() {
        Ok(accounts) => {
            if accounts.is_some() {
                say("the accounts of tasks go on from before the restart");
            }
            accounts
        }
        Err(error) => {
            say(&format!("{error:#}"));
            None
        }
    }
}

/// What lasts from one load of the scheduler to the next one.
struct Lasting {
    links: Links,
    statistics: StatsProcess,
    accounts: Option<Accounts>,
}

impl Lasting {
    fn parts(&mut self) -> (&mut Links, &mut StatsProcess, &mut Option<Accounts>) {
        (&mut self.links, &mut self.statistics, &mut self.accounts)
    }
}

/// Schedules until something ends it. Returns whether to load the scheduler again.
fn run_once(
    settings: &mut Settings,
    capacity: &Capacity,
    signals: &Signals,
    access: &Access,
    recording: Option<&Recording>,
    lasting: &mut Lasting,
) -> Result<bool> {
    let (links, statistics, accounts) = lasting.parts();
    let root = root();
    let topology = Topology::read(&root)?;
    let config = settings.cli.options.resolve(&topology, capacity)?;
    let Some(mut counters) = open_counters(&config, &topology)? else {
        return Ok(true);
    };
    let by_controller = counted_by_controller(&config, &mut counters);
    let mut degraded = degradations(&counters, &Detection::new(&root), access, capacity);
    let mut facts = facts(&config, &counters, settings.cli.run.run_id);
    let charging = charging(&config, by_controller, &facts);
    facts.mem_measured |= by_controller;
    let mut storage = MaybeUninit::uninit();
    let announce = |labels: &[drfq_label]| links.announce(labels, say);
    let loading = Loading {
        libbpf: settings.cli.libbpf.options(),
        exit_dump_len: settings.cli.run.exit_dump_len,
        statistics: statistics.id(),
        accounts: accounts.as_ref(),
    };
    let scheduler = Scheduler::load(&config, &loading, counters, &mut storage, &root, announce)?;

    // The kernel notices a change of CPUs only once the scheduler is being loaded,
    // so we check for earlier changes ourselves.
    if Topology::read(&root)? != topology {
        // Before the pages of the labels are freed.
        links.retract();
        end(scheduler, accounts)?;
        return Ok(true);
    }
    let mut loaded = scheduler.sample(true)?;
    // The links outlive the scheduler, so their counts do not begin with it.
    links.counted().add_to(&mut loaded);
    facts.loaded_at_ns = loaded.at_ns;
    let window = scheduler.window()?;
    let (ready, warnings) = open_sharing(&config, access, window, facts.mem_measured, recording);
    let uncharged = scheduler.uncharged().map(str::to_owned);
    degraded.extend(warnings.into_iter().chain(uncharged));
    let rules = Mutex::new(settings.rules.clone());
    let report = Mutex::new(first_report(ready.as_ref()));
    let state = first_report(ready.as_ref()).state;
    degraded.extend(bounds_without_effect(&settings.rules, &state));
    degraded.extend(statistics.load(Load {
        facts: facts.clone(),
        first: loaded.clone(),
    }));
    tell(&config, &facts, &degraded);
    let seen = Seen {
        statistics_id: AtomicU32::new(statistics.id().unwrap_or(0)),
        scheduler: &scheduler,
        facts: &facts,
        mba: &report,
        rules: &rules,
    };
    let work = || {
        links.beside(window, &config, charging, |counted| {
            serve(&seen, counted, statistics, settings, loaded, signals)
        })
    };
    mba::Loop::beside(ready, window, &seen.statistics_id, &rules, &report, work)?;
    let exit = end(scheduler, accounts)?;
    if signals.stop() {
        say("stopped; the kernel's own scheduler runs again");
    }
    Ok(exit.should_restart())
}

/// Ends the scheduler, tells why if the kernel did, and keeps the accounts of the tasks.
fn end(scheduler: Scheduler, accounts: &mut Option<Accounts>) -> Result<Exit> {
    let (exit, left) = scheduler.finish();
    exit.report(say)?;
    *accounts = Some(left?);
    Ok(exit)
}

/// Says what runs, and what it does less than asked.
fn tell(config: &Config, facts: &Facts, degraded: &[String]) {
    say(&summary(config, facts));
    degraded.iter().for_each(|line| say(line));
}

/// The warning if what only MBM counts is not charged although the user asked for it.
const CHARGE_MBM_IDLE: &str = "--charge-mbm has no effect; it needs a source of memory traffic, \
     such as the PMU, groups that are monitored (--mba on, or a calibration), and no --throttle hold";

/// The warning if the user asked for a record of a loop, and there is none.
const MBA_TRACE_IDLE: &str = "--mba-trace has no effect; it needs groups that are monitored (--mba \
     on or observe, or a calibration), or --throttle hold";

/// Which of these options have no effect without a loop that shares memory bandwidth.
fn idle(charge_mbm: bool, mba_trace: bool) -> Vec<String> {
    let asked = [(charge_mbm, CHARGE_MBM_IDLE), (mba_trace, MBA_TRACE_IDLE)];
    let idle = asked.iter().filter(|(asked, _)| *asked);
    idle.map(|(_, line)| (*line).to_owned()).collect()
}

/// The loop that shares memory bandwidth, and what a user should know of it. `charges`: tasks are
/// charged their memory traffic. `recording`: where it is recorded.
fn open_sharing<'a>(
    config: &Config,
    access: &Access,
    window: Window<'a>,
    charges: bool,
    recording: Option<&Recording>,
) -> (Option<mba::Loop<'a>>, Vec<String>) {
    let opened = match (config.throttle, access) {
        (Some(Throttle::Hold), _) => Ok(mba::Loop::with_paces(config, window)),
        (None, Access::Open(guard)) => {
            mba::Loop::with_resctrl(config, guard, charges.then_some(window))
        }
        _ => return (None, idle(config.charge_mbm, recording.is_some())),
    };
    match opened {
        Err(refused) => {
            let refused = refused.warning(config.mba).into_iter();
            let idle = idle(config.charge_mbm, recording.is_some());
            (None, refused.chain(idle).collect())
        }
        Ok(ready) => {
            let asked = ready.acts() || config.mba == MbaMode::Observe;
            let warning = (!asked).then(|| {
                let mode = name(config.mba);
                format!("--mba {mode} does not throttle: {}", ready.state())
            });
            let uncharged = config.charge_mbm && (config.throttle.is_some() || !charges);
            let uncharged = uncharged.then(|| CHARGE_MBM_IDLE.to_owned());
            let caveat = ready.caveat().map(str::to_owned);
            let warnings = [warning, uncharged, caveat];
            let warnings = warnings.into_iter().flatten().collect();
            (Some(ready.recorded_in(recording)), warnings)
        }
    }
}

/// What is known of the loop that shares memory bandwidth before its first period.
fn first_report(ready: Option<&mba::Loop>) -> Mba {
    Mba {
        state: ready.map_or_else(|| "off".into(), mba::Loop::state),
        ..Mba::default()
    }
}

/// A warning if rules bound memory bandwidth and nothing keeps the bounds. `state`: of the loop.
fn bounds_without_effect(rules: &[Rule], state: &str) -> Option<String> {
    let bounded = rules.iter().any(Rule::bounds_memory);
    (bounded && !mba::acts(state)).then(|| {
        format!(
            "memory-min and memory-max of rules have no effect; they need --mba on or --throttle \
             hold; sharing is: {state}"
        )
    })
}

/// What the loop works with.
struct Seen<'a> {
    /// The process that serves statistics; 0 once it has ended.
    statistics_id: AtomicU32,
    scheduler: &'a Scheduler<'a>,
    facts: &'a Facts,
    mba: &'a Mutex<Mba>,
    /// What the loop that shares memory bandwidth follows.
    rules: &'a Mutex<Vec<Rule>>,
}

/// Answers requests until the scheduler ends.
fn serve(
    seen: &Seen,
    counted: &Counted,
    statistics: &mut StatsProcess,
    settings: &mut Settings,
    loaded: Sample,
    signals: &Signals,
) -> Result<()> {
    let (scheduler, facts) = (seen.scheduler, seen.facts);
    let look = |with_tasks| -> Result<Sample> {
        let mut sample = scheduler.sample(with_tasks)?;
        counted.add_to(&mut sample);
        let rules = seen.rules.lock().unwrap_or_else(PoisonError::into_inner);
        sample.weight_rules = rules.iter().filter(|rule| rule.weight.is_some()).count() as u32;
        drop(rules);
        let mba = seen.mba.lock();
        sample
            .mba
            .clone_from(&mba.unwrap_or_else(PoisonError::into_inner));
        Ok(sample)
    };
    let mut periodic = Periodic::new(&settings.cli.run, facts, loaded)
        .context("cannot start a thread that prints statistics")?;
    let mut weights = RuleWeights::new(scheduler.window()?, &root());
    let mut failure = Failure::default();
    while !signals.stop() && !scheduler.exited() {
        if signals.take_reload() {
            reload(settings);
            let mut rules = seen.rules.lock().unwrap_or_else(PoisonError::into_inner);
            rules.clone_from(&settings.rules);
            drop(rules);
            let mba = seen.mba.lock().unwrap_or_else(PoisonError::into_inner);
            let useless = bounds_without_effect(&settings.rules, &mba.state);
            drop(mba);
            useless.iter().for_each(|line| say(line));
            weights.hurry();
        }
        weights.follow(&settings.rules, say);
        let wait = periodic.as_ref().map_or(POLL, Periodic::wait);
        if let Some(with_tasks) = statistics.wait_for_request(wait.min(POLL)) {
            statistics.answer(look(with_tasks).map_err(|error| format!("{error:#}")));
        }
        if let Some(reason) = statistics.take_end() {
            say(&reason);
            scheduler.register_agent(None)?;
            seen.statistics_id.store(0, Ordering::Relaxed);
        }
        // The scheduler stays without a part of its counters.
        let replaced = scheduler.replace_dead_counters(&root());
        let replaced = replaced.unwrap_or_else(|error| failure.once(&error));
        let silent = scheduler.report_silent_counters()?;
        replaced.iter().chain(&silent).for_each(|line| say(line));
        if let Some(due) = periodic.as_mut().filter(|due| due.wait().is_zero()) {
            // The scheduler stays whatever happens to the reader of its output.
            let sample = look(due.needs_tasks());
            if let Err(error) = sample.and_then(|sample| due.print(facts, sample)) {
                say(&format!(
                    "{error:#}; no more are printed, scheduling goes on"
                ));
                periodic = None;
            }
        }
    }
    Ok(())
}

/// A failure that may come again and again.
#[derive(Default)]
struct Failure(String);

impl Failure {
    /// A line for it, unless it is the last one again.
    fn once(&mut self, error: &anyhow::Error) -> Option<String> {
        let text = format!("{error:#}; scheduling goes on");
        let new = text != self.0;
        self.0.clone_from(&text);
        new.then_some(text)
    }
}

/// The counters of these CPUs; none if one of them has come or gone since.
fn open_counters(config: &Config, topology: &Topology) -> Result<Option<TrafficCounters>> {
    match TrafficCounters::open(&config.traffic, topology, &root()) {
        Err(_) if Topology::read(&root())? != *topology => Ok(None),
        opened => opened.map(Some),
    }
}

/// Whether tasks are charged what the controller counts, for lack of a PMU.
fn counted_by_controller(config: &Config, counters: &mut TrafficCounters) -> bool {
    let Some(target) = config.controller.as_ref().filter(|_| counters.is_empty()) else {
        return false;
    };
    counters.source = format!("the memory controller {target}");
    counters.degraded = None;
    true
}

/// What tasks are charged of the controller's count. `facts`: before it counts as a source.
fn charging(config: &Config, by_controller: bool, facts: &Facts) -> Charging {
    if by_controller {
        Charging::All
    } else if facts.mem_measured && !facts.mem_stand_in && config.dma {
        // The count has what devices move, so the charges must have it, too. Events that stand in
        // for traffic count something else.
        Charging::Missed
    } else {
        Charging::Nothing
    }
}

/// Reads the rules again, and says what came of it.
fn reload(settings: &mut Settings) {
    match settings.reload() {
        Ok(()) => say(&format!(
            "read the configuration again: {}",
            number(settings.rules.len() as u32, "rule")
        )),
        Err(reason) => say(&format!("not reloaded: {reason}")),
    }
}

fn facts(config: &Config, counters: &TrafficCounters, run_id: Option<u64>) -> Facts {
    Facts {
        loaded_at_ns: 0,
        run_id: run_id.unwrap_or(0),
        nr_cpus: config.nr_cpus,
        mem_bytes_per_s: config
            .memory_bandwidth_bytes_per_s
            .map(Bandwidth::bytes_per_s),
        mem_source: counters.source.clone(),
        mem_stand_in: counters.stand_in,
        mem_measured: !counters.is_empty(),
        thesis_weights: config.weights == Weights::Thesis,
    }
}

/// One line for each missing resource.
fn degradations(
    counters: &TrafficCounters,
    resctrl: &Detection,
    access: &Access,
    capacity: &Capacity,
) -> Vec<String> {
    let line = |what: &'static str| move |reason| format!("{what}: {reason}");
    let unused = match access {
        Access::Declined(reason) => Some(format!("--mba auto does not throttle: {reason}")),
        Access::Failed(reason) if resctrl.missing().is_none() => {
            Some(format!("resctrl cannot be used: {reason}"))
        }
        _ => resctrl.missing().map(line(
            "resctrl cannot be used, so there is neither MBM nor MBA",
        )),
    };
    let lines = [
        counters.degraded.clone(),
        unused,
        resctrl
            .missing_mbm()
            .map(line("the bandwidth of groups is not monitored (MBM)")),
        resctrl
            .missing_mba()
            .map(line("the bandwidth of groups is not throttled (MBA)")),
    ];
    lines
        .into_iter()
        .flatten()
        .chain(capacity.advice())
        .collect()
}

/// The configuration in one line.
fn summary(config: &Config, facts: &Facts) -> String {
    let bandwidth = &config.capacity;
    let stand_in = if facts.mem_stand_in {
        " (a stand-in)"
    } else {
        ""
    };
    let run = match facts.run_id {
        0 => String::new(),
        id => format!(", run {id}"),
    };
    format!(
        "{VERSION}{run}: {}, {}, slice {} us, {}, {} weights; memory traffic: {}{stand_in}, {bandwidth}",
        number(config.nr_cpus, "CPU"),
        number(config.queues.count() as u32, "queue"),
        config.slice_ns / 1000,
        name(config.variant),
        name(config.weights),
        facts.mem_source,
    )
}

fn number(n: u32, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// The name of an option's value on the command line.
fn name(value: impl clap::ValueEnum) -> String {
    value
        .to_possible_value()
        .map_or(String::new(), |value| value.get_name().to_owned())
}

/// Tells the user a line, unless the terminal is stopped.
pub fn say(line: &str) {
    write_soon(io::stderr(), &format!("scx_drfq: {line}\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_a_loop_is_told_to_have_no_effect_without_one() {
        let told = |charge_mbm, mba_trace| idle(charge_mbm, mba_trace).join("\n");
        assert_eq!(told(false, false), "");
        assert_eq!(told(true, false), CHARGE_MBM_IDLE);
        assert_eq!(told(false, true), MBA_TRACE_IDLE);
        assert_eq!(told(true, true).lines().count(), 2);
    }
}
