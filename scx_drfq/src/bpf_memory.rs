// SPDX-License-Identifier: GPL-2.0-only
//! Memory that user space shares with the BPF programs.

use std::ptr;

/// Writes a value that BPF programs read at any time.
pub fn set_volatile<T: Copy>(to: &mut T, value: T) {
    // SAFETY: a reference is valid and aligned.
    unsafe { ptr::write_volatile(to, value) };
}

/// Reads a value that BPF programs change at any time.
pub fn volatile<T: Copy>(value: &T) -> T {
    // SAFETY: a reference is valid and aligned.
    unsafe { ptr::read_volatile(value) }
}
