// SPDX-License-Identifier: GPL-2.0-only
//! The test of a claim: a group that lacks much of its part claims it, the others give
//! way, and what becomes of both tells whether the group wants it.

/// A claim is judged by what happened in at least MIN_TEST and at most TEST_PERIODS
/// periods: the least in which the others gave up enough to tell.
const MIN_TEST: usize = 2;
const TEST_PERIODS: usize = 5;

/// A claim succeeds if the group gained this part of its own traffic ...
pub const GAINED_OWN: f64 = 0.02;

/// ... and this part of what the others gave up for it.
const GAINED_FREED: f64 = 0.25;

/// While memory is full, a group's share of what the others gave up must exceed this multiple of the
/// noise. With 4, noise refuses most claims of a light group before the throttles of many hogs have
/// any effect. With more, tests take more from the others, and serve light groups hardly better.
/// Where memory has room, throttles have had their effect already.
const NOISES: f64 = 7.0;

/// A claim of one period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// Mean traffic of the group (bytes per second).
    pub own: f64,
    /// That of the others.
    pub others: f64,
    /// What the group lacked of its part.
    pub more: f64,
    /// Memory was not full.
    pub has_room: bool,
}

/// Whether a claim was justified.
#[derive(Clone, Copy, PartialEq)]
pub enum Verdict {
    /// The group took what others gave up.
    Granted,
    /// It did not, so it has all that it wants.
    Refused,
    /// The others gave up too little to tell it from noise, as throttles at their floor
    /// do, and high levels where contention is the closer bound.
    Untested,
}

/// What a group claimed in the last periods.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Claims {
    /// The oldest first.
    last: [Option<Claim>; TEST_PERIODS],
    /// A claim seemed to fail of which nothing was left.
    doubted: bool,
}

impl Claims {
    /// Ends the test.
    pub fn forget(&mut self) {
        self.last = [None; TEST_PERIODS];
    }

    /// Adds a period; none: nothing was claimed.
    pub fn add(&mut self, claim: Option<Claim>) {
        self.last.rotate_left(1);
        self.last[TEST_PERIODS - 1] = claim;
    }

    /// What was claimed in the last period that may be judged.
    pub fn tested(&self) -> f64 {
        self.last[TEST_PERIODS - MIN_TEST].map_or(0.0, |claim| claim.more)
    }

    /// What became of them. `claimed`: by all groups. `claims`: the group still claims more.
    /// `noise`: of all traffic (bytes per second).
    pub fn verdict(&mut self, now: &Claim, claimed: f64, claims: bool, noise: f64) -> Verdict {
        let old_enough = self.last[..=TEST_PERIODS - MIN_TEST].iter().rev();
        let mut verdicts = old_enough
            .flatten()
            .map(|then| then.judge(now, claimed, noise));
        let tested = verdicts.find(|verdict| *verdict != Verdict::Untested);
        let verdict = tested.unwrap_or_else(|| self.judge_room(now));
        // The others may have given way so fast that nothing is left to claim. One period tells too
        // little then: a group may move much at once.
        let doubted = !claims && verdict == Verdict::Refused && !self.doubted;
        self.doubted = match verdict {
            Verdict::Untested => self.doubted,
            _ => doubted,
        };
        if doubted { Verdict::Untested } else { verdict }
    }

    /// What becomes of a claim for which the others give up nothing more, and which would keep them
    /// where they are. If memory had room during the whole test, and the group took none of it, it
    /// wants none.
    fn judge_room(&self, now: &Claim) -> Verdict {
        let had_room = |then: &Option<Claim>| then.is_some_and(|then| then.has_room);
        match self.last[0] {
            Some(then) if self.last.iter().all(had_room) && !then.has_gained(now) => {
                Verdict::Refused
            }
            _ => Verdict::Untested,
        }
    }
}

impl Claim {
    fn has_gained(&self, now: &Self) -> bool {
        now.own - self.own >= GAINED_OWN * self.own
    }

    /// Judges a claim by what happened until `now`. `claimed`: by all groups then. `noise`: of
    /// all traffic.
    fn judge(&self, now: &Self, claimed: f64, noise: f64) -> Verdict {
        let freed = (self.others - now.others).max(0.0);
        let share = freed * (self.more / claimed.max(self.more));
        let hidden = if now.has_room { 0.0 } else { NOISES * noise };
        let least = (GAINED_FREED * self.more).max(hidden);
        if share < least || GAINED_FREED * share < GAINED_OWN * self.own {
            Verdict::Untested
        } else if !self.has_gained(now) || now.own - self.own < GAINED_FREED * share {
            Verdict::Refused
        } else {
            Verdict::Granted
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_refused_only_after_others_gave_up_more_than_noise() {
        let then = Claim {
            own: 0.29,
            others: 0.71,
            more: 0.045,
            has_room: false,
        };
        for (own, others, expected) in [
            (0.290, 0.705, Verdict::Untested), // next to nothing was given up
            (0.293, 0.690, Verdict::Untested), // a gain that noise could hide
            (0.291, 0.670, Verdict::Refused),
            (0.303, 0.670, Verdict::Granted),
        ] {
            let now = Claim {
                own,
                others,
                ..then
            };
            assert!(then.judge(&now, then.more, 0.0) == expected, "{now:?}");
        }
    }

    #[test]
    fn what_noise_hides_is_not_judged() {
        let then = Claim {
            own: 0.014,
            others: 0.986,
            more: 0.014,
            has_room: false,
        };
        let now = Claim {
            others: 0.98,
            ..then
        };
        for (noise, has_room, expected) in [
            (0.0005, false, Verdict::Refused),
            (0.001, false, Verdict::Untested),
            (0.001, true, Verdict::Refused),
        ] {
            let now = Claim { has_room, ..now };
            assert!(then.judge(&now, then.more, noise) == expected, "{noise}");
        }
    }

    #[test]
    fn a_claim_is_refused_where_memory_had_room_all_the_time() {
        let verdict = |with_room: usize, own: f64| {
            let mut claims = Claims::default();
            for period in 0..=TEST_PERIODS {
                let gained = own * period as f64 / TEST_PERIODS as f64;
                let now = Claim {
                    own: 0.1 + gained,
                    others: 0.75,
                    more: 0.1,
                    has_room: period >= TEST_PERIODS - with_room,
                };
                if period == TEST_PERIODS {
                    return claims.verdict(&now, now.more, true, 0.01);
                }
                claims.add(Some(now));
            }
            Verdict::Untested
        };
        assert!(verdict(TEST_PERIODS, 0.0) == Verdict::Refused);
        assert!(verdict(TEST_PERIODS - 1, 0.0) == Verdict::Untested);
        assert!(verdict(TEST_PERIODS, 0.005) == Verdict::Untested);
    }
}
