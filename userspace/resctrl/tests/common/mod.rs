// SPDX-License-Identifier: GPL-2.0-only
//! The modelled kernel, and our groups on it.

use drfq_resctrl::{
    fake::{FakeKernel, Shape},
    groups::Groups,
};

pub fn kernel() -> FakeKernel {
    FakeKernel::new(Shape::default())
}

pub fn open(kernel: &FakeKernel) -> Groups<&FakeKernel> {
    Groups::open(kernel).unwrap()
}
