// SPDX-License-Identifier: GPL-2.0-only
//! Properties of `bpf/drfq.h`, checked with 128-bit integers and floating point. Each property
//! draws V near 0, 2^63 and 2^64, and so covers the wraps.

use drfq_sim::ffi::{self, Charging, Conf, Flow, Load};
use drfq_sim::reference::{FloatFlow, scale_exact};
use drfq_sim::{MS, Rng, SEC};
use proptest::prelude::*;
use std::mem::{offset_of, size_of};

/// Any V, mostly near a wrap of the u64 or of its sign.
fn any_v() -> impl Strategy<Value = u64> {
    let near = |at: u64| (0..2 * SEC).prop_map(move |d| at.wrapping_add(d).wrapping_sub(SEC));
    prop_oneof![
        near(0),
        near(1 << 63),
        any::<u64>(),
        Just(ffi::v_origin_ns())
    ]
}

fn any_weight() -> impl Strategy<Value = u32> {
    let one = ffi::weight_one();
    prop_oneof![
        Just(ffi::weight_min()),
        Just(u32::MAX),
        Just(one),
        one / 1024 * 3..one / 1024 * 88_762,
    ]
}

fn any_delta() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(ffi::delta_none_ns()), 1..SEC]
}

fn any_charging() -> impl Strategy<Value = Charging> {
    prop_oneof![
        Just(Charging::Always),
        Just(Charging::Busy),
        Just(Charging::Contended)
    ]
}

fn any_conf() -> impl Strategy<Value = Conf> {
    // From 1 TB/s down to 4 MB/s. Slower memory saturates the rate of the smallest weight.
    let mem = prop_oneof![Just(0), (1u64 << 22)..1 << 40];
    (1u32..1025, any_charging(), mem, any_delta()).prop_map(|(nr_cpus, charging, mem, delta_ns)| {
        Conf {
            nr_cpus,
            charging,
            mem_ns_per_byte_q32: mem,
            delta_ns,
            wake_credit_ns: 40 * MS,
            hold_ns: 40 * MS,
            cap_ns: 40 * MS,
            bus_credit_ns: 12 * MS,
        }
    })
}

fn any_load() -> impl Strategy<Value = Load> {
    (0u32..1100, any::<bool>()).prop_map(|(busy_cpus, waiting)| Load { busy_cpus, waiting })
}

/// A task waits, so that every charge counts in S.
const WAITED_FOR: Load = Load {
    busy_cpus: 0,
    waiting: true,
};

/// Packets as (R in ns, b in bytes, load): at most 1 s and 1 GiB each.
fn packets() -> impl Strategy<Value = Vec<(u64, u64, Load)>> {
    prop::collection::vec((0..SEC, 0..1u64 << 30, any_load()), 1..40)
}

/// Distances from V of at most one second, ns.
const NEAR: std::ops::Range<i64> = -(SEC as i64)..SEC as i64;

/// The signed distance from `v` to `t`, ns.
fn since(t: u64, v: u64) -> i64 {
    t.wrapping_sub(v) as i64
}

#[test]
fn rust_structs_have_the_layout_of_c() {
    let rust = [
        size_of::<Conf>(),
        offset_of!(Conf, nr_cpus),
        offset_of!(Conf, charging),
        offset_of!(Conf, mem_ns_per_byte_q32),
        offset_of!(Conf, delta_ns),
        offset_of!(Conf, wake_credit_ns),
        offset_of!(Conf, hold_ns),
        offset_of!(Conf, cap_ns),
        offset_of!(Conf, bus_credit_ns),
        size_of::<Flow>(),
        offset_of!(Flow, cpu_vt),
        offset_of!(Flow, mem_vt),
        offset_of!(Flow, debt_vt),
        offset_of!(Flow, bus_vt),
        offset_of!(Flow, cpu_frac),
        offset_of!(Flow, mem_frac),
        offset_of!(Flow, bus_frac),
        offset_of!(Flow, weight),
    ];
    assert_eq!(ffi::c_layout(), rust.map(|x| x as u64));
}

#[test]
fn thesis_weights_follow_4_9() {
    let one = ffi::weight_one();
    assert_eq!(ffi::weight_thesis(0), one);
    assert_eq!(ffi::weight_thesis(1), 2 * one);
    assert_eq!(ffi::weight_thesis(19), 20 * one);
    assert_eq!(ffi::weight_thesis(-1), one / 2);
    assert_eq!(ffi::weight_thesis(-20), one / 21);
    assert!((-20..19).all(|n| ffi::weight_thesis(n) < ffi::weight_thesis(n + 1)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn before_compares_the_signed_distance_across_a_wrap(a in any_v(), d in 1..i64::MAX) {
        let b = a.wrapping_add(d as u64);
        prop_assert!(ffi::before(a, b) && !ffi::before(b, a) && !ffi::before(a, a));
        prop_assert_eq!(ffi::later(a, b), b);
        prop_assert_eq!(ffi::later(b, a), b);
    }

    #[test]
    fn scale_is_exact_or_saturates(
        amount in prop_oneof![any::<u64>(), 0..SEC, Just(u64::MAX)],
        rate in prop_oneof![any::<u64>(), 0..1u64 << 44, Just(u64::MAX)],
        frac in any::<u32>(),
    ) {
        let (whole, rest) = scale_exact(amount, rate, frac);
        let mut carried = frac;
        let got = ffi::scale(amount, rate, &mut carried);
        if whole < u128::from(ffi::charge_max_ns()) {
            prop_assert_eq!((u128::from(got), carried), (whole, rest));
        } else {
            prop_assert_eq!((got, carried), (ffi::charge_max_ns(), frac));
        }
    }

    #[test]
    fn small_charges_add_up_to_one_large_charge(
        parts in prop::collection::vec(0u64..5000, 1..500),
        rate in 0..1u64 << 36,
    ) {
        let (mut sum, mut frac, mut whole_frac) = (0, 0, 0);
        for part in &parts {
            sum += ffi::scale(*part, rate, &mut frac);
        }
        let whole = ffi::scale(parts.iter().sum(), rate, &mut whole_frac);
        prop_assert_eq!((sum, frac), (whole, whole_frac));
    }

    #[test]
    fn small_packets_cost_as_much_as_one_large_packet(
        conf in any_conf(), v in any_v(), weight in any_weight(),
        parts in prop::collection::vec((1u64..5000, 0u64..9000), 1..300),
    ) {
        let conf = Conf { delta_ns: ffi::delta_none_ns(), ..conf };
        let (mut many, mut one) = (Flow::new(v, weight), Flow::new(v, weight));
        for (run, bytes) in &parts {
            many.charge(&conf, *run, *bytes, WAITED_FOR);
        }
        let (run, bytes) = (parts.iter().map(|p| p.0).sum(), parts.iter().map(|p| p.1).sum());
        one.charge(&conf, run, bytes, WAITED_FOR);
        prop_assert!(since(many.cpu_vt, one.cpu_vt).abs() <= 1);
        prop_assert!(since(many.mem_vt, one.mem_vt).abs() <= 1);
        prop_assert!(since(many.bus_vt, one.bus_vt).abs() <= 1);
    }

    #[test]
    fn charges_agree_with_floating_point(
        conf in any_conf(), v in any_v(), weight in any_weight(), packets in packets(),
    ) {
        let mut flow = Flow::new(v, weight);
        let mut real = FloatFlow::new(f64::from(flow.weight) / f64::from(ffi::weight_one()));
        for (run, bytes, load) in packets {
            flow.charge(&conf, run, bytes, load);
            real.charge(&conf, run, bytes, load);
            // A rate has a resolution of 2^-32 ns per ns. At a large weight on a large machine
            // this is an absolute error.
            let rate_error = 40.0 * (SEC + (1 << 30)) as f64 * 1001.0 / 2f64.powi(32);
            let pairs = [
                (flow.cpu_vt, real.cpu),
                (flow.mem_vt, real.mem),
                (flow.bus_vt, real.bus),
            ];
            for (got, want) in pairs {
                // `scale_is_exact_or_saturates` tests saturation.
                prop_assume!(want < ffi::charge_max_ns() as f64);
                let error = (since(got, v) as f64 - want).abs();
                prop_assert!(error <= 1e-6 * want + rate_error, "{error} ns of {want}");
            }
        }
    }

    #[test]
    fn a_larger_weight_is_never_charged_more(
        conf in any_conf(), v in any_v(), a in any_weight(), b in any_weight(),
        run in 0..SEC, bytes in 0..1u64 << 30,
    ) {
        let (mut light, mut heavy) = (Flow::new(v, a.min(b)), Flow::new(v, a.max(b)));
        light.charge(&conf, run, bytes, WAITED_FOR);
        heavy.charge(&conf, run, bytes, WAITED_FOR);
        prop_assert!(!ffi::before(light.start(), heavy.start()));
    }

    #[test]
    fn an_empty_packet_is_not_charged(conf in any_conf(), v in any_v(), weight in any_weight()) {
        let flow = Flow::new(v, weight);
        let mut charged = flow;
        charged.charge(&conf, 0, 0, WAITED_FOR);
        prop_assert_eq!(flow, charged);
        prop_assert_eq!(flow.start(), v);
        prop_assert!(flow.weight >= ffi::weight_min());
    }

    #[test]
    fn a_charge_is_between_zero_and_the_maximum(
        conf in any_conf(), v in any_v(), weight in any_weight(),
        run in any::<u64>(), bytes in any::<u64>(), load in any_load(),
    ) {
        let mut flow = Flow::new(v, weight);
        flow.charge(&conf, run, bytes, load);
        for vt in [flow.cpu_vt, flow.mem_vt, flow.bus_vt] {
            prop_assert!((0..=ffi::charge_max_ns() as i64).contains(&since(vt, v)));
        }
    }

    #[test]
    fn v_never_goes_back(start in any_v(), steps in prop::collection::vec(NEAR, 1..100)) {
        let mut v = start;
        let mut highest = 0;
        for step in steps {
            let next = ffi::advance(v, v.wrapping_add(step as u64));
            prop_assert!(!ffi::before(next, v));
            highest += step.max(0);
            v = next;
        }
        prop_assert_eq!(since(v, start), highest);
    }

    #[test]
    fn memoryless_is_the_sum_of_maxima(
        conf in any_conf(), v in any_v(), weight in any_weight(), packets in packets(),
    ) {
        let free = Conf { delta_ns: ffi::delta_none_ns(), ..conf };
        let memoryless = Conf { delta_ns: 0, ..conf };
        let mut flow = Flow::new(v, weight);
        let mut sum = 0;
        for (run, bytes, load) in &packets {
            flow.charge(&memoryless, *run, *bytes, *load);
            let mut alone = Flow::new(v, weight);
            alone.charge(&free, *run, *bytes, *load);
            sum += since(alone.start(), v);
            prop_assert_eq!(flow.cpu_vt, flow.mem_vt);
        }
        // Carried fractions may add 1 ns to each packet. For memory they may add 1 ns before the
        // weight is applied, and 1 ns after.
        let carried = i64::from(ffi::weight_one().div_ceil(flow.weight)) + 1;
        let more = since(flow.start(), v) - sum;
        prop_assert!((0..=carried * packets.len() as i64).contains(&more), "{more} ns");
    }

    #[test]
    fn dovetailing_is_the_maximum_of_sums(
        conf in any_conf(), v in any_v(), weight in any_weight(), packets in packets(),
    ) {
        let conf = Conf { delta_ns: ffi::delta_none_ns(), ..conf };
        let (mut both, mut cpu, mut mem) =
            (Flow::new(v, weight), Flow::new(v, weight), Flow::new(v, weight));
        for (run, bytes, load) in packets {
            both.charge(&conf, run, bytes, load);
            cpu.charge(&conf, run, 0, load);
            mem.charge(&conf, 0, bytes, load);
        }
        prop_assert_eq!(both.start(), ffi::later(cpu.start(), mem.start()));
    }

    #[test]
    fn delta_bounded_lies_between_both_with_a_gap_within_delta(
        conf in any_conf(), v in any_v(), weight in any_weight(), packets in packets(),
        delta in 1..SEC,
    ) {
        let with = |delta_ns| Conf { delta_ns, ..conf };
        let start = Flow::new(v, weight);
        let (mut memoryless, mut bounded, mut dovetailing) = (start, start, start);
        for (i, (run, bytes, load)) in packets.into_iter().enumerate() {
            memoryless.charge(&with(0), run, bytes, load);
            bounded.charge(&with(delta), run, bytes, load);
            dovetailing.charge(&with(ffi::delta_none_ns()), run, bytes, load);
            let gap = since(bounded.cpu_vt, bounded.mem_vt).unsigned_abs();
            prop_assert!(gap <= delta, "a gap of {gap} ns");
            let rounding = i as i64 + 1;
            prop_assert!(since(bounded.start(), memoryless.start()) <= rounding);
            prop_assert!(since(dovetailing.start(), bounded.start()) <= rounding);
        }
    }

    #[test]
    fn a_woken_flow_starts_at_v_minus_c_or_after_its_debt(
        conf in any_conf(), v in any_v(), weight in any_weight(),
        cpu in NEAR, mem in NEAR, dma in 0..1u64 << 30, load in any_load(),
    ) {
        let conf = Conf { delta_ns: ffi::delta_none_ns(), ..conf };
        let mut flow = Flow::new(v, weight);
        (flow.cpu_vt, flow.mem_vt) = (v.wrapping_add(cpu as u64), v.wrapping_add(mem as u64));
        let mut paid = flow;
        paid.charge_dma(&conf, dma, load);
        flow.wake(&conf, v, dma, load);
        let floor = v.wrapping_sub(conf.wake_credit_ns);
        prop_assert_eq!(flow.cpu_vt, ffi::later(paid.cpu_vt, floor));
        prop_assert_eq!(flow.mem_vt, ffi::later(paid.mem_vt, floor));
        prop_assert!(!ffi::before(flow.start(), floor));
    }

    #[test]
    fn the_cap_lowers_only_times_after_v_plus_cap(
        conf in any_conf(), v in any_v(), weight in any_weight(),
        cpu in NEAR, mem in NEAR,
    ) {
        let mut flow = Flow::new(v, weight);
        (flow.cpu_vt, flow.mem_vt) = (v.wrapping_add(cpu as u64), v.wrapping_add(mem as u64));
        flow.cap(&conf, v);
        let cap = conf.cap_ns as i64;
        prop_assert_eq!(since(flow.cpu_vt, v), cpu.min(cap));
        prop_assert_eq!(since(flow.mem_vt, v), mem.min(cap));
    }

    /// Without CPU time after V, the rule equals 4.10 of the thesis.
    #[test]
    fn a_flow_without_cpu_debt_is_held_if_s_is_after_v_plus_k(
        conf in any_conf(), v in any_v(), weight in any_weight(),
        cpu in NEAR, mem in NEAR, dma in 1..1u64 << 30,
    ) {
        let mut flow = Flow::new(v, weight);
        let behind = |x: i64| v.wrapping_sub(x.unsigned_abs());
        (flow.cpu_vt, flow.mem_vt) = (behind(cpu), behind(mem));
        flow.bound(conf.delta_ns);
        flow.wake(&conf, v, dma, WAITED_FOR);
        prop_assert_eq!(flow.held(&conf, v), since(flow.start(), v) > conf.hold_ns as i64);
    }

    /// With CPU time after V, the debt is at most what DMA alone would add after V, and no flow is
    /// held that 4.10 of the thesis would not hold.
    #[test]
    fn cpu_time_after_v_does_not_add_to_a_hold(
        conf in any_conf(), v in any_v(), weight in any_weight(),
        cpu in NEAR, first in 1..1u64 << 28, second in 1..1u64 << 28,
    ) {
        let mut flow = Flow::new(v, weight);
        flow.cpu_vt = v.wrapping_add(cpu.unsigned_abs());
        flow.bound(conf.delta_ns);
        let mut dma_alone = Flow::new(v, weight);
        for bytes in [first, second] {
            flow.wake(&conf, v, bytes, WAITED_FOR);
            dma_alone.wake(&conf, v, bytes, WAITED_FOR);
            let debt = since(flow.debt_vt, v);
            prop_assert!(debt <= since(dma_alone.mem_vt, v));
            prop_assert!(!flow.held(&conf, v) || since(flow.start(), v) > conf.hold_ns as i64);
        }
        prop_assert!(since(dma_alone.debt_vt, dma_alone.mem_vt).abs() <= 1);
    }

    #[test]
    fn only_charging_by_busy_cpus_divides_by_them(conf in any_conf(), busy in any::<u32>()) {
        let got = conf.cpu_divisor(busy);
        let credited = conf.charging == Charging::Busy && (1..conf.nr_cpus).contains(&busy);
        prop_assert_eq!(got, if credited { busy } else { conf.nr_cpus });
    }

    /// The two accounts: `bus_vt` depends on the traffic alone.
    #[test]
    fn no_sequence_of_cpu_charges_changes_bus_vt(
        conf in any_conf(), v in any_v(), weight in any_weight(), packets in packets(),
    ) {
        let (mut flow, mut traffic) = (Flow::new(v, weight), Flow::new(v, weight));
        for (run, bytes, load) in packets {
            flow.charge(&conf, run, bytes, load);
            flow.cap(&conf, v);
            flow.lift(&conf, v.wrapping_add(SEC));
            flow.move_between(&conf, v, v, v.wrapping_add(run));
            traffic.charge(&conf, 0, bytes, Load::default());
            prop_assert_eq!(flow.bus_vt, traffic.bus_vt);
        }
    }

    /// Flows whose S are each other's `from` and `to` must not push each other away from V.
    #[test]
    fn a_move_keeps_the_distance_but_never_passes_cap_or_the_other_packet(
        conf in any_conf(), v in any_v(), distance in NEAR, from in NEAR, to in NEAR,
    ) {
        let at = |ns: i64| v.wrapping_add_signed(ns);
        let mut flow = Flow::new(at(distance), ffi::weight_one());
        flow.move_between(&conf, v, at(from), at(to));
        let kept = distance + to - from;
        let want = if to > from {
            kept.min(distance.max(i64::try_from(conf.cap_ns).unwrap()))
        } else {
            kept.max(distance.min(to))
        };
        prop_assert_eq!(since(flow.start(), v), want);
    }

    #[test]
    fn an_uncontended_packet_is_charged_to_the_memory_account_only(
        conf in any_conf(), v in any_v(), weight in any_weight(),
        run in 0..SEC, bytes in 0..1u64 << 30,
    ) {
        let conf = Conf { charging: Charging::Contended, ..conf };
        let load = Load { busy_cpus: conf.nr_cpus - 1, waiting: false };
        let mut flow = Flow::new(v, weight);
        let grown = flow.charge(&conf, run, bytes, load);
        prop_assert_eq!(flow.start(), v);
        prop_assert_eq!(since(flow.bus_vt, v), grown as i64);
        flow.charge_dma(&conf, bytes, load);
        prop_assert_eq!(flow.start(), v);
    }

    /// B follows the latest flow. It stays behind that flow by a / w and the slack, it advances by
    /// no more than was charged, and it never goes back.
    #[test]
    fn b_follows_the_latest_flow_by_no_more_than_was_charged(
        conf in any_conf(), v in any_v(), weight in any_weight(), lead in NEAR, bytes in 0..1u64 << 30,
    ) {
        let mut flow = Flow::new(v, weight);
        flow.bus_vt = v.wrapping_add(lead as u64);
        let grown = flow.charge(&conf, 0, bytes, WAITED_FOR);
        prop_assume!(grown < ffi::charge_max_ns());
        let next = flow.bus_advance(&conf, v, grown);
        prop_assert!((0..=grown as i64).contains(&since(next, v)));
        let behind = since(flow.bus_vt, next);
        let credit = flow.bus_credit(&conf) as i64;
        prop_assert!(next == v || behind >= credit, "B is {behind} ns behind, a / w is {credit}");
        flow.bus_lift(&conf, next);
        prop_assert!(since(flow.bus_vt, next) >= -credit);
    }

    /// Flows that are no more than a / w behind the latest one keep what they owe each other.
    #[test]
    fn flows_within_their_credit_are_never_lifted(
        conf in any_conf(), v in any_v(), a in any_weight(), b in any_weight(),
        behind in 0..SEC, bytes in 0..1u64 << 30,
    ) {
        let (mut first, mut second) = (Flow::new(v, a), Flow::new(v, b));
        let gap = behind % (first.bus_credit(&conf) + second.bus_credit(&conf) + 1);
        second.bus_vt = v.wrapping_sub(gap);
        let before = second.bus_vt;
        let grown = first.charge(&conf, 0, bytes, WAITED_FOR);
        first.bus_vt = v;
        let bus_v = first.bus_advance(&conf, v.wrapping_sub(2 * SEC), grown);
        second.bus_lift(&conf, bus_v);
        prop_assert_eq!(second.bus_vt, before);
    }

    #[test]
    fn registers_hold_bus_vt_only_with_two_accounts(
        conf in any_conf(), v in any_v(), weight in any_weight(), packets in packets(),
    ) {
        let mut flow = Flow::new(v, weight);
        for (run, bytes, load) in packets {
            flow.charge(&conf, run, bytes, load);
        }
        let two = conf.charging == Charging::Contended;
        prop_assert_eq!(flow.register_vtime(&conf), if two { flow.bus_vt } else { flow.start() });
    }
}

/// Serves random packets, the smallest S first (start-time fair queueing). In any interval, the
/// dominant service of two backlogged flows differs by at most one packet of each (Goyal, Vin and
/// Cheng, 1997, theorem 1; Ghodsi et al., 2012, for DRFQ).
fn stfq_bound_holds(seed: u64, v: u64, delta_ns: u64) -> Result<(), TestCaseError> {
    let mut rng = Rng::new(seed);
    let conf = Conf {
        nr_cpus: 1,
        charging: Charging::Always,
        mem_ns_per_byte_q32: 1 << 32,
        delta_ns,
        wake_credit_ns: 0,
        hold_ns: 0,
        cap_ns: 0,
        bus_credit_ns: 0,
    };
    let nr = rng.range(2, 6) as usize;
    let max_packet_ns = 8 * MS;
    let weights: Vec<u32> = (0..nr)
        .map(|_| rng.range(ffi::weight_one() as u64 / 70, ffi::weight_one() as u64 * 88) as u32)
        .collect();
    let mut flows: Vec<Flow> = weights.iter().map(|w| Flow::new(v, *w)).collect();
    // The integers choose the next packet; floating point measures the service.
    let one = f64::from(ffi::weight_one());
    let mut service: Vec<FloatFlow> = weights
        .iter()
        .map(|w| FloatFlow::new(f64::from(*w) / one))
        .collect();
    // The longest packet of each flow. For each pair, the lowest and the highest lead so far:
    // their difference is the worst lead in any interval.
    let mut longest = vec![0f64; nr];
    let mut lead = vec![(0f64, 0f64); nr * nr];
    for _ in 0..600 {
        let next = (0..nr)
            .min_by_key(|i| since(flows[*i].start(), v))
            .unwrap_or(0);
        let (run, bytes) = (rng.range(1, max_packet_ns), rng.below(max_packet_ns));
        flows[next].charge(&conf, run, bytes, WAITED_FOR);
        service[next].charge(&conf, run, bytes, WAITED_FOR);
        let length = run.max(bytes) as f64 / service[next].weight;
        longest[next] = longest[next].max(length);
        for (pair, (low, high)) in lead.iter_mut().enumerate() {
            let ahead = service[pair / nr].start() - service[pair % nr].start();
            (*low, *high) = (low.min(ahead), high.max(ahead));
        }
    }
    for (pair, (low, high)) in lead.iter().enumerate() {
        let (i, j) = (pair / nr, pair % nr);
        // Integers are off by at most 1 ns per packet.
        let bound = longest[i] + longest[j] + 600.0;
        prop_assert!(
            high - low <= bound,
            "flows {i}, {j}: {} > {bound}",
            high - low
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn one_server_is_fair_over_every_interval(seed in any::<u64>(), v in any_v(), delta in any_delta()) {
        stfq_bound_holds(seed, v, delta)?;
    }
}
