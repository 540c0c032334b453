// SPDX-License-Identifier: GPL-2.0-only
//! Loads the BPF scheduler with a configuration, and reads its counters.

use std::{
    collections::HashSet,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd},
    path::Path,
    ptr, slice,
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Result, anyhow};
use drfq_sense::{
    perf_event::MAX_EVENTS, queues::MAX_QUEUES, topology::MAX_CPUS,
    traffic_counters::TrafficCounters,
};
use drfq_stats::{
    events::EVENTS,
    interval::WEIGHT_ONE,
    sample::{CpuSample, Sample, mark_running},
};
use libbpf_rs::{Link, MapInfo, MapType, OpenObject};
use scx_utils::{
    UEI_DUMP_PTR_MUTEX,
    compat::{SCX_OPS_SWITCH_PARTIAL, ksym_exists, struct_has_field},
    libbpf_clap_opts::LibbpfOpts,
    scx_ops_attach, scx_ops_load, scx_ops_open, uei_exited,
};

use crate::{
    accounts::{Accounts, SystemTimes},
    bpf_intf,
    bpf_memory::{set_volatile, volatile},
    bpf_skel::{
        BpfSkel, BpfSkelBuilder, OpenBpfSkel,
        types::{drfq_cpu, drfq_label, drfq_pace},
    },
    callbacks, charge,
    config::{Charging, Config, DELTA_NONE_NS, Weights},
    counters::{Counters, give_counter},
    devices,
    exit_report::{self, Exit},
    preflight, realtime, tasks,
};

// The libraries repeat these constants of bpf/drfq.h and bpf/intf.h.
const _: () = assert!(MAX_CPUS == bpf_intf::DRFQ_MAX_CPUS);
const _: () = assert!(MAX_QUEUES as u32 == bpf_intf::DRFQ_MAX_LLCS);
const _: () = assert!(MAX_EVENTS == bpf_intf::DRFQ_PMU_EVENTS as usize);
const _: () = assert!(WEIGHT_ONE == bpf_intf::DRFQ_WEIGHT_ONE);
const _: () = assert!(DELTA_NONE_NS == bpf_intf::DRFQ_DELTA_NONE_NS);
const _: () = assert!(EVENTS.len() == bpf_intf::drfq_event_DRFQ_NR_EVENTS as usize);

/// A loaded scheduler. When it is dropped, the kernel returns to its own.
pub struct Scheduler<'a> {
    // Fields are dropped in this order, so the scheduler is detached first.
    link: Option<Link>,
    hooks: Vec<Link>,
    /// What of device traffic is not charged on this kernel.
    uncharged: Option<String>,
    skel: BpfSkel<'a>,
    nr_cpu_ids: usize,
    /// The CPUs that are online, and the last-level cache of each.
    cpu_llcs: Vec<(u32, u32)>,
    counters: Mutex<Counters>,
}

/// How libbpf and the kernel load the programs.
#[derive(Clone, Debug)]
pub struct Loading<'a> {
    /// libbpf's options.
    pub libbpf: LibbpfOpts,
    /// Length of the kernel's dump (bytes); none: the kernel's default.
    pub exit_dump_len: Option<u32>,
    /// The process that serves statistics for this one.
    pub statistics: Option<u32>,
    /// What the last load has left.
    pub accounts: Option<&'a Accounts>,
}

/// What other threads may read of the running scheduler, and call in it.
#[derive(Clone, Copy)]
pub struct Window<'a> {
    /// State of each CPU, which BPF programs change at any time.
    pub cpus: &'a [drfq_cpu],
    /// Label of each CPU, likewise.
    pub labels: &'a [drfq_label],
    /// By hardware id: the virtual time of its task, if devices move memory for it; likewise.
    pub device_vtimes: &'a [u64],
    /// Link of the task iterator.
    pub tasks: BorrowedFd<'a>,
    /// Program that charges memory traffic.
    pub charge: BorrowedFd<'a>,
    /// Program that gives a task its hardware id.
    pub set_hw_id: BorrowedFd<'a>,
    /// Programs that give tasks and cgroups the weights of rules.
    pub set_task_weight: BorrowedFd<'a>,
    pub set_cgroup_weight: BorrowedFd<'a>,
    /// The groups that may have a pace, which BPF programs change at any time.
    pub paces: &'a [drfq_pace],
    /// Programs that update what groups paid for, set the pace of a group, and put a task into
    /// one.
    pub read_paces: BorrowedFd<'a>,
    pub set_pace: BorrowedFd<'a>,
    pub set_pace_group: BorrowedFd<'a>,
}

impl<'a> Scheduler<'a> {
    /// Loads and attaches the scheduler. `storage` must be new. `announce` gets the
    /// CPUs' labels before the scheduler writes to them.
    ///
    /// # Errors
    /// The kernel refused. If the reason is known, the error says what to do.
    pub fn load(
        config: &Config,
        loading: &Loading,
        counters: TrafficCounters,
        storage: &'a mut MaybeUninit<OpenObject>,
        root: &Path,
        announce: impl FnOnce(&[drfq_label]),
    ) -> Result<Self> {
        let result = Self::try_load(config, loading, counters, storage, announce);
        result.map_err(|error| match preflight::explain_refusal(root) {
            Some(reason) => anyhow!(reason),
            None => error.context(
                "cannot load the scheduler; run it with -v for the messages of libbpf and the \
                 verifier",
            ),
        })
    }

    fn try_load(
        config: &Config,
        loading: &Loading,
        counters: TrafficCounters,
        storage: &'a mut MaybeUninit<OpenObject>,
        announce: impl FnOnce(&[drfq_label]),
    ) -> Result<Self> {
        let open_opts = loading.libbpf.clone().into_bpf_open_opts();
        let mut skel = scx_ops_open!(BpfSkelBuilder::default(), storage, drfq_ops, open_opts)?;
        configure(&mut skel, config, &counters)?;
        leave_out_callbacks(&mut skel)?;
        if config.partial {
            skel.struct_ops.drfq_ops_mut().flags |= *SCX_OPS_SWITCH_PARTIAL;
        }
        skel.struct_ops.drfq_ops_mut().exit_dump_len = loading.exit_dump_len.unwrap_or(0);
        if let Some(accounts) = loading.accounts {
            resume(&mut skel, accounts)?;
        }
        let mut skel = scx_ops_load!(skel, drfq_ops, uei)?;
        for counter in counters.fds() {
            give_counter([&skel.maps.pmu_first, &skel.maps.pmu_second], &counter)?;
        }
        if let Some(data) = skel.maps.data_labels_data.as_deref() {
            announce(&data.labels[..config.nr_cpu_ids as usize]);
        }
        // The kernel releases the files of a killed agent from the highest number down, and needs
        // up to 0.4 s for each hook. So the scheduler, which must end first, comes last.
        let hooks = devices::attach(&skel)?;
        let link = Some(realtime::during(|| attach(&mut skel))?);
        let scheduler = Self {
            link,
            hooks: hooks.links,
            uncharged: hooks.uncharged,
            skel,
            nr_cpu_ids: config.nr_cpu_ids as usize,
            cpu_llcs: online_llcs(config),
            counters: Mutex::new(Counters::new(counters)),
        };
        scheduler.register_agent(loading.statistics)?;
        Ok(scheduler)
    }

    /// What of device traffic is not charged on this kernel, for the user.
    pub fn uncharged(&self) -> Option<&str> {
        self.uncharged.as_deref()
    }

    /// Tells the scheduler that this process is its agent, and which one serves statistics.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn register_agent(&self, statistics: Option<u32>) -> Result<()> {
        let program = self.skel.progs.drfq_register_agent.as_fd();
        // A process that has ended is none.
        charge::register_agent(program, statistics.unwrap_or(0))
            .context("cannot tell the scheduler which process is its agent")?;
        Ok(())
    }

    /// Replaces the counters that the kernel has evicted, if reads have failed since the last call.
    /// Returns what the user should know.
    ///
    /// # Errors
    /// BPF does not get a new counter.
    pub fn replace_dead_counters(&self, root: &Path) -> Result<Option<String>> {
        let maps = &self.skel.maps;
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        counters.replace_dead(self.window()?.cpus, root, |counter| {
            give_counter([&maps.pmu_first, &maps.pmu_second], counter)
        })
    }

    /// A line for each event that is never counted, once.
    ///
    /// # Errors
    /// A part of the BPF program is missing.
    pub fn report_silent_counters(&self) -> Result<Vec<String>> {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(counters.report_silent(self.window()?.cpus))
    }

    /// Whether the kernel has ended the scheduler.
    pub fn exited(&self) -> bool {
        uei_exited!(&self.skel, uei)
    }

    /// Detaches the scheduler. Returns why it ended, and the accounts of the tasks, which may be
    /// unreadable.
    pub fn finish(mut self) -> (Exit, Result<Accounts>) {
        // The kernel takes a while for each. No other scheduler runs meanwhile.
        self.hooks.clear();
        self.close_v();
        drop(self.link.take());
        (self.exit(), self.accounts())
    }

    /// V stands still from now on.
    fn close_v(&mut self) {
        if let Some(data) = self.skel.maps.data_data.as_deref_mut() {
            set_volatile(
                &mut data.v_scan.taken,
                bpf_intf::drfq_v_scan_DRFQ_V_SCAN_CLOSED,
            );
        }
    }

    fn exit(&self) -> Exit {
        let Some(data) = self.skel.maps.data_data.as_deref() else {
            return Exit::default();
        };
        let tells_cpu = matches!(struct_has_field("scx_exit_info", "exit_cpu"), Ok(true));
        Exit {
            kind: volatile(&data.uei.kind),
            code: volatile(&data.uei.exit_code),
            cpu: u32::try_from(volatile(&data.uei.exit_cpu))
                .ok()
                .filter(|_| tells_cpu),
            reason: exit_report::text(&data.uei.reason),
            message: exit_report::text(&data.uei.msg),
            dump: self.exit_dump(),
        }
    }

    fn exit_dump(&self) -> String {
        let read_only = self.skel.maps.rodata_data;
        let length = read_only.map_or(0, |data| data.uei_dump_len as usize);
        let dump = UEI_DUMP_PTR_MUTEX
            .lock()
            .map_or(ptr::null(), |dump| dump.ptr);
        if dump.is_null() {
            return String::new();
        }
        // SAFETY: uei_set_size! made the map of this length, which is mapped, and BPF programs run no
        // more.
        exit_report::text(unsafe { slice::from_raw_parts(dump.cast(), length) })
    }

    fn accounts(&self) -> Result<Accounts> {
        let data = self.skel.maps.data_data.as_deref();
        let data = data.context("the scheduler's memory is not mapped")?;
        let times = SystemTimes {
            vtime_ns: volatile(&data.system_vtime_ns.value),
            bus_vtime_ns: volatile(&data.system_bus_vtime_ns.value),
        };
        Ok(Accounts::new(self.skel.maps.task_ctxs.as_fd(), times)?)
    }

    /// What other threads may read of it, and call in it.
    ///
    /// # Errors
    /// A part of the BPF program is missing.
    pub fn window(&self) -> Result<Window<'_>> {
        let cpus = self.skel.maps.data_cpus_data.as_deref();
        let labels = self.skel.maps.data_labels_data.as_deref();
        let devices = self.skel.maps.data_devices_data.as_deref();
        let paces = self.skel.maps.data_paces_data.as_deref();
        let tasks = self.skel.links.drfq_tasks.as_ref();
        Ok(Window {
            cpus: &cpus.context("no table of CPUs")?.cpus[..self.nr_cpu_ids],
            labels: &labels.context("no labels of CPUs")?.labels[..self.nr_cpu_ids],
            device_vtimes: &devices.context("no table of devices")?.device_vtimes,
            tasks: tasks.context("no task iterator")?.as_fd(),
            charge: self.skel.progs.drfq_charge_mem.as_fd(),
            set_hw_id: self.skel.progs.drfq_set_hw_id.as_fd(),
            set_task_weight: self.skel.progs.drfq_set_task_weight.as_fd(),
            set_cgroup_weight: self.skel.progs.drfq_set_cgroup_weight.as_fd(),
            paces: &paces.context("no table of paces")?.paces,
            read_paces: self.skel.progs.drfq_read_paces.as_fd(),
            set_pace: self.skel.progs.drfq_set_pace.as_fd(),
            set_pace_group: self.skel.progs.drfq_set_pace_group.as_fd(),
        })
    }

    /// What the scheduler has counted so far.
    ///
    /// # Errors
    /// The task iterator cannot be read.
    pub fn sample(&self, with_tasks: bool) -> Result<Sample> {
        let maps = &self.skel.maps;
        let (data, bss) = (maps.data_data.as_deref(), maps.bss_data.as_deref());
        let (data, bss) = data
            .zip(bss)
            .context("the scheduler's memory is not mapped")?;
        let window = self.window()?;
        let mut sample = Sample {
            at_ns: monotonic_ns(),
            vtime_ns: volatile(&data.system_vtime_ns.value),
            busy_cpus: volatile(&bss.busy_cpus.value),
            events: vec![0; EVENTS.len()],
            cpus: self.cpus(&window),
            ..Sample::default()
        };
        let mut running = HashSet::new();
        for cpu in window.cpus {
            running.insert(volatile(&cpu.pid));
            for (sum, count) in sample.events.iter_mut().zip(&cpu.events) {
                // What is refused on a CPU that counted none of it takes its count below 0.
                *sum = sum.wrapping_add(volatile(count));
            }
        }
        if with_tasks {
            sample.tasks = tasks::read(window.tasks)?;
            mark_running(&mut sample.tasks, &running);
        }
        Ok(sample)
    }

    fn cpus(&self, window: &Window) -> Vec<CpuSample> {
        let count = |slot: &drfq_cpu, event: u32| volatile(&slot.events[event as usize]);
        let sample = |&(cpu, llc): &(u32, u32)| {
            let slot = &window.cpus[cpu as usize];
            CpuSample {
                cpu,
                llc,
                pid: volatile(&slot.pid),
                vtime_ns: volatile(&slot.vtime_ns),
                switches: count(slot, bpf_intf::drfq_event_DRFQ_EV_SWITCHES),
                steals: count(slot, bpf_intf::drfq_event_DRFQ_EV_STEALS),
            }
        };
        self.cpu_llcs.iter().map(sample).collect()
    }
}

/// The CPUs that are online, each with its last-level cache.
fn online_llcs(config: &Config) -> Vec<(u32, u32)> {
    let llc = |cpu: u32| config.cpu_llc.get(cpu as usize).copied().unwrap_or(0);
    config.online.iter().map(|&cpu| (cpu, llc(cpu))).collect()
}

/// CLOCK_MONOTONIC (ns).
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is valid; the clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Whether a tracepoint may queue the tasks of a CPU's local DSQ again.
fn reenqueues_anywhere() -> bool {
    let kfuncs = ["scx_bpf_dsq_reenq", "scx_bpf_reenqueue_local___v2"];
    kfuncs
        .iter()
        .any(|kfunc| ksym_exists(kfunc).unwrap_or(false))
}

/// Leaves out the callbacks that this kernel lacks or replaces. Without
/// CONFIG_EXT_GROUP_SCHED there are no cgroup callbacks, and all tasks belong to the root
/// group.
fn leave_out_callbacks(skel: &mut OpenBpfSkel) -> Result<()> {
    let anywhere = reenqueues_anywhere();
    let has = |name: &str| struct_has_field("sched_ext_ops", name).unwrap_or(false);
    let left_out = callbacks::left_out(has, anywhere)?;
    macro_rules! leave_out {
        ($($name:ident $prog:ident,)*) => {$(
            if left_out.contains(&stringify!($name)) {
                skel.struct_ops.drfq_ops_mut().$name = ptr::null_mut();
                skel.progs.$prog.set_autoload(false);
            }
        )*};
    }
    leave_out! {
        select_cpu drfq_select_cpu,
        cpu_release drfq_cpu_release,
        set_weight drfq_set_weight,
        set_cpumask drfq_set_cpumask,
        exit_task drfq_exit_task,
        disable drfq_disable,
        cgroup_init drfq_cgroup_init,
        cgroup_exit drfq_cgroup_exit,
        cgroup_move drfq_cgroup_move,
        cgroup_set_weight drfq_cgroup_set_weight,
        cgroup_set_bandwidth drfq_cgroup_set_bandwidth,
        cgroup_set_idle drfq_cgroup_set_idle,
        cpu_online drfq_cpu_online,
        cpu_offline drfq_cpu_offline,
        dump drfq_dump,
        dump_cpu drfq_dump_cpu,
        dump_task drfq_dump_task,
    }
    if left_out.contains(&"yield") {
        skel.struct_ops.drfq_ops_mut().r#yield = ptr::null_mut();
        skel.progs.drfq_yield.set_autoload(false);
    }
    skel.progs.drfq_sched_switch.set_autoload(anywhere);
    Ok(())
}

/// The kernel switches all tasks to the scheduler.
fn attach(skel: &mut BpfSkel) -> Result<Link> {
    Ok(scx_ops_attach!(skel, drfq_ops)?)
}

/// The accounts go on where the last load has left them. They start anew if the map is not what it
/// says.
fn resume(skel: &mut OpenBpfSkel, accounts: &Accounts) -> Result<()> {
    let map = &mut skel.maps.task_ctxs;
    let left = MapInfo::new(accounts.map()).map(|left| left.info);
    let fits = left.is_ok_and(|left| {
        left.type_ == MapType::TaskStorage as u32 && left.value_size == map.value_size()
    });
    if !fits {
        log::warn!("what systemd kept are not the accounts of tasks; they start anew");
        return Ok(());
    }
    map.reuse_fd(accounts.map())?;
    let data = skel.maps.data_data.as_deref_mut();
    let data = data.context("no initialized data")?;
    data.system_vtime_ns.value = accounts.times.vtime_ns;
    data.system_bus_vtime_ns.value = accounts.times.bus_vtime_ns;
    Ok(())
}

fn configure(skel: &mut OpenBpfSkel, config: &Config, counters: &TrafficCounters) -> Result<()> {
    let rodata = skel
        .maps
        .rodata_data
        .as_deref_mut()
        .context("no read-only data")?;
    rodata.conf.nr_cpus = config.nr_cpus;
    rodata.conf.charging = match config.charging {
        Charging::Always => bpf_intf::drfq_charging_DRFQ_CHARGE_ALWAYS,
        Charging::BusyCpus => bpf_intf::drfq_charging_DRFQ_CHARGE_BUSY,
        Charging::Contended => bpf_intf::drfq_charging_DRFQ_CHARGE_CONTENDED,
    };
    rodata.conf.bus_credit_ns = config.bus_credit_ns;
    rodata.conf.mem_ns_per_byte_q32 = config.mem_ns_per_byte_q32;
    rodata.conf.delta_ns = config.delta_ns;
    rodata.conf.wake_credit_ns = config.wake_credit_ns;
    rodata.conf.hold_ns = config.hold_ns;
    rodata.conf.cap_ns = config.cap_ns;
    rodata.slice_ns = config.slice_ns;
    rodata.weights_mode = match config.weights {
        Weights::Kernel => bpf_intf::drfq_weights_DRFQ_WEIGHTS_KERNEL,
        Weights::Thesis => bpf_intf::drfq_weights_DRFQ_WEIGHTS_THESIS,
    };
    rodata.partial = config.partial.into();
    rodata.nr_cpu_ids = config.nr_cpu_ids;
    rodata.nr_llcs = config.queues.count() as u32;
    rodata.cpu_llc[..config.queues.of_cpu.len()].copy_from_slice(&config.queues.of_cpu);
    let (near, margins_ns) = config.queues.tables(config.steal_margin_ns);
    rodata.near_llcs.copy_from_slice(&near);
    rodata.steal_margins_ns.copy_from_slice(&margins_ns);
    for cpu in 0..config.nr_cpu_ids {
        rodata.cpu_offline[cpu as usize] = (!config.online.contains(&cpu)).into();
    }
    rodata.preempt_margin_ns = config.preempt_margin_ns;
    rodata.hold_max_ns = config.hold_max_ns;
    rodata.rescue_ns = config.rescue_ns;
    rodata.pmu_nr_events = counters.per_cpu() as u32;
    rodata.drives_controller = config.controller.is_some().into();
    rodata.register_shift = config.register_shift;

    skel.maps.pmu_first.set_max_entries(config.nr_cpu_ids)?;
    skel.maps.pmu_second.set_max_entries(config.nr_cpu_ids)?;
    let slots = skel.maps.data_cpus_data.as_deref_mut();
    let slots = &mut slots.context("no table of CPUs")?.cpus;
    for counter in counters.fds() {
        let slot = &mut slots[counter.cpu as usize].counters[counter.index];
        slot.bytes_q8 = u64::from(counter.bytes) << 8;
    }
    devices::configure(skel, config.dma);
    Ok(())
}
