// SPDX-License-Identifier: GPL-2.0-only
//! Counters that AMD's ABMC assigns to a group: its file `mbm_L3_assignments`, with lines
//! such as `mbm_total_bytes:0=e;1=_`.

use crate::{reading::Event, schemata::Domain};

/// The file's name in a group.
pub(crate) const FILE: &str = "mbm_L3_assignments";

/// Whether a group's event has a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// `_`: no counter, so readings are `Unassigned`.
    None,
    /// `e`: a counter of its own.
    Exclusive,
    /// Another letter, of a newer kernel.
    Other(char),
}

/// The states of one event by domain. Entries of another form are left out.
pub fn states(text: &str, event: Event) -> Vec<(Domain, State)> {
    let Some(entries) = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(event.name())?.strip_prefix(':'))
    else {
        return Vec::new();
    };
    let state = |letter: &str| {
        let mut letters = letter.trim().chars();
        let state = match letters.next()? {
            '_' => State::None,
            'e' => State::Exclusive,
            other => State::Other(other),
        };
        letters.next().is_none().then_some(state)
    };
    entries
        .split(';')
        .filter_map(|entry| {
            let (domain, letter) = entry.split_once('=')?;
            Some((domain.trim().parse().ok()?, state(letter)?))
        })
        .collect()
}

/// The command that assigns a counter to an event in all domains.
pub(crate) fn assign(event: Event) -> String {
    format!("{}:*=e\n", event.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_is_read() {
        let text = "mbm_total_bytes:0=e;1=_\nmbm_local_bytes:0=_;1=s;2;x=e;3=ee\n";
        assert_eq!(
            states(text, Event::MbmTotal),
            [(0, State::Exclusive), (1, State::None)]
        );
        assert_eq!(
            states(text, Event::MbmLocal),
            [(0, State::None), (1, State::Other('s'))]
        );
        assert_eq!(states(text, Event::LlcOccupancy), []);
        assert_eq!(states("", Event::MbmTotal), []);
    }

    #[test]
    fn the_command_names_all_domains() {
        assert_eq!(assign(Event::MbmTotal), "mbm_total_bytes:*=e\n");
    }
}
