// SPDX-License-Identifier: GPL-2.0-only
//! The control law of one memory domain: from what each group moved in the last
//! period to the fraction of its unthrottled bandwidth that it keeps in the next.
//!
//! The law compares groups with each other and needs no capacity. The traffic that
//! the groups move now is divided again by progressive filling. A group above its
//! part is throttled towards it. An unthrottled group below its part claims the
//! rest, and the law tests that claim: a group that gains nothing while others give
//! way has all that it wants, and the others are released.

use super::{
    claims::{Claim, Claims, GAINED_OWN, Verdict},
    filling::{Bounds, fill},
    noise::Noise,
    response::{Past, Response},
};

/// The part of an error that a period corrects. Throttling one group speeds up the others,
/// and a reading may be late, so the full correction would overshoot.
const GAIN: f64 = 0.5;

/// An error that differs by this much (in logarithms) from that of the last period is an
/// overshoot or a new load: the group's corrections begin again at GAIN, and grow by
/// GAIN_RISE.
const JUMP: f64 = 0.1;
const GAIN_RISE: f64 = 1.5;

/// Largest change of a fraction in one period.
const STEP: f64 = 2.0;

/// Largest rise of the fraction of a group with a maximum beyond what its traffic shows to keep that
/// maximum. A pause shows nothing of the burst after it.
const RISE_HELD: f64 = 1.1;

/// A group gets at most this multiple of its present traffic in one period. More
/// than one step of the throttles cannot give it.
const REACH: f64 = 2.0;

/// The same for a group whose last claim failed, so that testing it again costs the
/// others little. It must exceed what is tested.
const PROBE: f64 = 1.0 + 1.5 * CLAIM;

/// A minimum reserves at most this multiple of what its group moves: nothing while the group
/// idles, and little if it wants much less than its minimum. Nobody moves what is reserved in vain.
const RESERVED: f64 = 4.0;

/// An unthrottled group is throttled if it exceeds its part by this much. The bound
/// is above the noise of a reading.
const RICH: f64 = 0.02;

/// A group that lacks more than this part of its share is deprived, and others must
/// not be released.
const DEPRIVED: f64 = 0.03;

/// A claim of more than this part of a group's traffic is tested.
const CLAIM: f64 = 0.10;

/// Time until a failed claim is tested again (s), which doubles each time.
const RETEST_S: f64 = 2.0;
const RETEST_MAX_S: f64 = 32.0;

/// A group that moves this multiple of what it moved when a claim of its failed is another load.
const CHANGED: f64 = 1.5;

/// Largest extra fall of the fractions of rich groups while others are deprived.
const SQUEEZE: f64 = 0.1;

/// Rise of all fractions in one period when no group is deprived: while memory is
/// full, and at most while it is not.
const RISE_FULL: f64 = 1.02;
const RISE: f64 = 1.25;

/// Memory is full at this part of the best traffic.
const FULL: f64 = 0.92;

/// Throttles leave this part of the capacity in use. It is between the bounds where saturation
/// begins and ends, so that throttles do not end it. A claim needs what is between it and `FULL`.
const IN_USE: f64 = 0.75;

/// A group below this part of all traffic claims nothing but its minimum; its changes are noise.
const SMALL: f64 = 0.005;

/// Weight of the newest reading in the mean that claims are judged by.
const NEWEST: f64 = 0.5;

/// A group in one period.
#[derive(Clone, Copy, Debug)]
pub struct Input {
    /// w, positive.
    pub weight: f64,
    /// Measured traffic (bytes per second).
    pub bytes_per_s: f64,
    /// The lower bound of its part (bytes per second).
    pub min: f64,
    /// The upper one; infinite if there is none.
    pub max: f64,
    /// The smallest fraction that its throttle can make.
    pub floor: f64,
}

/// What the law remembers of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// The fraction of its unthrottled bandwidth that it keeps; 1: it is not throttled.
    pub fraction: f64,
    /// Mean traffic over the last periods.
    mean: Option<f64>,
    /// All that it wants, if it was found to want no more.
    demand: Option<f64>,
    /// Its mean traffic when its last claim failed; none: its last claim did not fail.
    refused: Option<f64>,
    /// Memory has room, and what others gave up did not help it: it is not deprived.
    content: bool,
    claims: Claims,
    past: Past,
    /// What it would move unthrottled (bytes per second): the most of late.
    unthrottled: f64,
    /// Exponent and error of the last correction.
    gain: f64,
    error: f64,
    reach: f64,
    retest_s: f64,
    retest_in_s: f64,
}

impl Default for Record {
    fn default() -> Self {
        Self {
            fraction: 1.0,
            mean: None,
            demand: None,
            refused: None,
            content: false,
            claims: Claims::default(),
            past: Past::default(),
            unthrottled: 0.0,
            gain: GAIN,
            error: 0.0,
            reach: REACH,
            retest_s: RETEST_S,
            retest_in_s: 0.0,
        }
    }
}

impl Record {
    fn is_throttled(&self) -> bool {
        self.fraction < 1.0
    }

    /// Mean traffic over the last periods (bytes per second); 0 before the first one.
    pub fn mean(&self) -> f64 {
        self.mean.unwrap_or(0.0)
    }

    /// Takes in a reading, and drops a demand that the group has outgrown.
    fn measure(&mut self, bytes_per_s: f64, period_s: f64, memory: &Use) {
        let before = self.mean.unwrap_or(bytes_per_s);
        let mean = before + NEWEST * (bytes_per_s - before);
        self.mean = Some(mean);
        self.retest_in_s -= period_s;
        let same = self.refused.is_some_and(|then| mean < CHANGED * then);
        self.content = memory.has_room && !self.is_throttled() && same && self.retest_in_s > 0.0;
        if !memory.wanted || self.content {
            // Less contention lets a group move more of what it always wanted.
            self.demand = self.demand.map(|demand| demand.max(mean));
        }
        let outgrown = self
            .demand
            .is_some_and(|demand| mean > demand * (1.0 + DEPRIVED));
        if outgrown || self.is_throttled() {
            self.retest_s = RETEST_S;
            self.retest_in_s = self.retest_in_s.min(RETEST_S);
            self.reach = REACH;
        }
        if outgrown || self.is_throttled() || self.retest_in_s <= 0.0 {
            self.demand = None;
        }
    }

    /// Notes that the group wants no more than it has, until the next test.
    fn satisfy(&mut self) {
        self.demand = Some(self.mean() * (1.0 + GAINED_OWN));
        self.claims.forget();
        if self.content {
            return;
        }
        self.reach = PROBE;
        self.retest_in_s = self.retest_s;
        self.retest_s = (self.retest_s * 2.0).min(RETEST_MAX_S);
    }

    /// The exponent of the next correction, at most `most`. `error`: of the logarithm of the
    /// traffic.
    fn adapt_gain(&mut self, error: f64, most: f64) -> f64 {
        let jumped = (error - self.error).abs() > JUMP;
        self.gain = if jumped {
            GAIN
        } else {
            (self.gain * GAIN_RISE).min(most)
        };
        self.error = error;
        self.gain
    }

    /// Bounds the rise of a group with a maximum. `before`: its fraction in the last period.
    fn hold(&mut self, input: &Input, before: f64) {
        let unthrottled = input.bytes_per_s / before;
        self.unthrottled = (self.unthrottled / RISE_HELD).max(unthrottled);
        let most = (before * RISE_HELD).max(input.max / self.unthrottled);
        self.fraction = self.fraction.min(most);
    }

    /// Releases the throttle by a step, as memory is not contended.
    fn release(&mut self) {
        self.fraction = (self.fraction * STEP).min(1.0);
        self.past = Past::default();
        self.claims.forget();
    }
}

/// What the law has learnt of its domain.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Learnt {
    response: Response,
    noise: Noise,
}

/// What the law knows of its domain.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Memory is saturated, and virtual time cannot enforce shares.
    pub acts: bool,
    /// Traffic of all groups at which memory is full (bytes per second).
    pub full: f64,
    /// The capacity, less what others move (bytes per second).
    pub capacity: f64,
    /// What throttled groups would move besides (bytes per second).
    pub withheld: f64,
    /// Length of the period (s).
    pub period_s: f64,
}

/// How far a domain's memory is in use.
#[derive(Clone, Copy, Debug)]
struct Use {
    /// It is full, or would be without throttles.
    wanted: bool,
    /// It is not full.
    has_room: bool,
    /// The groups' traffic in the last period (bytes per second).
    total: f64,
    /// Its mean before.
    mean: f64,
}

/// One period of a domain. If the law does not act, only maxima are enforced.
/// Returns the part that each group shall get (bytes per second). Their sum is at
/// most the measured traffic, unless the law does not act.
pub fn step(
    inputs: &[Input],
    records: &mut [Record],
    learnt: &mut Learnt,
    memory: &Memory,
) -> Vec<f64> {
    let mean: f64 = records.iter().map(Record::mean).sum();
    let state = Use {
        // Room that throttling makes is no sign that the others have all that they want.
        wanted: mean + memory.withheld >= FULL * memory.full,
        has_room: mean < FULL * memory.full,
        total: inputs.iter().map(|input| input.bytes_per_s).sum(),
        mean,
    };
    for (input, record) in inputs.iter().zip(&mut *records) {
        record.measure(input.bytes_per_s, memory.period_s, &state);
    }
    let before: Vec<f64> = records.iter().map(|record| record.fraction).collect();
    let parts = if memory.acts {
        share(inputs, records, learnt, memory, &state)
    } else {
        release(inputs, records, &learnt.response);
        inputs.iter().map(|input| input.max).collect()
    };
    for ((input, record), before) in inputs.iter().zip(records).zip(before) {
        if input.max.is_finite() {
            record.hold(input, before);
        }
    }
    parts
}

/// One period of a domain in which the law acts. As [`step`].
fn share(
    inputs: &[Input],
    records: &mut [Record],
    learnt: &mut Learnt,
    memory: &Memory,
    state: &Use,
) -> Vec<f64> {
    let total = state.total;
    learn(inputs, records, &mut learnt.response, total);
    let bounds: Vec<_> = inputs
        .iter()
        .zip(&*records)
        .map(|(input, record)| bounds(input, record))
        .collect();
    let parts = fill(&bounds, total);
    test_claims(inputs, &parts, records, &mut learnt.noise, state);
    let lacking = lacking(inputs, &parts, records, total);
    let before: Vec<f64> = records.iter().map(|record| record.fraction).collect();
    let held: Vec<bool> = inputs
        .iter()
        .zip(&parts)
        .map(|(input, &part)| part >= input.max)
        .collect();
    for ((input, record), &part) in inputs.iter().zip(&mut *records).zip(&parts) {
        let moves_little = input.bytes_per_s < (SMALL * total).min(input.max);
        if record.is_throttled() || !moves_little {
            let lacking = lacking / total.max(f64::MIN_POSITIVE);
            correct(input, record, &learnt.response, part, lacking);
        }
    }
    if total + memory.withheld < FULL * memory.capacity {
        keep_in_use(inputs, records, &before, &held, memory);
    }
    if lacking < SMALL * total {
        // What throttles withhold leaves room, too, which a rise of all alike may fill.
        let room = FULL * memory.full / state.mean.max(f64::MIN_POSITIVE);
        let most = if state.wanted {
            room.clamp(RISE_FULL, RISE)
        } else {
            RISE
        };
        rise_together(records, &held, total, most);
    }
    parts
}

/// Releases throttles while the law does not act.
fn release(inputs: &[Input], records: &mut [Record], response: &Response) {
    for (input, record) in inputs.iter().zip(records) {
        if input.max.is_finite() {
            correct(input, record, response, input.max, 0.0);
        } else {
            record.release();
        }
    }
}

/// Learns how strongly traffic followed the last moves.
fn learn(inputs: &[Input], records: &mut [Record], response: &mut Response, total: f64) {
    let mut changes = Vec::new();
    for (input, record) in inputs.iter().zip(records) {
        let change = record.past.add(record.fraction, input.bytes_per_s);
        changes.extend(change.filter(|_| input.bytes_per_s >= SMALL * total));
    }
    response.learn(&changes);
}

fn bounds(input: &Input, record: &Record) -> Bounds {
    // No level takes more from a group at its floor. The others share the rest.
    let stuck = record.is_throttled() && record.fraction <= input.floor;
    let kept = if stuck { record.mean() } else { 0.0 };
    let moved = input.bytes_per_s.max(record.mean());
    let demand = record.demand.unwrap_or(f64::INFINITY);
    // Noise may have refused its claim, and a minimum holds beside any noise.
    let reserved = input.min.min(RESERVED * moved);
    Bounds {
        weight: input.weight,
        min: input.min.max(kept),
        max: (record.reach * moved)
            .min(demand)
            .max(reserved)
            .min(input.max),
    }
}

/// Moves a fraction towards the part that the group shall get. `lacking`: the part of
/// all traffic that deprived groups lack. Groups that are throttled alike hardly lose
/// traffic to them, so the correction must be larger then.
fn correct(input: &Input, record: &mut Record, response: &Response, part: f64, lacking: f64) {
    // A single reading shows which level its slots had, too.
    let moved = (input.bytes_per_s + record.mean()) / 2.0;
    let ratio = if moved > 0.0 {
        part / moved
    } else {
        f64::INFINITY
    };
    // What noise hides may be all that a light group lacks.
    let rich = if lacking > 0.0 { 0.0 } else { RICH };
    if record.is_throttled() || ratio < 1.0 - rich {
        let squeeze = if ratio < 1.0 {
            1.0 - lacking.min(SQUEEZE)
        } else {
            1.0
        };
        let gain = record.adapt_gain(ratio.ln().clamp(-1.0, 1.0), GAIN / response.part());
        let change = (ratio.powf(gain) * squeeze).clamp(1.0 / STEP, STEP);
        record.fraction = (record.fraction * change).clamp(input.floor.min(1.0), 1.0);
    }
}

/// What a group lacks, as a part of its traffic, of the part that it shall get. A
/// throttled group lacks nothing, because its throttle is opened.
fn lack(input: &Input, record: &Record, part: f64, total: f64) -> f64 {
    let mean = record.mean();
    let small = mean < SMALL * total && mean >= input.min;
    if record.is_throttled() || record.content || small || mean <= 0.0 {
        return 0.0;
    }
    part / mean - 1.0
}

/// What deprived groups lack (bytes per second).
fn lacking(inputs: &[Input], parts: &[f64], records: &[Record], total: f64) -> f64 {
    let all = inputs.iter().zip(records).zip(parts);
    all.filter(|&((input, record), &part)| lack(input, record, part, total) > DEPRIVED)
        .map(|((_, record), &part)| part - record.mean())
        .sum()
}

/// While memory is not full, nobody takes what throttles give up. So raises all of them alike where
/// less than `IN_USE` of the capacity would be left, which changes no share among them. `before`:
/// the fractions in the last period. `held`: as in [`rise_together`].
fn keep_in_use(
    inputs: &[Input],
    records: &mut [Record],
    before: &[f64],
    held: &[bool],
    memory: &Memory,
) {
    let (mut fixed, mut raised) = (memory.withheld, 0.0);
    for (((input, record), before), held) in inputs.iter().zip(&*records).zip(before).zip(held) {
        let moves = input.bytes_per_s * record.fraction / before;
        match record.is_throttled() && !held {
            true => raised += moves,
            false => fixed += moves,
        }
    }
    let needed = IN_USE * memory.capacity - fixed;
    if raised <= 0.0 || needed <= raised {
        return;
    }
    let rise = (needed / raised).min(STEP);
    for (record, held) in records.iter_mut().zip(held) {
        if record.is_throttled() && !held {
            record.fraction = (record.fraction * rise).min(1.0);
        }
    }
}

/// If every group that wants more is throttled, raises all fractions alike until one
/// is free. Throttling all alike changes no share. `held`: those that a rule's bound holds back,
/// which stay.
fn rise_together(records: &mut [Record], held: &[bool], total: f64, most: f64) {
    let free = |(record, held): (&Record, &bool)| {
        let wants = !held && record.demand.is_none() && record.mean() >= SMALL * total;
        wants.then_some(record.fraction)
    };
    let highest = records
        .iter()
        .zip(held)
        .filter_map(free)
        .fold(0.0, f64::max);
    if highest <= 0.0 || highest >= 1.0 {
        return;
    }
    let rise = (1.0 / highest).min(most);
    for (record, held) in records.iter_mut().zip(held) {
        if record.is_throttled() && !held {
            record.fraction = (record.fraction * rise).min(1.0);
        }
    }
}

/// Begins and judges claims. A group that is not throttled, claims little and leaves
/// memory with room has all that it wants.
fn test_claims(
    inputs: &[Input],
    parts: &[f64],
    records: &mut [Record],
    noise: &mut Noise,
    memory: &Use,
) {
    let everything: f64 = records.iter().map(Record::mean).sum();
    let noise = noise.observe(everything);
    let claimed: f64 = records.iter().map(|record| record.claims.tested()).sum();
    for ((input, record), &part) in inputs.iter().zip(records).zip(parts) {
        if record.content && claimed > 0.0 && record.claims.tested() <= 0.0 {
            // The room that a test makes for others would tell the same of it.
            record.retest_in_s = record.retest_in_s.max(record.retest_s / 2.0);
        }
        let claims = lack(input, record, part, memory.total) > CLAIM;
        let satisfied = !claims && (!memory.wanted || record.content) && record.demand.is_none();
        if record.is_throttled() || satisfied {
            if satisfied && !record.is_throttled() {
                record.satisfy();
            }
            record.claims.forget();
            continue;
        }
        let own = record.mean();
        let now = Claim {
            own,
            others: everything - own,
            more: part - own,
            has_room: memory.has_room,
        };
        match record.claims.verdict(&now, claimed, claims, noise) {
            Verdict::Refused => {
                record.refused = Some(own);
                record.satisfy();
                continue;
            }
            Verdict::Granted => {
                record.refused = None;
                record.reach = (record.reach * record.reach).min(REACH);
            }
            Verdict::Untested => {}
        }
        record.claims.add(claims.then_some(now));
    }
}
