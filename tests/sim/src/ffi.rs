// SPDX-License-Identifier: GPL-2.0-only
//! The functions of `bpf/drfq.h`, which documents them. Virtual times and durations are in ns,
//! traffic in bytes, rates in 32.32 fixed point.

/// `struct drfq_conf`: the machine and the constants of the algorithm.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conf {
    /// c: number of CPUs that the scheduler manages, at least 1.
    pub nr_cpus: u32,
    /// When S is charged.
    pub charging: Charging,
    /// 1/m: ns that one byte takes at full memory bandwidth, times 2^32.
    pub mem_ns_per_byte_q32: u64,
    /// delta: most that a flow's virtual times may differ; 0 is memoryless.
    pub delta_ns: u64,
    /// C of 4.7.
    pub wake_credit_ns: u64,
    /// K of 4.10.
    pub hold_ns: u64,
    /// The cap of Algorithm 2.
    pub cap_ns: u64,
    /// a: how far `bus_vt` may lie behind B at weight 1.
    pub bus_credit_ns: u64,
}

/// `enum drfq_charging`: when a flow's CPU time and memory traffic count in S.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charging {
    /// Always; running time is divided by c (4.1).
    Always,
    /// Always; running time is divided by the busy CPUs (4.5.2).
    Busy,
    /// Only while CPUs are contended. Memory has an account of its own.
    Contended,
}

/// `struct drfq_load`: how contended the CPUs are when a flow is charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// CPUs that run a packet, with the flow's own; 0 if unknown.
    pub busy_cpus: u32,
    /// Whether another task waits for the flow's CPU.
    pub waiting: bool,
}

/// `struct drfq_flow`: one task's account.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Virtual time of the CPUs, ns.
    pub cpu_vt: u64,
    /// Virtual time of memory, ns.
    pub mem_vt: u64,
    /// The virtual time that 4.10 compares with V + K, ns.
    pub debt_vt: u64,
    /// Virtual time of all memory traffic, ns. Its system time is B.
    pub bus_vt: u64,
    /// Fraction not yet charged to `cpu_vt`, 2^-32 ns.
    pub cpu_frac: u32,
    /// Fraction not yet charged to `mem_vt`, 2^-32 ns.
    pub mem_frac: u32,
    /// Fraction of memory time not yet charged, before the weight, 2^-32 ns.
    pub bus_frac: u32,
    /// w in units of 1 / [`weight_one`]; never 0.
    pub weight: u32,
}

unsafe extern "C" {
    safe static shim_weight_one: u32;
    safe static shim_weight_min: u32;
    safe static shim_charge_max_ns: u64;
    safe static shim_v_origin_ns: u64;
    safe static shim_budget_part: u32;
    safe static shim_delta_none_ns: u64;
    safe static shim_layout: [u64; 18];

    safe fn shim_before(a: u64, b: u64) -> bool;
    safe fn shim_later(a: u64, b: u64) -> u64;
    safe fn shim_earlier(a: u64, b: u64) -> u64;
    safe fn shim_scale(amount: u64, rate_q32: u64, frac: &mut u32) -> u64;
    safe fn shim_start(f: &Flow) -> u64;
    safe fn shim_flow_new(f: &mut Flow, v: u64, bus: u64, weight: u32);
    safe fn shim_rate_q32(weight: u32, divisor: u32) -> u64;
    safe fn shim_bound(f: &mut Flow, delta_ns: u64);
    safe fn shim_cpu_divisor(c: &Conf, busy_cpus: u32) -> u32;
    safe fn shim_charge(
        f: &mut Flow,
        c: &Conf,
        run_ns: u64,
        bytes: u64,
        busy_cpus: u32,
        waiting: bool,
    ) -> u64;
    safe fn shim_charge_dma(f: &mut Flow, c: &Conf, bytes: u64, busy_cpus: u32, waiting: bool);
    safe fn shim_bus_credit(f: &Flow, c: &Conf) -> u64;
    safe fn shim_bus_advance(f: &Flow, c: &Conf, bus_v: u64, bus_ns: u64) -> u64;
    safe fn shim_bus_lift(f: &mut Flow, c: &Conf, bus_v: u64);
    safe fn shim_bus_inherited(ended: &Flow, heir: &Flow, c: &Conf, bus_v: u64) -> u64;
    safe fn shim_register_vtime(f: &Flow, c: &Conf) -> u64;
    safe fn shim_advance(v: u64, min_start: u64) -> u64;
    safe fn shim_move(f: &mut Flow, c: &Conf, v: u64, from: u64, to: u64);
    safe fn shim_lift(f: &mut Flow, c: &Conf, v: u64);
    safe fn shim_contended_v(c: &Conf, start: u64) -> u64;
    safe fn shim_wake(
        f: &mut Flow,
        c: &Conf,
        v: u64,
        dma_bytes: u64,
        busy_cpus: u32,
        waiting: bool,
    );
    safe fn shim_cap(f: &mut Flow, c: &Conf, v: u64);
    safe fn shim_held(f: &Flow, c: &Conf, v: u64) -> bool;
    safe fn shim_weight_thesis(nice: i32) -> u32;
}

/// `DRFQ_WEIGHT_ONE`: the weight of nice 0.
pub fn weight_one() -> u32 {
    shim_weight_one
}

/// `DRFQ_WEIGHT_MIN`: the smallest weight.
pub fn weight_min() -> u32 {
    shim_weight_min
}

/// `DRFQ_CHARGE_MAX_NS`: the most that one charge adds.
pub fn charge_max_ns() -> u64 {
    shim_charge_max_ns
}

/// `DRFQ_BUDGET_PART`: packets out of order have one in so many parts of a CPU.
pub fn budget_part() -> u64 {
    shim_budget_part.into()
}

/// `DRFQ_V_ORIGIN_NS`: V when the scheduler starts.
pub fn v_origin_ns() -> u64 {
    shim_v_origin_ns
}

/// `DRFQ_DELTA_NONE_NS`: delta of dovetailing.
pub fn delta_none_ns() -> u64 {
    shim_delta_none_ns
}

/// Sizes and offsets of both structures in C, in the order of `src/shim.c`.
pub fn c_layout() -> [u64; 18] {
    shim_layout
}

/// `drfq_before`: whether `a` is before `b`, also across a wrap.
pub fn before(a: u64, b: u64) -> bool {
    shim_before(a, b)
}

/// `drfq_later`: the later of the two.
pub fn later(a: u64, b: u64) -> u64 {
    shim_later(a, b)
}

/// `drfq_earlier`: the earlier of the two.
pub fn earlier(a: u64, b: u64) -> u64 {
    shim_earlier(a, b)
}

/// `drfq_scale`: `amount * rate_q32 / 2^32`, with the remainder carried in `frac`.
pub fn scale(amount: u64, rate_q32: u64, frac: &mut u32) -> u64 {
    shim_scale(amount, rate_q32, frac)
}

/// `drfq_rate_q32`: virtual time per ns of resource time.
///
/// # Panics
/// If `weight` or `divisor` is 0, which the header does not allow.
pub fn rate_q32(weight: u32, divisor: u32) -> u64 {
    assert!(weight != 0 && divisor != 0, "neither is ever 0");
    shim_rate_q32(weight, divisor)
}

/// `drfq_advance`: the next V (4.6).
pub fn advance(v: u64, min_start: u64) -> u64 {
    shim_advance(v, min_start)
}

/// `drfq_weight_thesis`: the weight of a nice value (4.9).
pub fn weight_thesis(nice: i32) -> u32 {
    shim_weight_thesis(nice)
}

impl Conf {
    /// `drfq_cpu_divisor`: the divisor of running time (4.1, 4.5.2).
    pub fn cpu_divisor(&self, busy_cpus: u32) -> u32 {
        shim_cpu_divisor(self, busy_cpus)
    }

    /// `drfq_contended_v`: the least V when a contended packet starts at `start`.
    pub fn contended_v(&self, start: u64) -> u64 {
        shim_contended_v(self, start)
    }
}

impl Flow {
    /// `drfq_flow_new`: a new flow at V (4.8), and with B at V.
    pub fn new(v: u64, weight: u32) -> Self {
        let mut flow = Self {
            cpu_vt: 0,
            mem_vt: 0,
            debt_vt: 0,
            bus_vt: 0,
            cpu_frac: 0,
            mem_frac: 0,
            bus_frac: 0,
            weight: 0,
        };
        shim_flow_new(&mut flow, v, v, weight);
        flow
    }

    /// `drfq_start`: S of the next packet.
    pub fn start(&self) -> u64 {
        shim_start(self)
    }

    /// `drfq_bound`: raises the earlier virtual time to at most delta behind the later one.
    pub fn bound(&mut self, delta_ns: u64) {
        shim_bound(self, delta_ns);
    }

    /// `drfq_charge`: charges a packet (4.1 to 4.4). `run_ns`: R. `bytes`: b. Returns what
    /// `bus_vt` grew by.
    pub fn charge(&mut self, conf: &Conf, run_ns: u64, bytes: u64, load: Load) -> u64 {
        shim_charge(self, conf, run_ns, bytes, load.busy_cpus, load.waiting)
    }

    /// `drfq_charge_dma`: charges the traffic of devices (4.5).
    pub fn charge_dma(&mut self, conf: &Conf, bytes: u64, load: Load) {
        shim_charge_dma(self, conf, bytes, load.busy_cpus, load.waiting);
    }

    /// `drfq_wake`: ends a blocked packet (4.5, 4.7).
    pub fn wake(&mut self, conf: &Conf, v: u64, dma_bytes: u64, load: Load) {
        shim_wake(self, conf, v, dma_bytes, load.busy_cpus, load.waiting);
    }

    /// `drfq_bus_credit`: a / w.
    pub fn bus_credit(&self, conf: &Conf) -> u64 {
        shim_bus_credit(self, conf)
    }

    /// `drfq_bus_advance`: the next B, after a charge that added `bus_ns`.
    pub fn bus_advance(&self, conf: &Conf, bus_v: u64, bus_ns: u64) -> u64 {
        shim_bus_advance(self, conf, bus_v, bus_ns)
    }

    /// `drfq_bus_lift`: raises `bus_vt` to at least B - a / w.
    pub fn bus_lift(&mut self, conf: &Conf, bus_v: u64) {
        shim_bus_lift(self, conf, bus_v);
    }

    /// `drfq_bus_inherited`: `bus_vt` that the heir of this flow has at least.
    pub fn bus_inherited(&self, heir: &Self, conf: &Conf, bus_v: u64) -> u64 {
        shim_bus_inherited(self, heir, conf, bus_v)
    }

    /// `drfq_register_vtime`: the virtual time by which a memory controller serves the flow.
    pub fn register_vtime(&self, conf: &Conf) -> u64 {
        shim_register_vtime(self, conf)
    }

    /// `drfq_move`: from a CPU whose packet has S = `from` to one with S = `to`.
    pub fn move_between(&mut self, conf: &Conf, v: u64, from: u64, to: u64) {
        shim_move(self, conf, v, from, to);
    }

    /// `drfq_lift`: raises the virtual times to at least V - C.
    pub fn lift(&mut self, conf: &Conf, v: u64) {
        shim_lift(self, conf, v);
    }

    /// `drfq_held`: whether a woken flow must wait (4.10).
    pub fn held(&self, conf: &Conf, v: u64) -> bool {
        shim_held(self, conf, v)
    }

    /// `drfq_cap`: lowers the virtual times to at most V + cap (Algorithm 2).
    pub fn cap(&mut self, conf: &Conf, v: u64) {
        shim_cap(self, conf, v);
    }
}
