// SPDX-License-Identifier: GPL-2.0-only
//! Finds a controller among the PCI devices.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    interface::virtual_machine,
    mmio::Mmio,
    registers::{Fault, identify},
    target::Target,
};

/// A PCI device whose base address register holds the controller's registers.
struct Known {
    vendor: u64,
    device: u64,
    bar: u64,
}

/// QEMU's shared memory device (ivshmem), in which vm/hardware shows the
/// registers. The device has other uses too, so the id register decides.
const KNOWN: [Known; 1] = [Known {
    vendor: virtual_machine::PCI_VENDOR,
    device: virtual_machine::PCI_DEVICE,
    bar: virtual_machine::PCI_BAR,
}];

/// The resource file of the only controller. `root` stands for `/`.
///
/// # Errors
/// There is none, or there are several.
pub fn find(root: &Path) -> Result<PathBuf, Fault> {
    let (found, failed) = candidates(root)
        .into_iter()
        .map(|path| (probe(&path), path))
        .partition::<Vec<_>, _>(|(probed, _)| probed.is_ok());
    match (found.as_slice(), failed.as_slice()) {
        ([(_, path)], _) => Ok(path.clone()),
        ([], []) => Err(Fault::Gone(
            "no PCI device here is a memory controller; name one with mmio:PATH or unix:PATH"
                .into(),
        )),
        ([], [(Err(fault), path), ..]) => Err(Fault::Gone(format!("{}: {fault}", path.display()))),
        ([(_, first), (_, second), ..], _) => Err(Fault::Gone(format!(
            "several PCI devices are memory controllers; choose one: mmio:{} or mmio:{}",
            first.display(),
            second.display()
        ))),
        _ => unreachable!("every candidate was found or failed"),
    }
}

/// Where the command register lies in the configuration space (PCI Local Bus 3.0, 6.2.2).
const COMMAND: usize = 4;

/// The bit of the command register with which a function answers at its memory addresses.
const COMMAND_MEMORY: u8 = 1 << 1;

/// Makes the PCI function of a controller answer at its addresses. Without a driver the kernel does
/// not, and not every machine has a firmware that does; the registers would read as all ones.
/// Needs CAP_SYS_ADMIN where it has to. `root` stands for `/`.
///
/// # Errors
/// The kernel does not enable it.
pub fn enable(target: &Target, root: &Path) -> Result<(), Fault> {
    match target {
        Target::Unix(_) => Ok(()),
        Target::Mmio(path) => enable_memory(path),
        Target::MmioAuto => candidates(root)
            .iter()
            .try_for_each(|path| enable_memory(path)),
    }
}

/// Does nothing for a file that is no resource file of a function.
fn enable_memory(resource: &Path) -> Result<(), Fault> {
    if answers(resource) {
        return Ok(());
    }
    let enable = resource.with_file_name("enable");
    let (path, control) = (resource.display(), enable.display());
    fs::write(&enable, "1").map_err(|error| {
        Fault::Gone(format!(
            "{path} does not answer at its addresses, and {control} cannot be written: {error}; \
             run as root, and unbind a driver that holds the device"
        ))
    })?;
    if answers(resource) {
        return Ok(());
    }
    // The kernel only counts those who enable a function that it takes for enabled.
    Err(Fault::Gone(format!(
        "{path} does not answer at its addresses, though the kernel enabled it; if another program \
         silenced it, write 0 to {control} until that holds 0"
    )))
}

/// True, too, for a file that is no resource file of a function.
fn answers(resource: &Path) -> bool {
    let config = fs::read(resource.with_file_name("config")).unwrap_or_default();
    config
        .get(COMMAND)
        .is_none_or(|low| low & COMMAND_MEMORY != 0)
}

fn probe(path: &Path) -> Result<(), Fault> {
    identify(&mut Mmio::map(path)?).map(drop)
}

/// Resource files of the devices that may be a controller, sorted by name.
fn candidates(root: &Path) -> Vec<PathBuf> {
    let devices = fs::read_dir(root.join("sys/bus/pci/devices"));
    let devices = devices.into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = devices
        .filter_map(|device| {
            let device = device.path();
            let number = |name: &str| {
                let text = fs::read_to_string(device.join(name)).ok()?;
                u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
            };
            let (vendor, model) = (number("vendor")?, number("device")?);
            let known = KNOWN
                .iter()
                .find(|known| (vendor, model) == (known.vendor, known.device))?;
            Some(device.join(format!("resource{}", known.bar)))
        })
        .collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::{identity, limits};

    /// A pretended PCI device; `id`: what its id register holds.
    fn device(root: &Path, name: &str, ids: (&str, &str), id: u64) {
        let device = root.join("sys/bus/pci/devices").join(name);
        fs::create_dir_all(&device).unwrap();
        fs::write(device.join("vendor"), ids.0).unwrap();
        fs::write(device.join("device"), ids.1).unwrap();
        let mut registers = vec![0; limits::BYTES as usize];
        for (at, value) in [id, 1, 8192, 4].into_iter().enumerate() {
            registers[8 * at..8 * at + 8].copy_from_slice(&value.to_le_bytes());
        }
        fs::write(device.join("resource2"), registers).unwrap();
    }

    const IVSHMEM: (&str, &str) = ("0x1af4\n", "0x1110\n");

    #[test]
    fn the_only_controller_among_the_devices_is_found() {
        let root = tempfile::tempdir().unwrap();
        let why = |root: &Path| find(root).unwrap_err().to_string();
        assert!(why(root.path()).contains("no PCI device"));
        device(
            root.path(),
            "0000:00:01.0",
            ("0x8086\n", "0x1237\n"),
            identity::ID,
        );
        assert!(why(root.path()).contains("no PCI device"));
        device(root.path(), "0000:00:04.0", IVSHMEM, 0);
        assert!(why(root.path()).contains("0000:00:04.0/resource2: it does not answer"));
        device(root.path(), "0000:00:05.0", IVSHMEM, identity::ID);
        let path = find(root.path()).unwrap();
        assert!(path.ends_with("0000:00:05.0/resource2"), "{path:?}");
        device(root.path(), "0000:00:06.0", IVSHMEM, identity::ID);
        assert!(why(root.path()).contains("choose one"));
    }

    #[test]
    fn a_function_that_does_not_answer_is_enabled() {
        let root = tempfile::tempdir().unwrap();
        device(root.path(), "0000:00:05.0", IVSHMEM, identity::ID);
        let path = find(root.path()).unwrap();
        let (config, control) = (path.with_file_name("config"), path.with_file_name("enable"));
        let enabled = |target: &Target, command: u8| {
            fs::write(&config, [0xf4, 0x1a, 0x10, 0x11, command, 0]).unwrap();
            fs::write(&control, "0\n").unwrap();
            let enabled = enable(target, root.path()).map_err(|fault| fault.to_string());
            (enabled, fs::read_to_string(&control).unwrap())
        };
        for target in [Target::Mmio(path.clone()), Target::MmioAuto] {
            assert_eq!(enabled(&target, 0b110), (Ok(()), "0\n".into()));
            // These files are no kernel, so the function does not come to answer.
            let (why, written) = enabled(&target, 0b101);
            assert_eq!(written, "1");
            let why = why.unwrap_err();
            assert!(why.contains("though the kernel enabled it"), "{why}");
        }
        fs::remove_file(&control).unwrap();
        fs::create_dir(&control).unwrap();
        let why = enable(&Target::MmioAuto, root.path()).unwrap_err();
        assert!(
            why.to_string().contains("enable cannot be written"),
            "{why}"
        );
        assert!(enable(&Target::Unix(path), root.path()).is_ok());
    }
}
