// SPDX-License-Identifier: GPL-2.0-only
//! The memory controller's DRAM model (gem5-backend/model) behind one function, for comparison with DRAMsim3.

use std::ffi::c_void;

/// The geometry of a device and its timing in clock cycles, named as in JEDEC's standards. shim.cc has the same struct.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Dram {
    pub burst_bytes: u64,
    pub row_bytes: u64,
    pub banks: u64,
    pub rows: u64,
    /// The clock, picoseconds.
    pub ck_ps: u64,
    pub cl: u64,
    pub cwl: u64,
    pub rcd: u64,
    pub rp: u64,
    pub ras: u64,
    pub rfc: u64,
    pub refi: u64,
    pub rrd: u64,
    pub wtr: u64,
    pub faw: u64,
    pub wr: u64,
    pub rtp: u64,
    pub burst: u64,
}

/// LPDDR2-1066 x32 of gem5-backend/interface/dram_presets.toml, every time rounded up to whole cycles.
pub fn lpddr2_1066() -> Dram {
    let mut dram = Dram::default();
    // SAFETY: shim.cc fills a struct with the same fields.
    unsafe { drfq_model_lpddr2(&raw mut dram) };
    dram
}

/// The addresses of a stream of reads.
pub trait Addresses {
    /// Address of the next burst.
    fn next(&mut self) -> u64;
}

unsafe extern "C" {
    fn drfq_model_lpddr2(out: *mut Dram);
    fn drfq_model_read_bytes(
        dram: *const Dram,
        next: unsafe extern "C" fn(*mut c_void) -> u64,
        addresses: *mut c_void,
        outstanding: u32,
        end_ps: u64,
    ) -> u64;
}

unsafe extern "C" fn next<A: Addresses>(addresses: *mut c_void) -> u64 {
    // SAFETY: read_bytes() passes a pointer to an A that nothing else uses during the call.
    unsafe { (*addresses.cast::<A>()).next() }
}

/// Bytes that the model reads until `end_ps` with so many bursts outstanding.
pub fn read_bytes<A: Addresses>(
    dram: &Dram,
    mut addresses: A,
    outstanding: u32,
    end_ps: u64,
) -> u64 {
    // SAFETY: shim.cc reads a struct with the same fields, and addresses outlives the call.
    unsafe {
        drfq_model_read_bytes(
            dram,
            next::<A>,
            (&raw mut addresses).cast(),
            outstanding,
            end_ps,
        )
    }
}
