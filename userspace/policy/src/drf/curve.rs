// SPDX-License-Identifier: GPL-2.0-only
//! What the levels of a throttle do, and how a share between two levels is made
//! of both in turn.

/// Two neighbouring levels whose effects differ by less than this part of the full
/// bandwidth are one plateau.
const PLATEAU: f64 = 0.02;

/// A level of the throttle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// What is written to a schemata file.
    pub setting: u32,
    /// The part of its unthrottled bandwidth that a memory-bound task keeps, 0 to 1.
    pub fraction: f64,
}

/// The effective levels of a throttle, ascending. The last one does not throttle.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve(Vec<Level>);

impl Curve {
    /// The levels `min`, `min` + `step`, ... `max`, assumed to be proportional to
    /// `max`. A step of 0 counts as 1.
    pub fn linear(min: u32, step: u32, max: u32) -> Self {
        let settings = (min.max(1)..max).step_by(step.max(1) as usize);
        let points: Vec<_> = settings
            .map(|setting| (setting, f64::from(setting) / f64::from(max)))
            .collect();
        Self::new(&points, max)
    }

    /// The levels that have an effect among measured (setting, fraction) pairs.
    /// `max` is the setting that does not throttle. A plateau becomes its highest
    /// setting. Fractions that are no positive normal numbers are dropped, and so is setting 0, of which
    /// no smaller one is a part.
    pub fn new(points: &[(u32, f64)], max: u32) -> Self {
        let mut points: Vec<_> = points
            .iter()
            .filter(|(setting, fraction)| (1..max).contains(setting) && fraction.is_normal())
            .filter(|(_, fraction)| *fraction > 0.0)
            .copied()
            .collect();
        points.sort_by_key(|&(setting, _)| setting);
        let contradicted = |&(setting, fraction): &(u32, f64)| {
            let lower = points.iter().take_while(|point| point.0 < setting);
            lower.filter(|point| is_more(point.1, fraction)).count() > 1
        };
        // Something else ran beside a measurement that two smaller settings exceed.
        let points: Vec<_> = points.iter().filter(|point| !contradicted(point)).collect();
        let mut levels = vec![Level {
            setting: max,
            fraction: 1.0,
        }];
        // From the top down, a level counts if it does less than all above it.
        for &&(setting, fraction) in points.iter().rev() {
            let above = levels[levels.len() - 1];
            // A setting that was measured twice counts once.
            if is_more(above.fraction, fraction) && setting < above.setting {
                levels.push(Level { setting, fraction });
            }
        }
        levels.reverse();
        Self(levels)
    }

    /// The same levels, and below the lowest one a level for each smaller setting, in proportion
    /// to the lowest one's effect. No hardware has these: something else slows the group down
    /// besides.
    pub fn continued(mut self) -> Self {
        let lowest = self.0[0];
        let fraction = |setting| lowest.fraction * f64::from(setting) / f64::from(lowest.setting);
        let below = (1..lowest.setting).map(|setting| Level {
            setting,
            fraction: fraction(setting),
        });
        self.0.splice(0..0, below);
        self
    }

    /// The levels, ascending.
    pub fn levels(&self) -> &[Level] {
        &self.0
    }

    /// The smallest setting.
    pub fn min_setting(&self) -> u32 {
        self.0[0].setting
    }

    /// The setting that does not throttle.
    pub fn max_setting(&self) -> u32 {
        self.0[self.0.len() - 1].setting
    }

    /// The smallest fraction.
    pub fn floor(&self) -> f64 {
        self.0[0].fraction
    }
}

/// The level for the next slot, so that the mean over slots becomes `fraction`.
/// `error` is what earlier slots of this throttle owe; it is updated.
pub fn dither(levels: &[Level], fraction: f64, error: &mut f64) -> Level {
    let above = levels.iter().position(|level| level.fraction >= fraction);
    let above = above.unwrap_or(levels.len() - 1);
    let (low, high) = (levels[above.saturating_sub(1)], levels[above]);
    let gap = high.fraction - low.fraction;
    let wanted = fraction.max(levels[0].fraction) + *error;
    let chosen = if wanted - low.fraction >= gap / 2.0 {
        high
    } else {
        low
    };
    // More than a step is owed only after a jump, which the error must not repay.
    *error = (wanted - chosen.fraction).clamp(-gap / 2.0, gap / 2.0);
    chosen
}

/// Whether a fraction is more than another by what counts as an effect.
fn is_more(fraction: f64, other: f64) -> bool {
    fraction - other >= PLATEAU.min(other / 4.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn settings(curve: &Curve) -> Vec<u32> {
        curve.levels().iter().map(|level| level.setting).collect()
    }

    #[test]
    fn one_disturbed_measurement_costs_one_level() {
        let mut points: Vec<_> = (1..10).map(|n| (10 * n, f64::from(n) / 10.0)).collect();
        points[8].1 = 0.45;
        let curve = Curve::new(&points, 100);
        assert_eq!(curve.levels().len(), 9);
        assert_eq!(curve.min_setting(), 10);
        let curve = Curve::new(&[(10, 0.1), (50, 0.5), (90, 0.05)], 100);
        assert_eq!(curve.min_setting(), 10);
    }

    #[test]
    fn a_setting_of_0_is_no_level() {
        let curve = Curve::new(&[(0, 0.05), (10, 0.1)], 100);
        assert_eq!(curve.min_setting(), 10);
    }

    #[test]
    fn a_linear_curve_has_every_step() {
        let curve = Curve::linear(10, 10, 100);
        assert_eq!(settings(&curve), [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]);
        assert!((curve.floor() - 0.1).abs() < 1e-9);
        assert_eq!(settings(&Curve::linear(0, 0, 3)), [1, 2, 3]);
        assert_eq!(settings(&Curve::linear(100, 10, 100)), [100]);
    }

    #[test]
    fn a_plateau_becomes_one_level() {
        let points = [(10, 0.27), (30, 0.56), (50, 0.85), (60, 1.0), (70, 1.0)];
        assert_eq!(settings(&Curve::new(&points, 100)), [10, 30, 50, 100]);
        // Some processors apply 90 for all levels from 65 to 94.
        let points = [(50, 0.5), (70, 0.9), (80, 0.9), (90, 0.9)];
        assert_eq!(settings(&Curve::new(&points, 100)), [50, 90, 100]);
        assert_eq!(
            settings(&Curve::new(&[(50, 0.5), (50, 0.3)], 100)),
            [50, 100]
        );
        // A measurement that rises where the level falls is noise.
        let points = [(10, 0.5), (20, 0.3)];
        assert_eq!(settings(&Curve::new(&points, 100)), [20, 100]);
    }

    #[test]
    fn a_useless_measurement_leaves_the_level_that_does_not_throttle() {
        for points in [&[][..], &[(10, f64::NAN), (20, 0.0), (30, -1.0)]] {
            assert_eq!(settings(&Curve::new(points, 100)), [100]);
        }
    }

    #[test]
    fn a_curve_continues_in_proportion_below_its_lowest_level() {
        let curve = Curve::new(&[(4, 0.2), (7, 0.5)], 10);
        let continued = curve.clone().continued();
        assert_eq!((curve.min_setting(), continued.min_setting()), (4, 1));
        assert_eq!(settings(&continued), [1, 2, 3, 4, 7, 10]);
        let fractions: Vec<f64> = continued.levels().iter().map(|l| l.fraction).collect();
        assert!((fractions[0] - 0.05).abs() < 1e-9, "{fractions:?}");
        assert!((fractions[2] - 0.15).abs() < 1e-9, "{fractions:?}");
        assert_eq!(continued.levels()[3..], curve.levels()[..]);
        // No setting is left below 1.
        let whole = Curve::linear(1, 1, 3);
        assert_eq!(whole.clone().continued(), whole);
    }

    proptest! {
        #[test]
        fn the_mean_of_the_slots_is_the_fraction(fraction in 0.1..=1.0f64) {
            let curve = Curve::linear(10, 10, 100);
            let mut error = 0.0;
            let slots = (0..200).map(|_| dither(curve.levels(), fraction, &mut error));
            let mean = slots.map(|level| level.fraction).sum::<f64>() / 200.0;
            prop_assert!((mean - fraction).abs() < 0.001, "{}", mean);
        }

        #[test]
        fn a_slot_has_a_level_of_the_curve(
            points in prop::collection::vec((0..200u32, any::<f64>()), 0..30),
            fractions in prop::collection::vec(0.0..=1.0f64, 1..30),
        ) {
            let curve = Curve::new(&points, 100);
            let mut error = 0.0;
            for fraction in fractions {
                let level = dither(curve.levels(), fraction, &mut error);
                prop_assert!(curve.levels().contains(&level));
                prop_assert!(error.is_finite());
            }
        }
    }
}
