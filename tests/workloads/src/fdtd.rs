// SPDX-License-Identifier: GPL-2.0-only
//! Electromagnetic waves in a box with metal walls by Yee's scheme in three dimensions: a
//! stand-in for 459.GemsFDTD of SPEC CPU2006.
//!
//! A cold plasma without collisions fills the box. Its current takes the place of the auxiliary
//! fields in the absorbing layers of 459.GemsFDTD. If the fields exceed the cache, a step reads
//! 15 words per node and writes 9: the share of writes is 3/8.
//!
//! Lengths are in cells, and the speed of light is 1.

use crate::report::Report;
use crate::signals;
use crate::steps::Steps;
use anyhow::Result;
use std::array;
use std::f64::consts::PI;
use std::hint::black_box;
use std::ops::Range;

/// Length of a step. The scheme is stable below 1/sqrt(3).
const STEP: f64 = 0.5;
/// Square of the plasma's frequency.
const PLASMA: f64 = 0.01;

/// Three components along x, y and z, with one value per node.
type Field = [Vec<f64>; 3];

/// The fields in a box. A component of the electric field and of the current lies half a cell
/// after its node along its own axis; one of the magnetic field does so along both others.
struct Fields {
    /// Nodes per edge.
    side: usize,
    plasma: f64,
    electric: Field,
    magnetic: Field,
    current: Field,
}

/// Simulates a box with `side` nodes per edge.
pub fn run(report: &mut Report, side: usize, steps: Steps) -> Result<()> {
    let mut fields = Fields::new(side, PLASMA);
    steps.run(report, || fields.step())
}

impl Fields {
    /// A standing wave along each plane of two axes: the electric field is perpendicular to it.
    fn new(side: usize, plasma: f64) -> Self {
        let wave = |at: usize| (PI * at as f64 / (side - 1) as f64).sin();
        let wave: Vec<f64> = (0..side).map(wave).collect();
        let nodes = 0..side.pow(3);
        let electric = array::from_fn(|component| {
            let value = |node: usize| {
                let at = [node % side, node / side % side, node / side / side];
                let used = at[component] + 1 < side;
                let amplitude = wave[at[(component + 1) % 3]] * wave[at[(component + 2) % 3]];
                if used { amplitude } else { 0.0 }
            };
            nodes.clone().map(value).collect()
        });
        // Written, not only reserved: the pages exist before the first step.
        let zero = || array::from_fn(|_| nodes.clone().map(|_| black_box(0.0)).collect());
        Self {
            side,
            plasma,
            electric,
            magnetic: zero(),
            current: zero(),
        }
    }

    /// Returns false if told to stop before the end.
    fn step(&mut self) -> bool {
        let side = self.side;
        for sweep in [Self::electric_row, Self::magnetic_row] {
            for z in 0..side {
                if signals::stopped() {
                    return false;
                }
                for y in 0..side {
                    (0..3).for_each(|component| sweep(self, component, y, z));
                }
            }
        }
        true
    }

    /// Advances a component of the electric field and the current. Along a wall it stays zero.
    fn electric_row(&mut self, component: usize, y: usize, z: usize) {
        let side = self.side;
        let range = |axis: usize| usize::from(axis != component)..side - 1;
        let Some(row) = row(side, range, y, z) else {
            return;
        };
        let differences = differences(&self.magnetic, side, component, row.clone(), 0);
        let electric = &mut self.electric[component][row.clone()];
        let current = &mut self.current[component][row];
        for (i, (electric, current)) in electric.iter_mut().zip(current).enumerate() {
            *current += STEP * self.plasma * *electric;
            *electric += STEP * (curl(&differences, i) - *current);
        }
    }

    /// Advances a component of the magnetic field. On a wall it stays zero.
    fn magnetic_row(&mut self, component: usize, y: usize, z: usize) {
        let side = self.side;
        let range = |axis: usize| usize::from(axis == component)..side - 1;
        let Some(row) = row(side, range, y, z) else {
            return;
        };
        let differences = differences(&self.electric, side, component, row.clone(), 1);
        let magnetic = &mut self.magnetic[component][row];
        for (i, magnetic) in magnetic.iter_mut().enumerate() {
            *magnetic -= STEP * curl(&differences, i);
        }
    }
}

/// Indices of the nodes in a row that lie in the range of each axis.
fn row(
    side: usize,
    range: impl Fn(usize) -> Range<usize>,
    y: usize,
    z: usize,
) -> Option<Range<usize>> {
    let start = (z * side + y) * side;
    let Range { start: first, end } = range(0);
    (range(1).contains(&y) && range(2).contains(&z)).then_some(start + first..start + end)
}

/// The rows whose differences are a component of the field's curl. `after`: 1 for differences to
/// the next node, 0 for those from the one before.
fn differences(
    field: &Field,
    side: usize,
    component: usize,
    row: Range<usize>,
    after: usize,
) -> [&[f64]; 4] {
    let strides = [1, side, side * side];
    let (second, third) = ((component + 1) % 3, (component + 2) % 3);
    let rows = |component: usize, axis: usize| {
        let upper = row.start + after * strides[axis];
        let values = &field[component];
        [
            &values[upper..][..row.len()],
            &values[upper - strides[axis]..][..row.len()],
        ]
    };
    let [a, b] = rows(third, second);
    let [c, d] = rows(second, third);
    [a, b, c, d]
}

#[inline(always)]
fn curl(differences: &[&[f64]; 4], i: usize) -> f64 {
    let [a, b, c, d] = differences.map(|row| row[i]);
    (a - b) - (c - d)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIDE: usize = 21;

    fn energy(fields: &Fields) -> f64 {
        let sum = |field: &Field| field.iter().flatten().map(|v| v * v).sum::<f64>();
        let kinetic = sum(&fields.current) / fields.plasma;
        sum(&fields.electric) + sum(&fields.magnetic) + kinetic
    }

    /// Largest divergence of the magnetic field in any cell.
    fn divergence(fields: &Fields) -> f64 {
        let strides = [1, SIDE, SIDE * SIDE];
        let cells =
            (0..SIDE.pow(3)).filter(|node| strides.iter().all(|s| node / s % SIDE + 1 < SIDE));
        let of_cell = |node: usize| {
            let along = |axis: usize| {
                let component = &fields.magnetic[axis];
                component[node + strides[axis]] - component[node]
            };
            (0..3).map(along).sum::<f64>().abs()
        };
        cells.map(of_cell).fold(0.0, f64::max)
    }

    #[test]
    fn standing_waves_have_the_frequency_of_the_box_and_the_plasma() {
        for plasma in [0.0, 0.05] {
            let mut fields = Fields::new(SIDE, plasma);
            let wave_number = PI / (SIDE - 1) as f64;
            let expected = (plasma + 2.0 * wave_number.powi(2)).sqrt();
            for component in 0..3 {
                let mut next = || {
                    assert!(fields.step());
                    fields.electric[component][(SIDE * SIDE + SIDE + 1) * (SIDE / 2)]
                };
                // Of a harmonic wave, a + c = 2 b cos(frequency * STEP).
                let [a, b, c] = [next(), next(), next()];
                let frequency = ((a + c) / (2.0 * b)).acos() / STEP;
                assert!(
                    (frequency / expected - 1.0).abs() < 0.01,
                    "{frequency} {expected}"
                );
            }
        }
    }

    #[test]
    fn energy_stays_and_the_magnetic_field_has_no_sources() {
        let mut fields = Fields::new(SIDE, PLASMA);
        let before = energy(&fields);
        for _ in 0..500 {
            assert!(fields.step());
            assert!((energy(&fields) / before - 1.0).abs() < 0.1);
        }
        assert!(fields.magnetic.iter().flatten().any(|v| v.abs() > 0.1));
        assert!(divergence(&fields) < 1e-12, "{}", divergence(&fields));
    }
}
