// SPDX-License-Identifier: GPL-2.0-only
//! A controller whose registers are mapped: a PCI resource file of sysfs or a
//! UIO device.

use std::{
    fs::OpenOptions,
    io::{self, ErrorKind},
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    path::{Path, PathBuf},
    ptr,
    time::Instant,
};

use crate::{
    interface::{limits, mailbox, offset},
    registers::{Access, Fault, Op, PIDS_MAX, Registers, pid_core, vtime_core, vtime_pid},
};

/// Bytes that the registers occupy.
const BYTES: usize = limits::BYTES as usize;

/// The same with the mailbox's registers, which lie behind the others.
const BYTES_WITH_MAILBOX: usize = (mailbox::ADDRESS + mailbox::PAGE_BYTES) as usize;

/// Cores whose labels fit one page.
const CORES_PER_PAGE: u64 = mailbox::PAGE_BYTES / mailbox::LABEL_BYTES;

/// Mapped registers.
pub struct Mmio {
    base: *mut u64,
    pids: u64,
    cores: u64,
    /// All registers, those of the mailbox included; null: not mapped.
    mailbox: *mut u64,
    path: PathBuf,
    /// The controller has no clock that can be read, so its time is this host's.
    since: Instant,
}

// SAFETY: the mapping belongs to the process, not to a thread.
unsafe impl Send for Mmio {}

impl Mmio {
    /// Maps the registers. `identify` checks what they are.
    ///
    /// # Errors
    /// The file cannot be mapped.
    pub fn map(path: &Path) -> Result<Self, Fault> {
        let base = map_shared(path, BYTES)?;
        let mut mmio = Self {
            base,
            pids: 0,
            cores: 0,
            mailbox: ptr::null_mut(),
            path: path.to_owned(),
            since: Instant::now(),
        };
        // Never more than the map has room for, whatever the registers hold.
        mmio.pids = mmio.load(offset::PIDS).min(PIDS_MAX.into());
        mmio.cores = mmio.load(offset::CORES).min(limits::CORES_MAX);
        Ok(mmio)
    }

    fn load(&self, offset: u64) -> u64 {
        // SAFETY: within the mapping, and aligned; see `address`.
        u64::from_le(unsafe { ptr::read_volatile(self.base.add(offset as usize / 8)) })
    }

    fn store(&self, offset: u64, value: u64) {
        // SAFETY: as for `load`.
        unsafe { ptr::write_volatile(self.base.add(offset as usize / 8), value.to_le()) };
    }

    /// The offset that an access touches; none if there is no such register.
    fn address(&self, access: &Access) -> Option<u64> {
        let within = |base: u64, n: u64| (base..base + 8 * n).contains(&access.offset);
        let offset = access.offset;
        let traffic = within(offset::TRAFFIC, self.pids);
        let written = within(vtime_pid(1), self.pids.saturating_sub(1))
            || within(vtime_core(0), self.cores)
            || within(pid_core(0), self.cores);
        let read = traffic
            || written
            || within(0, 4)
            || within(offset::TRAFFIC_PEEK, self.pids)
            || within(vtime_pid(0), self.pids);
        match access.op {
            _ if !offset.is_multiple_of(8) => None,
            Op::Write => written.then_some(offset),
            Op::Read => read.then_some(offset),
            Op::Peek if traffic => Some(offset - offset::TRAFFIC + offset::TRAFFIC_PEEK),
            Op::Peek => read.then_some(offset),
        }
    }
}

impl Drop for Mmio {
    fn drop(&mut self) {
        // SAFETY: mapped by `map_shared` with this length, and used no more.
        unsafe { libc::munmap(self.base.cast(), BYTES) };
        if !self.mailbox.is_null() {
            // SAFETY: as above.
            unsafe { libc::munmap(self.mailbox.cast(), BYTES_WITH_MAILBOX) };
        }
    }
}

/// What a register holds. A bus gives all ones where nothing answers, as where the function was
/// reset or its memory space disabled.
fn answer(value: u64) -> Result<u64, Fault> {
    match value {
        u64::MAX => Err(Fault::Gone("nothing answers at its addresses".into())),
        value => Ok(value),
    }
}

impl Registers for Mmio {
    /// Returns this host's time since the registers were mapped.
    fn batch(&mut self, accesses: &mut [Access]) -> Result<u64, Fault> {
        for access in accesses {
            let Some(address) = self.address(access) else {
                let offset = access.offset;
                return Err(Fault::Refused(format!(
                    "access to register {offset:#x}: no such register"
                )));
            };
            match access.op {
                Op::Write => self.store(address, access.value),
                Op::Read | Op::Peek => access.value = answer(self.load(address))?,
            }
            access.done = true;
        }
        Ok(self.since.elapsed().as_nanos() as u64 * 1000)
    }

    fn set_mailbox(&mut self, pages: &[u64]) -> Result<bool, Fault> {
        if self.load(mailbox::FEATURES) >> mailbox::FEATURE_BIT & 1 == 0 {
            return Ok(false);
        }
        if self.mailbox.is_null() {
            self.mailbox = map_shared(&self.path, BYTES_WITH_MAILBOX)?;
        }
        let needed = self.cores.div_ceil(CORES_PER_PAGE).min(mailbox::PAGES);
        for n in 0..needed as usize {
            let page = pages.get(n).copied().unwrap_or(0);
            // SAFETY: `mailbox::PAGES` registers lie at the mapping's end, aligned.
            let kept = unsafe {
                let register = self.mailbox.add(mailbox::ADDRESS as usize / 8 + n);
                ptr::write_volatile(register, page.to_le());
                u64::from_le(ptr::read_volatile(register))
            };
            if kept != page {
                return Err(Fault::Refused(format!(
                    "page {page:#x} as its mailbox, and kept {kept:#x}"
                )));
            }
        }
        Ok(true)
    }
}

/// Maps the first bytes of the device's file. Another offset would select another mapping of a UIO
/// device (Documentation/driver-api/uio-howto.rst).
fn map_shared(path: &Path, bytes: usize) -> Result<*mut u64, Fault> {
    let gone = |error: io::Error| Fault::Gone(explain(&error, path, bytes));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_SYNC | libc::O_CLOEXEC)
        .open(path)
        .map_err(gone)?;
    let metadata = file.metadata().map_err(gone)?;
    if metadata.is_file() && metadata.len() < bytes as u64 {
        // A mapping beyond the end of a file faults only when it is touched.
        return Err(Fault::Gone(format!(
            "{} has {} bytes, but the registers take {bytes}; name the file of the controller's \
             registers",
            path.display(),
            metadata.len()
        )));
    }
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    // SAFETY: a new mapping at an address that the kernel chooses.
    let base = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, file.as_raw_fd(), 0) };
    if base == libc::MAP_FAILED {
        return Err(gone(io::Error::last_os_error()));
    }
    Ok(base.cast())
}

/// Why the registers cannot be mapped, and what to do about it.
fn explain(error: &io::Error, path: &Path, bytes: usize) -> String {
    let path = path.display();
    match (error.kind(), error.raw_os_error()) {
        (ErrorKind::NotFound, _) => format!("{path} does not exist; check the path after mmio:"),
        (_, Some(libc::EPERM)) => {
            format!("not permitted to map {path}; a locked-down kernel refuses this even to root")
        }
        (ErrorKind::PermissionDenied, _) => {
            format!("not permitted to open {path}; run scx_drfq as the user that owns it")
        }
        (_, Some(libc::EINVAL | libc::ENODEV)) => {
            format!(
                "{path} cannot be mapped as {bytes} bytes of registers; name a PCI resource file \
                 or a UIO device"
            )
        }
        _ => format!("cannot map {path}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        interface::identity,
        registers::{identify, traffic},
    };

    /// A file that stands for registers; no controller counts traffic in it.
    fn pretended(pids: u64, cores: u64) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(BYTES as u64).unwrap();
        let mmio = Mmio::map(file.path()).unwrap();
        mmio.store(offset::ID, identity::ID);
        mmio.store(offset::VERSION, identity::VERSION);
        mmio.store(offset::PIDS, pids);
        mmio.store(offset::CORES, cores);
        file
    }

    #[test]
    fn mapped_registers_are_read_and_written() {
        let file = pretended(8192, 4);
        let mut mmio = Mmio::map(file.path()).unwrap();
        let size = identify(&mut mmio).unwrap();
        assert_eq!((size.pids, size.cores), (8192, 4));
        mmio.store(traffic(5), 77);
        mmio.store(offset::TRAFFIC_PEEK + 40, 78);
        mmio.write(pid_core(3), 5).unwrap();
        mmio.write(vtime_pid(8191), 9).unwrap();
        assert_eq!(
            (mmio.read(traffic(5)), mmio.peek(traffic(5))),
            (Ok(77), Ok(78))
        );
        let other = Mmio::map(file.path()).unwrap();
        assert_eq!(
            (other.load(pid_core(3)), other.load(vtime_pid(8191))),
            (5, 9)
        );
    }

    #[test]
    fn a_device_gets_mailbox_pages_only_if_it_says_that_it_has_a_mailbox() {
        // 100 cores need two pages.
        let file = pretended(8192, 100);
        let mut mmio = Mmio::map(file.path()).unwrap();
        assert_eq!(mmio.set_mailbox(&[0x1000, 0x7000]), Ok(false));
        mmio.store(mailbox::FEATURES, 1 << mailbox::FEATURE_BIT);
        let short = mmio.set_mailbox(&[0x1000]).unwrap_err().to_string();
        assert!(short.contains("the registers take 331776"), "{short}");

        file.as_file().set_len(0x80000).unwrap();
        assert_eq!(mmio.set_mailbox(&[0x1000, 0x7000, 0x9000]), Ok(true));
        let addresses = |file: &tempfile::NamedTempFile| {
            let bytes = std::fs::read(file.path()).unwrap();
            let words = bytes[mailbox::ADDRESS as usize..].chunks_exact(8).take(3);
            let words = words.map(|word| u64::from_le_bytes(word.try_into().unwrap()));
            words.collect::<Vec<_>>()
        };
        assert_eq!(addresses(&file), [0x1000, 0x7000, 0]);
        assert_eq!(mmio.set_mailbox(&[]), Ok(true));
        assert_eq!(addresses(&file), [0, 0, 0]);
    }

    #[test]
    fn an_access_outside_the_map_is_refused() {
        let file = pretended(8192, 4);
        let mut mmio = Mmio::map(file.path()).unwrap();
        for bad in [
            Access::read(4),
            Access::read(0x20),
            Access::read(BYTES as u64),
            Access::read(u64::MAX - 7),
            Access::peek(vtime_core(4)),
            Access::write(offset::ID, 1),
            Access::write(traffic(1), 1),
            Access::write(vtime_pid(0), 1),
            Access::write(pid_core(4), 1),
        ] {
            assert!(matches!(mmio.one(bad), Err(Fault::Refused(_))), "{bad:?}");
        }
        // Registers that claim more ids and cores than the map has room for.
        let file = pretended(u64::MAX - 1, u64::MAX - 1);
        let mut mmio = Mmio::map(file.path()).unwrap();
        assert!(matches!(identify(&mut mmio), Err(Fault::Protocol(_))));
        assert!(mmio.read(BYTES as u64).is_err());
    }

    #[test]
    fn a_function_that_stopped_answering_is_gone() {
        let file = pretended(8192, 4);
        let mut mmio = Mmio::map(file.path()).unwrap();
        mmio.store(offset::TRAFFIC_PEEK + 40, u64::MAX);
        assert!(matches!(mmio.peek(traffic(5)), Err(Fault::Gone(_))));
    }

    #[test]
    fn a_mapping_that_fails_says_why() {
        let missing = Mmio::map(Path::new("/nonexistent/resource2"))
            .err()
            .unwrap();
        assert_eq!(
            missing.to_string(),
            "/nonexistent/resource2 does not exist; check the path after mmio:"
        );
        let short = tempfile::NamedTempFile::new().unwrap();
        let text = Mmio::map(short.path()).err().unwrap().to_string();
        assert!(text.contains("has 0 bytes"), "{text}");
        let other = tempfile::NamedTempFile::new().unwrap();
        other.as_file().set_len(BYTES as u64).unwrap();
        let fault = identify(&mut Mmio::map(other.path()).unwrap()).unwrap_err();
        let text = fault.to_string();
        assert!(text.contains("id register holds 0x0"), "{text}");
    }
}
