// SPDX-License-Identifier: GPL-2.0-only
//! What a file of `mon_data` says, and differences between two such readings.

use std::time::Duration;

/// The events of `mon_data` that this crate reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Event {
    /// Bytes held in the last-level cache.
    LlcOccupancy,
    /// Bytes moved to and from memory, wherever it is.
    MbmTotal,
    /// Bytes moved to and from the memory of this domain's node.
    MbmLocal,
}

impl Event {
    /// All events.
    pub const ALL: [Self; 3] = [Self::LlcOccupancy, Self::MbmTotal, Self::MbmLocal];

    /// The name of the event's file and of its line in `mon_features`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LlcOccupancy => "llc_occupancy",
            Self::MbmTotal => "mbm_total_bytes",
            Self::MbmLocal => "mbm_local_bytes",
        }
    }
}

/// The content of a file of `mon_data` (`rdtgroup_mondata_show()` of the kernel's
/// fs/resctrl/ctrlmondata.c).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A count of bytes.
    Bytes(u64),
    /// The hardware does not count this group at the moment. AMD has fewer counters
    /// than RMIDs.
    Unavailable,
    /// No counter is assigned to this group (AMD's ABMC).
    Unassigned,
    /// The hardware reports an error for this RMID, or the text is not known.
    Error,
}

impl Reading {
    /// Parses a file's content. An unknown text becomes [`Reading::Error`].
    pub fn parse(text: &str) -> Self {
        match text.trim_end_matches('\n') {
            "Unavailable" => Self::Unavailable,
            "Unassigned" => Self::Unassigned,
            // parse() alone would take "+1".
            number if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                number.parse().map_or(Self::Error, Self::Bytes)
            }
            _ => Self::Error,
        }
    }

    /// The count, if there is one.
    pub const fn bytes(self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// What an RMID moved between two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delta {
    /// Bytes since the reading before.
    Bytes(u64),
    /// This is the first reading, or the first after readings without a count.
    First,
    /// The reading has no count.
    Missing(Reading),
    /// The count fell: its counter was cleared or assigned anew.
    Reset,
    /// The count rose faster than this memory can move bytes. The kernel extends
    /// narrow counters by assuming that they wrap, and a cleared one looks so.
    Implausible(u64),
}

impl Delta {
    /// The bytes, if they are known.
    pub const fn bytes(self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// Turns readings of one RMID into differences.
///
/// Use it for MON groups, and for CTRL groups without MON groups. The kernel's count of
/// another CTRL group is a sum over its MON groups. It falls when one of them goes, and
/// leaves out those that cannot be read (`mon_event_count()` of fs/resctrl/monitor.c).
#[derive(Clone, Debug)]
pub struct Meter {
    max_bytes_per_s: u64,
    last: Option<u64>,
}

impl Meter {
    /// `max_bytes_per_s`: no memory of this machine is faster. Differences above it are
    /// not believed.
    pub const fn new(max_bytes_per_s: u64) -> Self {
        Self {
            max_bytes_per_s,
            last: None,
        }
    }

    /// Takes a reading. `since`: time since the reading before.
    ///
    /// The hardware's counter has at least 24 bits. The kernel extends it once a second
    /// and at each reading, so no limit on `since` follows.
    pub fn take(&mut self, reading: Reading, since: Duration) -> Delta {
        let Some(bytes) = reading.bytes() else {
            // After a gap the count may have begun anew.
            self.last = None;
            return Delta::Missing(reading);
        };
        let Some(last) = self.last.replace(bytes) else {
            return Delta::First;
        };
        let Some(moved) = bytes.checked_sub(last) else {
            return Delta::Reset;
        };
        let limit = u128::from(self.max_bytes_per_s).saturating_mul(since.as_nanos());
        let limit = limit / 1_000_000_000;
        if u128::from(moved) > limit {
            return Delta::Implausible(moved);
        }
        Delta::Bytes(moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn each_text_of_the_kernel_has_its_reading() {
        for (text, reading) in [
            ("0\n", Reading::Bytes(0)),
            ("18446744073709551615\n", Reading::Bytes(u64::MAX)),
            ("Unavailable\n", Reading::Unavailable),
            ("Unassigned\n", Reading::Unassigned),
            ("Error\n", Reading::Error),
        ] {
            assert_eq!(Reading::parse(text), reading, "{text:?}");
        }
    }

    #[test]
    fn an_unknown_text_is_an_error_and_no_number() {
        for text in [
            "",
            "\n",
            "18446744073709551616",
            "-1",
            "+1",
            " 1",
            "1 2",
            "1.5",
            "0x10",
            "1\n2",
        ] {
            assert_eq!(Reading::parse(text), Reading::Error, "{text:?}");
        }
    }

    #[test]
    fn the_first_reading_has_no_difference() {
        let mut meter = Meter::new(1000);
        assert_eq!(meter.take(Reading::Bytes(5), SECOND), Delta::First);
        assert_eq!(meter.take(Reading::Bytes(9), SECOND), Delta::Bytes(4));
    }

    #[test]
    fn a_gap_begins_anew() {
        for gap in [Reading::Unavailable, Reading::Unassigned, Reading::Error] {
            let mut meter = Meter::new(1000);
            meter.take(Reading::Bytes(5), SECOND);
            assert_eq!(meter.take(gap, SECOND), Delta::Missing(gap));
            assert_eq!(meter.take(Reading::Bytes(900), SECOND), Delta::First);
            assert_eq!(meter.take(Reading::Bytes(901), SECOND), Delta::Bytes(1));
        }
    }

    #[test]
    fn a_falling_count_is_a_reset_and_the_next_difference_is_right() {
        let mut meter = Meter::new(1000);
        meter.take(Reading::Bytes(500), SECOND);
        assert_eq!(meter.take(Reading::Bytes(20), SECOND), Delta::Reset);
        assert_eq!(meter.take(Reading::Bytes(50), SECOND), Delta::Bytes(30));
    }

    #[test]
    fn a_jump_beyond_the_memory_is_not_believed() {
        let mut meter = Meter::new(1000);
        meter.take(Reading::Bytes(0), SECOND);
        let wrapped = (1 << 24) * 64;
        assert_eq!(
            meter.take(Reading::Bytes(wrapped), SECOND),
            Delta::Implausible(wrapped)
        );
        assert_eq!(
            meter.take(Reading::Bytes(wrapped + 7), SECOND),
            Delta::Bytes(7)
        );
    }

    #[test]
    fn the_longest_time_and_the_fastest_memory_do_not_overflow() {
        let mut meter = Meter::new(u64::MAX);
        meter.take(Reading::Bytes(0), Duration::MAX);
        let all = Reading::Bytes(u64::MAX);
        assert_eq!(meter.take(all, Duration::MAX), Delta::Bytes(u64::MAX));
    }

    proptest! {
        #[test]
        fn numbers_survive_and_nothing_panics(bytes: u64, text in ".*") {
            prop_assert_eq!(Reading::parse(&format!("{bytes}\n")), Reading::Bytes(bytes));
            let _ = Reading::parse(&text);
        }

        #[test]
        fn differences_add_up_to_the_rise(steps in prop::collection::vec(0u64..1000, 1..50)) {
            let (mut meter, mut count) = (Meter::new(1000), 77);
            meter.take(Reading::Bytes(count), SECOND);
            let mut sum = 0;
            for step in &steps {
                count += step;
                sum += meter.take(Reading::Bytes(count), SECOND).bytes().unwrap();
            }
            prop_assert_eq!(sum, steps.iter().sum::<u64>());
        }

        #[test]
        fn no_sequence_of_readings_panics(
            readings in prop::collection::vec((0u8..4, any::<u64>(), any::<u64>()), 0..40),
            rate: u64,
        ) {
            let mut meter = Meter::new(rate);
            for (kind, bytes, nanos) in readings {
                let reading = match kind {
                    0 => Reading::Bytes(bytes),
                    1 => Reading::Unavailable,
                    2 => Reading::Unassigned,
                    _ => Reading::Error,
                };
                let _ = meter.take(reading, Duration::from_nanos(nanos));
            }
        }
    }
}
