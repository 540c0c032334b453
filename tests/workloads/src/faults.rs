// SPDX-License-Identifier: GPL-2.0-only
//! Touches fresh pages, so that the number of page faults is known. Where a
//! page fault stands in for memory traffic this is the memory-heavy task.

use crate::report::Report;
use crate::sleeper::spin_cpu_ns;
use crate::{clock, process, signals};
use anyhow::{Context, Result};

/// When the next burst is due.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// At once.
    Free,
    /// When the thread has used this much CPU time since the last, ns. The ratio
    /// of faults to CPU time is then exact on any machine.
    CpuNs(u64),
    /// When this much real time has passed since the last was due, ns.
    PeriodNs(u64),
}

/// Anonymous memory whose pages are fresh whenever they were dropped.
pub struct Pages {
    base: *mut u8,
    page_bytes: usize,
    count: usize,
    /// Pages touched so far, each a page fault.
    pub touched: u64,
}

impl Pages {
    /// Maps `count` pages, never huge ones.
    pub fn map(count: usize) -> Result<Self> {
        // SAFETY: sysconf has no preconditions.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let bytes = count
            .checked_mul(page_bytes)
            .context("--burst is too large")?;
        // SAFETY: a new private anonymous mapping, at an address of the
        // kernel's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error()).context("cannot map the pages of --burst");
        }
        // A huge page would be one fault for many pages. Kernels without huge
        // pages refuse the advice, which is as good.
        // SAFETY: the range was mapped just now.
        unsafe { libc::madvise(base, bytes, libc::MADV_NOHUGEPAGE) };
        Ok(Self {
            base: base.cast(),
            page_bytes,
            count,
            touched: 0,
        })
    }

    /// Touches every page once, then drops them all.
    pub fn burst(&mut self) {
        for page in 0..self.count {
            // SAFETY: within the mapping; volatile, so that it is not elided.
            unsafe { self.base.add(page * self.page_bytes).write_volatile(1) };
        }
        self.touched += self.count as u64;
        // SAFETY: the range is our mapping; the next touch finds zero pages.
        unsafe {
            libc::madvise(
                self.base.cast(),
                self.count * self.page_bytes,
                libc::MADV_DONTNEED,
            )
        };
    }
}

/// One burst of `pages` at `pace` until told to stop.
pub fn run(report: &mut Report, pages: usize, pace: Pace) -> Result<()> {
    let mut memory = Pages::map(pages)?;
    let before = process::faults();
    let mut due_ns = clock::now_ns();
    while !signals::stopped() {
        paced_burst(&mut memory, pace, &mut due_ns);
        report.rounds += 1;
    }
    report.pages_touched = Some(memory.touched);
    report.faults_counted = Some(process::faults() - before);
    Ok(())
}

/// One burst, and what `pace` wants after it.
pub fn paced_burst(memory: &mut Pages, pace: Pace, due_ns: &mut u64) {
    let start_ns = clock::thread_cpu_ns();
    memory.burst();
    match pace {
        Pace::Free => {}
        Pace::CpuNs(budget_ns) => {
            let used_ns = clock::thread_cpu_ns() - start_ns;
            spin_cpu_ns(budget_ns.saturating_sub(used_ns));
        }
        Pace::PeriodNs(period_ns) => {
            *due_ns += period_ns;
            while !clock::sleep_until(*due_ns) && !signals::stopped() {}
        }
    }
}
