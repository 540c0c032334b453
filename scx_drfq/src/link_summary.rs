// SPDX-License-Identifier: GPL-2.0-only
//! The links to memory controllers in a few words, for `top` and `--monitor`.

use drfq_stats::{controller_report::Controller, report::System};

use crate::bandwidth::format_bytes_per_s;

/// What each link that is not off does: `controller 2 GB/s`, `shadow LOST`.
pub fn link_summaries(system: &System) -> impl Iterator<Item = String> {
    let links = [
        ("controller", &system.controller),
        ("shadow", &system.shadow),
    ];
    links
        .into_iter()
        .filter_map(|(name, link)| summary(name, link))
}

/// How late CPUs' labels reach a controller.
fn labels(name: &str, link: &Controller) -> String {
    match (name, link.mailbox) {
        ("controller", 0) => format!(" (labels every {:.1} ms)", link.copy_interval_ns / 1e6),
        ("controller", _) => " (labels at each switch)".into(),
        _ => String::new(),
    }
}

fn summary(name: &str, link: &Controller) -> Option<String> {
    match link.state.as_str() {
        "" | "off" => None,
        _ if link.connected == 0 => Some(format!("{name} LOST")),
        _ => Some(format!(
            "{name} {}{}",
            format_bytes_per_s(link.bytes_per_s),
            labels(name, link)
        )),
    }
}
