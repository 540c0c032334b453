// SPDX-License-Identifier: GPL-2.0-only
//! Median and spread of a few figures.

/// Median; the mean of the middle two for an even number; NaN for none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// Half the distance between the smallest and the largest.
pub fn half_range(values: &[f64]) -> f64 {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if values.is_empty() {
        f64::NAN
    } else {
        (high - low) / 2.0
    }
}

/// The largest absolute value; 0 for none.
pub fn worst(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |worst, v| worst.max(v.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_half_range_and_worst_of_small_sets() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
        assert!(median(&[]).is_nan());
        assert_eq!(half_range(&[1.0, 5.0, 2.0]), 2.0);
        assert_eq!(worst(&[1.0, -3.0]), 3.0);
    }
}
