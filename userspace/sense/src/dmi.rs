// SPDX-License-Identifier: GPL-2.0-only
//! The memory modules that the firmware describes (SMBIOS, DMTF DSP0134: types 4 and 17), and the
//! peak bandwidth that follows from them.

use std::{collections::BTreeSet, fs, path::Path};

/// All structures, as the firmware has them. Root may read it.
const TABLE: &str = "sys/firmware/dmi/tables/DMI";

const PROCESSOR: u8 = 4;
const MEMORY_DEVICE: u8 = 17;
const END: u8 = 127;

/// Memory types that hold no main memory: video RAM, ROM, flash, the EPROMs, and a logical
/// non-volatile device.
const NO_MAIN_MEMORY: [u8; 7] = [0x05, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x1f];

/// The width of a module whose width is not given (bits).
const WIDTH_BITS: u64 = 64;

/// One populated module.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Module {
    /// Transfers per second at which it runs, in millions.
    mt_per_s: u64,
    width_bits: u64,
    kind: &'static str,
    /// Its slot and its bank, as the board's maker names them.
    locator: String,
    bank: String,
}

/// The memory of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DmiMemory {
    /// Peak of all channels that have modules (bytes per second).
    pub peak_bytes_per_s: u64,
    /// What that was computed from, such as `2 channels of DDR4-2400, 64 bits`.
    pub text: String,
}

impl DmiMemory {
    /// The memory of the machine under `root`.
    ///
    /// # Errors
    /// Why it is not known, in a few words.
    pub fn read(root: &Path) -> Result<Self, String> {
        let table = fs::read(root.join(TABLE));
        let table = table.map_err(|error| format!("cannot read /{TABLE}: {error}"))?;
        Self::parse(&table).ok_or_else(|| "the firmware does not tell the memory's speed".into())
    }

    fn parse(table: &[u8]) -> Option<Self> {
        let structures = Structures(table);
        let packages = structures
            .filter(|found| is_present_processor(found))
            .count();
        let modules: Vec<_> = Structures(table)
            .filter_map(|found| module(&found))
            .collect();
        // A machine runs all channels at the speed of the slowest module.
        let mt_per_s = modules.iter().map(|module| module.mt_per_s).min()?;
        let width_bits = modules.iter().map(|module| module.width_bits).min()?;
        let known: Option<BTreeSet<_>> = modules.iter().map(channel).collect();
        let (channels, how) = match known {
            Some(names) => (names.len(), ""),
            None => (
                assumed_channels(modules.len(), packages.max(1)),
                " (assumed)",
            ),
        };
        // A speed that no memory has means that the table is wrong.
        let mb_per_s = mt_per_s.checked_mul(width_bits)? / 8;
        let peak_bytes_per_s = mb_per_s.checked_mul(channels as u64 * 1_000_000)?;
        let noun = if channels == 1 { "channel" } else { "channels" };
        Some(Self {
            peak_bytes_per_s,
            text: format!(
                "{channels} {noun}{how} of {}-{mt_per_s}, {width_bits} bits",
                modules[0].kind
            ),
        })
    }
}

/// Type, formatted area (with the header) and strings of a structure.
struct Structure<'a> {
    kind: u8,
    data: &'a [u8],
    strings: &'a [u8],
}

impl Structure<'_> {
    fn byte(&self, at: usize) -> Option<u8> {
        self.data.get(at).copied()
    }

    fn word(&self, at: usize) -> Option<u16> {
        let bytes = self.data.get(at..at + 2)?;
        Some(u16::from_le_bytes(bytes.try_into().ok()?))
    }

    fn dword(&self, at: usize) -> Option<u32> {
        let bytes = self.data.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    /// The string whose number stands at `at`; empty if there is none.
    fn string(&self, at: usize) -> String {
        let number = usize::from(self.byte(at).unwrap_or(0));
        let mut strings = self.strings.split(|byte| *byte == 0);
        let found = number.checked_sub(1).and_then(|index| strings.nth(index));
        String::from_utf8_lossy(found.unwrap_or_default())
            .trim()
            .to_owned()
    }
}

/// The structures of a table, in order.
struct Structures<'a>(&'a [u8]);

impl<'a> Iterator for Structures<'a> {
    type Item = Structure<'a>;

    fn next(&mut self) -> Option<Structure<'a>> {
        let (kind, length) = (*self.0.first()?, usize::from(*self.0.get(1)?));
        if kind == END || length < 4 {
            return None;
        }
        let data = self.0.get(..length)?;
        let rest = &self.0[length..];
        // Two zeros end the strings, also where there are none.
        let end = rest.windows(2).position(|pair| pair == [0, 0])?;
        self.0 = &rest[end + 2..];
        Some(Structure {
            kind,
            data,
            strings: &rest[..end],
        })
    }
}

/// Whether it is a processor whose socket is populated (DSP0134, 7.5).
fn is_present_processor(found: &Structure) -> bool {
    found.kind == PROCESSOR && found.byte(0x18).is_some_and(|status| status & 0x40 != 0)
}

/// A populated module of known speed (DSP0134, 7.18).
fn module(found: &Structure) -> Option<Module> {
    if found.kind != MEMORY_DEVICE || found.word(0x0c)? == 0 {
        return None;
    }
    let kind_of_memory = found.byte(0x12)?;
    if NO_MAIN_MEMORY.contains(&kind_of_memory) {
        return None;
    }
    let known = |word: u16| (word != 0 && word != 0xffff).then_some(u64::from(word));
    // 0xffff refers to an extended field.
    let speed = |at: usize, extended: usize| match found.word(at)? {
        0xffff => found
            .dword(extended)
            .map(u64::from)
            .filter(|speed| *speed != 0),
        word => known(word),
    };
    let mt_per_s = speed(0x20, 0x58).or_else(|| speed(0x15, 0x54))?;
    Some(Module {
        mt_per_s,
        width_bits: found.word(0x0a).and_then(known).unwrap_or(WIDTH_BITS),
        kind: kind(kind_of_memory),
        locator: found.string(0x10),
        bank: found.string(0x11),
    })
}

fn kind(number: u8) -> &'static str {
    match number {
        0x18 => "DDR3",
        0x1a => "DDR4",
        0x1b => "LPDDR",
        0x1c => "LPDDR2",
        0x1d => "LPDDR3",
        0x1e => "LPDDR4",
        0x20 => "HBM",
        0x21 => "HBM2",
        0x22 => "DDR5",
        0x23 => "LPDDR5",
        _ => "memory",
    }
}

/// The channels of a machine whose modules' names do not tell them. Desktops have two for up to four
/// modules. Servers have four to twelve for each package, of which each takes one module or two.
fn assumed_channels(modules: usize, packages: usize) -> usize {
    let of_package = match modules.div_ceil(packages) {
        few @ 0..=4 => few.min(2),
        some @ 5..=8 => some,
        many => many / 2,
    };
    modules.min(of_package * packages)
}

/// A name for the channel of a module, which other modules of the channel share, if the maker's
/// names tell it: `ChannelA-DIMM0`, `P0 CHANNEL A`, `CPU0_DIMM_A1`, `DIMM A1`, `DIMMA1`.
fn channel(module: &Module) -> Option<String> {
    let (locator, bank) = (module.locator.to_uppercase(), module.bank.to_uppercase());
    let named = |text: &str| {
        let (before, after) = text.split_once("CHANNEL")?;
        let name = first_word(after);
        (!name.is_empty()).then(|| format!("{before}{name}"))
    };
    // The bank names the package where the locator does not.
    if let Some(name) = named(&locator) {
        return Some(format!("{}/{name}", package(&bank)));
    }
    if let Some(name) = named(&bank) {
        return Some(name);
    }
    let (before, after) = locator.split_once("DIMM")?;
    let letter = first_word(after)
        .chars()
        .next()
        .filter(char::is_ascii_alphabetic)?;
    Some(format!("{}/{before}{letter}", package(&bank)))
}

/// The letters and digits of a name up to the first other character, without leading ones.
fn first_word(text: &str) -> &str {
    let text = text.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    text.split(|c: char| !c.is_ascii_alphanumeric())
        .next()
        .unwrap_or_default()
}

/// The part of a bank's name that stands for a package or node, such as `NODE 1` or `P1`.
fn package(bank: &str) -> &str {
    match bank.starts_with("NODE") || bank.starts_with("P0") || bank.starts_with("P1") {
        true => bank.split("CHANNEL").next().unwrap_or_default(),
        false => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_root::fake_root;

    /// A memory device of DSP0134 3.3. `size` 0: the slot is empty.
    fn device(size: u16, width: u16, speed: u16, locator: &str, bank: &str) -> Vec<u8> {
        let mut data = vec![0u8; 0x5c];
        (data[0], data[1]) = (MEMORY_DEVICE, 0x5c);
        data[0x0a..0x0c].copy_from_slice(&width.to_le_bytes());
        data[0x0c..0x0e].copy_from_slice(&size.to_le_bytes());
        // An absent string has the number 0.
        (data[0x10], data[0x11], data[0x12]) = (1, if bank.is_empty() { 0 } else { 2 }, 0x1a);
        data[0x15..0x17].copy_from_slice(&speed.to_le_bytes());
        data[0x20..0x22].copy_from_slice(&speed.to_le_bytes());
        let strings = [locator, bank].into_iter().filter(|text| !text.is_empty());
        strings.for_each(|text| data.extend_from_slice(format!("{text}\0").as_bytes()));
        data.push(0);
        data
    }

    fn processor(present: bool) -> Vec<u8> {
        let mut data = vec![0u8; 0x1a];
        (data[0], data[1]) = (PROCESSOR, 0x1a);
        data[0x18] = if present { 0x41 } else { 0 };
        data.extend_from_slice(&[0, 0]);
        data
    }

    fn memory(parts: &[Vec<u8>]) -> Option<(u64, String)> {
        let found = DmiMemory::parse(&parts.concat())?;
        Some((found.peak_bytes_per_s, found.text))
    }

    #[test]
    fn servers_whose_slots_have_plain_names_have_more_channels_than_desktops() {
        for (modules, packages, channels) in [
            (1, 1, 1),
            (4, 1, 2),
            (4, 2, 4),
            (12, 2, 12),
            (16, 2, 16),
            (24, 2, 12),
            (32, 2, 16),
        ] {
            let slots = (1..=modules).map(|number| format!("A{number}"));
            let mut parts: Vec<_> = slots
                .map(|locator| device(8192, 64, 2400, &locator, "Not Specified"))
                .collect();
            parts.extend((0..packages).map(|_| processor(true)));
            let (peak, text) = memory(&parts).unwrap();
            assert_eq!(peak, channels * 19_200_000_000, "{modules}: {text}");
        }
    }

    #[test]
    fn a_flash_memory_is_none_of_the_modules() {
        let modules = [("DIMM A1", 2400), ("DIMM B1", 2400)];
        let modules = modules.map(|(locator, speed)| device(8192, 64, speed, locator, ""));
        let mut flash = device(16, 8, 33, "System ROM", "");
        flash[0x12] = 0x09;
        let all = [&modules[..], &[flash]].concat();
        assert_eq!(memory(&all), memory(&modules));
    }

    #[test]
    fn channels_are_counted_by_the_names_of_slots() {
        for (slots, channels) in [
            (
                &[("ChannelA-DIMM0", "BANK 0"), ("ChannelB-DIMM0", "BANK 2")][..],
                2,
            ),
            (&[("ChannelA-DIMM0", ""), ("ChannelA-DIMM1", "")], 1),
            (
                &[
                    ("DIMM 0", "P0 CHANNEL A"),
                    ("DIMM 1", "P0 CHANNEL A"),
                    ("DIMM 0", "P0 CHANNEL B"),
                ],
                2,
            ),
            (
                &[
                    ("CPU1_DIMM_A1", ""),
                    ("CPU1_DIMM_A2", ""),
                    ("CPU2_DIMM_A1", ""),
                ],
                2,
            ),
            (&[("DIMM A1", ""), ("DIMM B1", ""), ("DIMM A2", "")], 2),
            (
                &[
                    ("Controller0-ChannelA-DIMM0", ""),
                    ("Controller1-ChannelA-DIMM0", ""),
                ],
                2,
            ),
            (&[("DIMM_A1", "NODE 1"), ("DIMM_A1", "NODE 2")], 2),
        ] {
            let devices: Vec<_> = slots
                .iter()
                .map(|(locator, bank)| device(8192, 64, 2400, locator, bank))
                .collect();
            let (peak, text) = memory(&devices).unwrap();
            assert_eq!(peak, channels * 19_200_000_000, "{slots:?}: {text}");
            assert!(text.ends_with("of DDR4-2400, 64 bits"), "{text}");
        }
    }

    #[test]
    fn unknown_names_count_as_two_channels_of_each_package_at_most() {
        let slots = |n: usize| vec![device(8192, 64, 3200, "SODIMM 1", "x"); n];
        for (packages, modules, channels) in [(1, 1, 1), (1, 4, 2), (2, 8, 4), (0, 2, 2)] {
            let mut parts = vec![processor(true); packages];
            parts.push(processor(false));
            parts.extend(slots(modules));
            let (peak, text) = memory(&parts).unwrap();
            assert_eq!(peak, channels * 25_600_000_000, "{text}");
            assert!(text.contains("(assumed)"), "{text}");
        }
    }

    #[test]
    fn the_slowest_module_counts_and_empty_slots_do_not() {
        let parts = [
            device(8192, 64, 3200, "DIMM A1", ""),
            device(8192, 0xffff, 2400, "DIMM B1", ""),
            device(0, 64, 1600, "DIMM C1", ""),
        ];
        assert_eq!(memory(&parts).unwrap().0, 2 * 19_200_000_000);
    }

    #[test]
    fn a_speed_beyond_a_word_stands_in_the_extended_field() {
        let mut fast = device(8192, 64, 0xffff, "DIMM A1", "");
        fast[0x58..0x5c].copy_from_slice(&70_000u32.to_le_bytes());
        assert_eq!(memory(&[fast]).unwrap().0, 560_000_000_000);
    }

    #[test]
    fn a_speed_beyond_all_numbers_is_not_known() {
        let mut fast = device(8192, 0xfff8, 0xffff, "DIMM A1", "");
        fast[0x58..0x5c].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(memory(&[fast]), None);
    }

    #[test]
    fn without_a_speed_nothing_is_known() {
        for speed in [0, 0xffff] {
            assert_eq!(memory(&[device(8192, 64, speed, "DIMM A1", "")]), None);
        }
        assert_eq!(memory(&[]), None);
        let empty = fake_root(&[("sys/firmware/dmi/tables/DMI", "")]);
        let error = DmiMemory::read(empty.path()).unwrap_err();
        assert!(error.contains("speed"), "{error}");
        let error = DmiMemory::read(Path::new("/nonexistent")).unwrap_err();
        assert!(
            error.starts_with("cannot read /sys/firmware/dmi/tables/DMI"),
            "{error}"
        );
    }

    #[test]
    fn no_table_makes_the_parser_panic() {
        let whole = [processor(true), device(8192, 64, 2400, "DIMM A1", "BANK 0")].concat();
        for end in 0..whole.len() {
            DmiMemory::parse(&whole[..end]);
        }
        for at in 0..whole.len() {
            for byte in [0, 1, 4, 17, 127, 255] {
                let mut changed = whole.clone();
                changed[at] = byte;
                DmiMemory::parse(&changed);
            }
        }
    }
}
