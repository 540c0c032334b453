// SPDX-License-Identifier: GPL-2.0-only
//! What the definition of each DRFQ variant charges a task whose dominant
//! resource changes. It follows the text of Ghodsi et al. (section 5) in floating
//! point, not bpf/drfq.h, because bpf/drfq.h is compared with it.

/// A task that alternates a CPU-heavy and a memory-heavy phase.
#[derive(Debug, Clone, Copy)]
pub struct Alternation {
    /// CPU time of the CPU-heavy phase, ms.
    pub cpu_ms: f64,
    /// CPU time of the memory-heavy phase, ms.
    pub memory_ms: f64,
    /// Memory time per CPU time in the memory-heavy phase: (b / m) per R.
    pub memory_rate: f64,
}

/// Dominant resource time per CPU time in the long run.
///
/// `cpus` is c, and `packet_ms` the length of a packet. `delta_ms` bounds the gap
/// between the virtual times; 0 is memoryless, infinity is dovetailing.
pub fn charge_rate(task: &Alternation, cpus: f64, delta_ms: f64, packet_ms: f64) -> f64 {
    const CYCLES: u32 = 400;
    const WARMUP: u32 = 40;
    let (mut cpu, mut memory) = (0.0_f64, 0.0_f64);
    let mut begun = 0.0;
    for cycle in 0..CYCLES {
        if cycle == WARMUP {
            begun = cpu.max(memory);
        }
        for (length_ms, rate) in [(task.cpu_ms, 0.0), (task.memory_ms, task.memory_rate)] {
            let packets = (length_ms / packet_ms).ceil().max(1.0);
            let run_ms = length_ms / packets;
            for _ in 0..packets as u64 {
                cpu += run_ms / cpus;
                memory += run_ms * rate;
                let floor = cpu.max(memory) - delta_ms;
                cpu = cpu.max(floor);
                memory = memory.max(floor);
            }
        }
    }
    let cycles = f64::from(CYCLES - WARMUP);
    (cpu.max(memory) - begun) / (cycles * (task.cpu_ms + task.memory_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Balanced: over a cycle it needs as much of the CPU as of the memory.
    const BALANCED: Alternation = Alternation {
        cpu_ms: 200.0,
        memory_ms: 100.0,
        memory_rate: 1.5,
    };

    fn close(got: f64, want: f64) {
        assert!((got / want - 1.0).abs() < 1e-6, "{got} is not {want}");
    }

    #[test]
    fn dovetailing_is_the_maximum_of_sums() {
        close(charge_rate(&BALANCED, 2.0, f64::INFINITY, 4.0), 0.5);
    }

    #[test]
    fn memoryless_is_the_sum_of_maxima() {
        close(
            charge_rate(&BALANCED, 2.0, 0.0, 4.0),
            (100.0 + 150.0) / 300.0,
        );
    }

    #[test]
    fn delta_bounded_forgives_delta_once_a_change() {
        close(
            charge_rate(&BALANCED, 2.0, 20.0, 4.0),
            (250.0 - 2.0 * 20.0) / 300.0,
        );
    }

    #[test]
    fn delta_beyond_a_phase_is_dovetailing() {
        close(charge_rate(&BALANCED, 2.0, 500.0, 4.0), 0.5);
    }

    #[test]
    fn a_hog_is_charged_its_part_of_the_cpus() {
        let hog = Alternation {
            cpu_ms: 10.0,
            memory_ms: 0.0,
            memory_rate: 0.0,
        };
        close(charge_rate(&hog, 4.0, 20.0, 4.0), 0.25);
    }
}
