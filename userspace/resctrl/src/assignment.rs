// SPDX-License-Identifier: GPL-2.0-only
//! Counters that AMD's ABMC assigns to a group: its file `mbm_L3_assignments`, with lines
//! such as `mbm_total_bytes:0=e;1=_`.

use crate::reading::Event;

/// The file's name in a group.
pub(crate) const FILE: &str = "mbm_L3_assignments";

/// The command that assigns a counter to an event in all domains.
pub(crate) fn assign(event: Event) -> String {
    format!("{}:*=e\n", event.name())
}

/// The command that takes an event's counters away in all domains.
pub(crate) fn release(event: Event) -> String {
    format!("{}:*=_\n", event.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_all_domains() {
        assert_eq!(assign(Event::MbmTotal), "mbm_total_bytes:*=e\n");
        assert_eq!(release(Event::MbmLocal), "mbm_local_bytes:*=_\n");
    }
}
