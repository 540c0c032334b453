// SPDX-License-Identifier: GPL-2.0-only
//! What a stretch of samples says.

use crate::sample::{Sample, Usage};

/// A stretch of time in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// The guest's time that they cover (s).
    pub seconds: f64,
    /// Requests that ended.
    pub requests: usize,
    /// Median latency of a request (ms).
    pub p50_ms: f64,
    /// 99th percentile (ms).
    pub p99_ms: f64,
    /// The service's part.
    pub service: Rates,
    /// The hogs' part.
    pub hogs: Rates,
}

/// What a tenant used in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// CPUs.
    pub cpus: f64,
    /// Memory traffic (bytes per second).
    pub bytes_per_s: f64,
}

/// The figures of a stretch. Its first sample only begins it. None if it has no length.
pub fn figures(samples: &[Sample]) -> Option<Figures> {
    let [first, rest @ ..] = samples else {
        return None;
    };
    let last = rest.last()?;
    let seconds = last.at_ns.checked_sub(first.at_ns)? as f64 / 1e9;
    if seconds <= 0.0 {
        return None;
    }
    let rates = |before: Usage, after: Usage| Rates {
        cpus: after.cpu_us.saturating_sub(before.cpu_us) as f64 / 1e6 / seconds,
        bytes_per_s: after.bytes.saturating_sub(before.bytes) as f64 / seconds,
    };
    let mut latencies: Vec<u64> = rest
        .iter()
        .flat_map(|sample| sample.latencies_us.iter().copied())
        .collect();
    latencies.sort_unstable();
    Some(Figures {
        seconds,
        requests: latencies.len(),
        p50_ms: percentile(&latencies, 50) as f64 / 1e3,
        p99_ms: percentile(&latencies, 99) as f64 / 1e3,
        service: rates(first.service, last.service),
        hogs: rates(first.hogs, last.hogs),
    })
}

impl Figures {
    /// Requests that ended in a second.
    pub fn requests_per_s(&self) -> f64 {
        self.requests as f64 / self.seconds
    }
}

/// A percentile by the nearest rank; 0 of nothing.
pub fn percentile(sorted: &[u64], per_cent: usize) -> u64 {
    let rank = (sorted.len() * per_cent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

/// A change in words: how many times less or more, or in percent if less than twofold.
pub fn change(before: f64, after: f64) -> String {
    if before <= 0.0 || after <= 0.0 {
        return String::new();
    }
    let ratio = after / before;
    if ratio >= 2.0 {
        format!("{ratio:.1} times more")
    } else if ratio <= 0.5 {
        format!("{:.1} times less", 1.0 / ratio)
    } else {
        format!("{:+.0} %", 100.0 * (ratio - 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ns: u64, cpu_us: u64, latencies_us: Vec<u64>) -> Sample {
        let usage = Usage {
            cpu_us,
            bytes: 2 * at_ns,
            ..Usage::default()
        };
        Sample {
            at_ns,
            service: usage,
            hogs: usage,
            latencies_us,
            ..Sample::default()
        }
    }

    #[test]
    fn the_first_sample_of_a_stretch_only_begins_it() {
        let samples = [
            sample(1_000_000_000, 500_000, vec![9_000; 50]),
            sample(
                2_000_000_000,
                1_000_000,
                (1..=50).map(|n| n * 1000).collect(),
            ),
            sample(
                3_000_000_000,
                1_500_000,
                (51..=100).map(|n| n * 1000).collect(),
            ),
        ];
        let got = figures(&samples).unwrap();
        assert_eq!(
            (got.seconds, got.requests, got.requests_per_s()),
            (2.0, 100, 50.0)
        );
        assert_eq!((got.p50_ms, got.p99_ms), (50.0, 99.0));
        assert_eq!((got.service.cpus, got.hogs.bytes_per_s), (0.5, 2e9));
        assert_eq!(figures(&samples[..1]), None);
        assert_eq!(figures(&[]), None);
    }

    #[test]
    fn a_change_is_a_factor_from_two_on_and_else_a_percentage() {
        assert_eq!(change(10.0, 2.0), "5.0 times less");
        assert_eq!(change(2.0, 10.0), "5.0 times more");
        assert_eq!(change(10.0, 9.0), "-10 %");
        assert_eq!(change(10.0, 15.0), "+50 %");
        assert_eq!(change(0.0, 1.0), "");
    }
}
