// SPDX-License-Identifier: GPL-2.0-only
//! The memory controller's DRAM model (gem5-backend/model) behind one function, for comparison with DRAMsim3.

use std::ffi::c_void;

/// Timing in clock cycles, named as in JEDEC's standards.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Cycles {
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

/// LPDDR2-1066 x32 in cycles of 1.875 ns, every time rounded up.
pub const LPDDR2_1066: Cycles = Cycles {
    ck_ps: 1875,
    cl: 8,
    cwl: 8,
    rcd: 8,
    rp: 8,
    ras: 23,
    rfc: 70,
    refi: 2080,
    rrd: 6,
    wtr: 4,
    faw: 27,
    wr: 8,
    rtp: 6,
    burst: 4,
};

/// Bytes of one burst of the x32 device.
pub const BURST_BYTES: u64 = 32;

/// The addresses of a stream of reads.
pub trait Addresses {
    /// Address of the next burst.
    fn next(&mut self) -> u64;
}

unsafe extern "C" {
    fn drfq_model_read_bytes(
        timing: *const u64,
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
    t: &Cycles,
    mut addresses: A,
    outstanding: u32,
    end_ps: u64,
) -> u64 {
    let cycles = [
        1, t.cl, t.cwl, t.rcd, t.rp, t.ras, t.rfc, t.refi, t.rrd, t.wtr, t.faw, t.wr, t.rtp,
        t.burst,
    ];
    let ps = cycles.map(|c| c * t.ck_ps);
    // SAFETY: ps has the fields that shim.cc reads, and addresses outlives the call.
    unsafe {
        drfq_model_read_bytes(
            ps.as_ptr(),
            next::<A>,
            (&raw mut addresses).cast(),
            outstanding,
            end_ps,
        )
    }
}
