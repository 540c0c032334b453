// SPDX-License-Identifier: GPL-2.0-only
//! Physical addresses of this process' memory (Linux,
//! Documentation/admin-guide/mm/pagemap.rst).

use std::{fs::File, io, os::unix::fs::FileExt, ptr};

/// Set in an entry if the page is in memory.
const PRESENT: u64 = 1 << 63;

/// Bits of an entry that hold the number of the page frame.
const FRAME: u64 = (1 << 55) - 1;

/// Bytes of a page, which is what the controller's mailbox consists of, too.
pub const PAGE_BYTES: usize = 4096;

/// The file `/proc/self/pagemap`. It shows addresses if it was opened with
/// CAP_SYS_ADMIN, so it is opened before privileges are dropped.
#[derive(Debug)]
pub struct Pagemap(File);

impl Pagemap {
    /// Opens the file.
    ///
    /// # Errors
    /// The kernel has no such file.
    pub fn open() -> io::Result<Self> {
        File::open("/proc/self/pagemap").map(Self)
    }

    /// The physical addresses of the pages of some memory, which must begin at a
    /// page. It must be memory that the kernel does not move.
    ///
    /// # Errors
    /// Why they are not known, in one clause.
    pub fn physical<T>(&self, memory: &[T]) -> Result<Vec<u64>, String> {
        let begin = memory.as_ptr() as usize;
        // SAFETY: it does not touch memory.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        if usize::try_from(page_bytes) != Ok(PAGE_BYTES) || !begin.is_multiple_of(PAGE_BYTES) {
            return Err(format!("pages have {page_bytes} bytes here"));
        }
        // Newer kernels map a page of a BPF map only when it is touched.
        for page in memory_bytes(memory).step_by(PAGE_BYTES) {
            // SAFETY: the byte lies in `memory`, which is borrowed.
            unsafe { ptr::read_volatile(page) };
        }
        let pages = size_of_val(memory).div_ceil(PAGE_BYTES);
        let mut entries = vec![0; 8 * pages];
        self.0
            .read_exact_at(&mut entries, (begin / PAGE_BYTES * 8) as u64)
            .map_err(|error| format!("pagemap cannot be read: {error}"))?;
        let entries = entries.chunks_exact(8);
        let words = entries.map(|entry| u64::from_ne_bytes(entry.try_into().unwrap_or_default()));
        words.map(address).collect()
    }
}

/// The addresses of the bytes of some memory.
fn memory_bytes<T>(memory: &[T]) -> impl Iterator<Item = *const u8> {
    let begin = memory.as_ptr().cast::<u8>();
    (0..size_of_val(memory)).map(move |offset| begin.wrapping_add(offset))
}

/// The physical address in an entry.
fn address(entry: u64) -> Result<u64, String> {
    match (entry & PRESENT, entry & FRAME) {
        (0, _) => Err("a page is not in memory".into()),
        (_, 0) => Err("this process lacks CAP_SYS_ADMIN".into()),
        (_, frame) => Ok(frame * PAGE_BYTES as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_holds_an_address_only_of_a_present_page_for_the_privileged() {
        assert_eq!(address(PRESENT | 0x12345), Ok(0x1234_5000));
        // Soft-dirty and exclusive are bits 55 and 56.
        assert_eq!(address(PRESENT | 3 << 55 | 1), Ok(0x1000));
        assert!(address(0x12345).unwrap_err().contains("not in memory"));
        assert!(address(PRESENT).unwrap_err().contains("CAP_SYS_ADMIN"));
    }

    #[test]
    fn memory_that_does_not_begin_at_a_page_is_refused() {
        let memory = vec![0u8; 3 * PAGE_BYTES];
        let aligned = memory.as_ptr().align_offset(PAGE_BYTES);
        let pagemap = Pagemap::open().unwrap();
        assert!(pagemap.physical(&memory[aligned + 8..]).is_err());
        // The answer depends on privileges, but every page is touched first.
        match pagemap.physical(&memory[aligned..aligned + PAGE_BYTES + 1]) {
            Ok(pages) => assert_eq!(pages.len(), 2),
            Err(reason) => assert!(reason.contains("CAP_SYS_ADMIN"), "{reason}"),
        }
    }
}
