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

/// Makes the function of a resource file answer at its addresses. Without a driver the kernel does
/// not, and not every machine has a firmware that does. The registers would read as all ones.
/// Does nothing for a file of another kind.
///
/// # Errors
/// The kernel does not enable the function.
pub fn enable_memory(resource: &Path) -> Result<(), Fault> {
    let Some(device) = resource.parent() else {
        return Ok(());
    };
    let Ok(config) = fs::read(device.join("config")) else {
        return Ok(());
    };
    if config
        .get(COMMAND)
        .is_none_or(|low| low & COMMAND_MEMORY != 0)
    {
        return Ok(());
    }
    let enable = device.join("enable");
    fs::write(&enable, "1").map_err(|error| {
        Fault::Gone(format!(
            "{} does not answer at its addresses, and {} cannot be written: {error}; run as root, \
             and unbind a driver that holds the device",
            resource.display(),
            enable.display()
        ))
    })
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
        let (config, enable) = (path.with_file_name("config"), path.with_file_name("enable"));
        let enabled_with = |command: u8| {
            fs::write(&config, [0xf4, 0x1a, 0x10, 0x11, command, 0]).unwrap();
            fs::write(&enable, "0\n").unwrap();
            Mmio::map(&path).unwrap();
            fs::read_to_string(&enable).unwrap()
        };
        assert_eq!(enabled_with(0b101), "1");
        assert_eq!(enabled_with(0b110), "0\n", "it answers");
        fs::remove_file(&enable).unwrap();
        fs::create_dir(&enable).unwrap();
        fs::write(&config, [0; 64]).unwrap();
        let why = Mmio::map(&path).err().unwrap().to_string();
        assert!(why.contains("enable cannot be written"), "{why}");
    }
}
