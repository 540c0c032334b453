// SPDX-License-Identifier: GPL-2.0-only
//! A flow around an obstacle by the lattice Boltzmann method, with 19 velocities in three
//! dimensions: a stand-in for 470.lbm of SPEC CPU2006 with its data layout and order of access.
//!
//! A step reads the cells of one lattice in order, lets each relax towards its equilibrium, and
//! pushes the results to the neighbours in the other lattice. Each plane of that lattice is
//! written three times: when the step reads the plane below, the same plane and the plane above.
//! If four planes exceed the cache, memory sees one read of the first lattice and three reads and
//! three writes of the second: the share of writes is 3/7.

use crate::report::Report;
use crate::signals;
use crate::steps::Steps;
use anyhow::Result;
use std::array;
use std::f64::consts::PI;

/// Velocities in cells per step along x, y and z: rest, then pairs of opposite ones.
#[rustfmt::skip]
const VELOCITIES: [[isize; 3]; 19] = [
    [0, 0, 0],
    [1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1],
    [1, 1, 0], [-1, -1, 0], [1, -1, 0], [-1, 1, 0],
    [1, 0, 1], [-1, 0, -1], [1, 0, -1], [-1, 0, 1],
    [0, 1, 1], [0, -1, -1], [0, 1, -1], [0, -1, 1],
];
/// Weights of the equilibrium: at rest, along an axis, along a diagonal.
const WEIGHTS: [f64; 3] = [1.0 / 3.0, 1.0 / 18.0, 1.0 / 36.0];
/// Part of the difference from the equilibrium that a collision removes. The viscosity is
/// `(1 / RELAXATION - 1 / 2) / 3`.
const RELAXATION: f64 = 1.25;
/// Speed of the flow at the start, cells per step.
const SPEED: f64 = 0.05;
/// Index of a cell's mark: not 0 in an obstacle.
const SOLID: usize = 19;

/// Densities of the 19 velocities, and the mark.
type Cell = [f64; 20];
/// Densities of the 19 velocities.
type Densities = [f64; 19];

/// A box with periodic boundaries.
struct Lattice {
    side: usize,
    planes: usize,
    from: Vec<Cell>,
    to: Vec<Cell>,
}

/// Simulates a box of `planes` times `side` times `side` cells.
pub fn run(report: &mut Report, side: usize, planes: usize, steps: Steps) -> Result<()> {
    let radius = side as f64 / 8.0;
    let mut lattice = Lattice::new(side, planes, radius);
    steps.run(report, || lattice.step())
}

impl Lattice {
    /// A shear wave: the velocity along y varies with x. `radius`: of a solid cylinder along z.
    fn new(side: usize, planes: usize, radius: f64) -> Self {
        let cell = |at: usize| {
            let (x, y) = (at % side, at / side % side);
            let phase = 2.0 * PI * x as f64 / side as f64;
            let mut cell = [0.0; 20];
            cell[..SOLID].copy_from_slice(&equilibrium(1.0, [0.0, SPEED * phase.sin(), 0.0]));
            let centre = side as f64 / 2.0;
            let solid = (x as f64 - centre).hypot(y as f64 - centre) < radius;
            cell[SOLID] = f64::from(u8::from(solid));
            cell
        };
        let cells = side * side * planes;
        Self {
            side,
            planes,
            from: (0..cells).map(cell).collect(),
            to: (0..cells).map(cell).collect(),
        }
    }

    /// Returns false if told to stop before the end.
    fn step(&mut self) -> bool {
        for z in 0..self.planes {
            if signals::stopped() {
                return false;
            }
            for y in 0..self.side {
                self.push_row(y, z);
            }
        }
        std::mem::swap(&mut self.from, &mut self.to);
        true
    }

    /// Moves the densities of a row to the neighbours.
    fn push_row(&mut self, y: usize, z: usize) {
        let (side, planes) = (self.side, self.planes);
        let rows: [usize; 9] = array::from_fn(|at| {
            let y = (y + side + at % 3 - 1) % side;
            let z = (z + planes + at / 3 - 1) % planes;
            (z * side + y) * side
        });
        for (x, cell) in self.from[rows[4]..][..side].iter().enumerate() {
            let before = if x == 0 { side - 1 } else { x - 1 };
            let after = if x + 1 == side { 0 } else { x + 1 };
            let columns = [before, x, after];
            let densities = if cell[SOLID] == 0.0 {
                collide(cell)
            } else {
                reflect(cell)
            };
            // A macro, because the compiler does not unroll a loop of this length.
            macro_rules! push {
                ($($i:literal)*) => { $({
                    let [dx, dy, dz] = VELOCITIES[$i];
                    let row = rows[(3 * dz + dy + 4) as usize];
                    self.to[row + columns[(dx + 1) as usize]][$i] = densities[$i];
                })* };
            }
            push!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18);
        }
    }
}

/// Density and velocity.
#[inline(always)]
fn moments(cell: &Cell) -> (f64, [f64; 3]) {
    let f = cell;
    let density = f[..SOLID].iter().sum::<f64>();
    let x = f[1] - f[2] + (f[7] - f[8]) + (f[9] - f[10]) + (f[11] - f[12]) + (f[13] - f[14]);
    let y = f[3] - f[4] + (f[7] - f[8]) - (f[9] - f[10]) + (f[15] - f[16]) + (f[17] - f[18]);
    let z = f[5] - f[6] + (f[11] - f[12]) - (f[13] - f[14]) + (f[15] - f[16]) - (f[17] - f[18]);
    (density, [x / density, y / density, z / density])
}

/// Densities to which a gas of this density and velocity relaxes.
#[inline(always)]
fn equilibrium(density: f64, [x, y, z]: [f64; 3]) -> Densities {
    let rest = 1.0 - 1.5 * (x * x + y * y + z * z);
    let mut result = [WEIGHTS[0] * density * rest; 19];
    let along = [x, y, z, x + y, x - y, x + z, x - z, y + z, y - z];
    for (pair, speed) in along.into_iter().enumerate() {
        let weight = density * WEIGHTS[if pair < 3 { 1 } else { 2 }];
        let even = weight * (rest + 4.5 * speed * speed);
        let odd = weight * 3.0 * speed;
        result[2 * pair + 1] = even + odd;
        result[2 * pair + 2] = even - odd;
    }
    result
}

/// The collision of Bhatnagar, Gross and Krook.
#[inline(always)]
fn collide(cell: &Cell) -> Densities {
    let (density, velocity) = moments(cell);
    let mut result = equilibrium(density, velocity);
    for (new, old) in result.iter_mut().zip(cell) {
        *new = RELAXATION * *new + (1.0 - RELAXATION) * old;
    }
    result
}

/// Sends all densities back to where they came from.
#[inline(always)]
fn reflect(cell: &Cell) -> Densities {
    array::from_fn(|i| cell[if i == 0 { 0 } else { ((i - 1) ^ 1) + 1 }])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mass and momentum.
    fn totals(lattice: &Lattice) -> [f64; 4] {
        lattice.from.iter().fold([0.0; 4], |sum, cell| {
            let (density, [x, y, z]) = moments(cell);
            let cell = [density, density * x, density * y, density * z];
            array::from_fn(|i| sum[i] + cell[i])
        })
    }

    #[test]
    fn opposite_velocities_are_reflections() {
        let at: Cell = array::from_fn(|i| i as f64);
        for (i, opposite) in reflect(&at).into_iter().enumerate() {
            assert_eq!(VELOCITIES[i], VELOCITIES[opposite as usize].map(|d| -d));
        }
    }

    #[test]
    fn mass_is_conserved_and_so_is_momentum_without_an_obstacle() {
        for radius in [0.0, 3.0] {
            let mut lattice = Lattice::new(12, 4, radius);
            // Differs along each axis, so that all velocities matter.
            lattice.from.iter_mut().enumerate().for_each(|(at, cell)| {
                let shift = (at % 7) as f64 * 0.01;
                let velocity = [shift, 0.02, shift - 0.04];
                cell[..SOLID].copy_from_slice(&equilibrium(1.0 + shift, velocity));
            });
            let before = totals(&lattice);
            assert!((0..50).all(|_| lattice.step()));
            let after = totals(&lattice);
            let conserved = |i: usize| (after[i] - before[i]).abs() < 1e-10 * before[0];
            assert!(conserved(0), "{before:?} {after:?}");
            assert_eq!((1..4).all(conserved), radius == 0.0);
        }
    }

    #[test]
    fn a_shear_wave_decays_by_the_viscosity() {
        let (side, steps) = (32, 200);
        let mut lattice = Lattice::new(side, 3, 0.0);
        let speed = |lattice: &Lattice| moments(&lattice.from[side / 4]).1[1];
        let before = speed(&lattice);
        assert!((0..steps).all(|_| lattice.step()));
        let decay = -(speed(&lattice) / before).ln() / f64::from(steps);
        let viscosity = decay / (2.0 * PI / side as f64).powi(2);
        let expected = (1.0 / RELAXATION - 0.5) / 3.0;
        assert!((viscosity / expected - 1.0).abs() < 0.02, "{viscosity}");
    }
}
