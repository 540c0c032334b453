// SPDX-License-Identifier: GPL-2.0-only
//! What a nice value weighs.

use serde::Deserialize;

/// How a scheduler turns a nice value into a weight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weights {
    /// The kernel's table: a step is a factor of 1.25, lower is heavier.
    #[default]
    Kernel,
    /// Equation 4.9 of the thesis: 1 + nice, or 1 / (1 - nice) below 0.
    Thesis,
}

/// `sched_prio_to_weight[]` of kernel/sched/core.c.
const KERNEL: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

impl Weights {
    /// Weight of `nice` (-20 to 19); nice 0 weighs 1.
    pub fn of(self, nice: i32) -> f64 {
        match self {
            Weights::Kernel => {
                let row = (nice + 20).clamp(0, 39) as usize;
                f64::from(KERNEL[row]) / 1024.0
            }
            Weights::Thesis if nice >= 0 => f64::from(1 + nice),
            Weights::Thesis => 1.0 / f64::from(1 - nice),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_weights_fall_with_nice_and_thesis_weights_rise() {
        assert_eq!(Weights::Kernel.of(0), 1.0);
        assert_eq!(Weights::Kernel.of(-5), 3121.0 / 1024.0);
        assert_eq!(Weights::Kernel.of(5), 335.0 / 1024.0);
        assert_eq!(Weights::Thesis.of(2), 3.0);
        assert_eq!(Weights::Thesis.of(-2), 1.0 / 3.0);
        for nice in -20..19 {
            assert!(Weights::Kernel.of(nice) > Weights::Kernel.of(nice + 1));
            assert!(Weights::Thesis.of(nice) < Weights::Thesis.of(nice + 1));
        }
    }
}
