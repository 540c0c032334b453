// SPDX-License-Identifier: GPL-2.0-only
//! Which events of a CPU model count its memory traffic: what tasks read, and what they write.
//!
//! Every event counts lines of a cache. Where a model has an event for writes, it counts lines
//! that a store fetched from memory, or that a streaming store wrote to memory. Such a line is
//! written back once. Events that count a core's write-backs are left out: they also count lines
//! that stay in the shared cache, so a task that never leaves the cache would be charged.
//!
//! Intel's names and encodings are those of github.com/intel/perfmon, directory `events` of the
//! model, as of 2026-08. AMD's and Arm's are those of tools/perf/pmu-events/arch in Linux.

use crate::{
    cpu_model::CpuModel,
    perf_event::{EventKind, PerfEvent},
};

/// One or more CPU models that have the same events.
struct Row {
    vendor: &'static str,
    family: u32,
    /// All models of the family if empty.
    models: &'static [u32],
    /// The PMU's name in sysfs; empty: the only one.
    pmu: &'static str,
    /// Name, config, and config1 (the offcore response; 0: none).
    events: &'static [(&'static str, u64, u64)],
    /// Traffic that these events do not count.
    missing: &'static str,
    /// Where the encodings are documented.
    source: &'static str,
}

const INTEL: &str = "GenuineIntel";
const AMD: &str = "AuthenticAMD";
const HYGON: &str = "HygonGenuine";
/// The name that this table gives all CPUs with the instruction set of Arm.
const ARM: &str = "arm64";

const LONGEST_LAT_CACHE_MISS: (&str, u64, u64) = ("LONGEST_LAT_CACHE.MISS", 0x412e, 0);

const STREAMING: &str = "streaming stores, write-backs of lines that were read before";
const L3_PREFETCH: &str = "prefetches into the L3, write-backs of lines that were read before";
const CLIENT: &str = "prefetches into the L3, write-backs of prefetched lines, streaming stores";
const WRITES: &str = "write-backs";

/// The first row that fits counts.
const ROWS: &[Row] = &[
    // Servers of Intel.
    Row {
        vendor: INTEL,
        family: 6,
        models: &[0x3f, 0x4f],
        pmu: "",
        events: &[
            ("ALL_READS.LLC_MISS", 0x01b7, 0x3f_bfc0_07f7),
            ("ALL_RFO.LLC_MISS", 0x01bb, 0x3f_bfc0_0122),
        ],
        missing: STREAMING,
        source: "HSX/events/haswellx_core.json, BDX/events/broadwellx_core.json",
    },
    Row {
        vendor: INTEL,
        family: 6,
        models: &[0x55],
        pmu: "",
        events: &[
            ("ALL_READS.L3_MISS", 0x01b7, 0x3f_bc00_07f7),
            ("ALL_RFO.L3_MISS", 0x01bb, 0x3f_bc00_0122),
        ],
        missing: STREAMING,
        // Skylake-SP documents ALL_RFO only. ALL_READS adds bits that it documents singly.
        source: "SKX/events/skylakex_core.json, CLX/events/cascadelakex_core.json",
    },
    Row {
        vendor: INTEL,
        family: 6,
        models: &[0x6a, 0x6c],
        pmu: "",
        events: &[
            ("OCR.READS_TO_CORE.DRAM", 0x01b7, 0x7_3c00_0477),
            ("OCR.WRITE_ESTIMATE.MEMORY", 0x01bb, 0xf_bff8_0822),
        ],
        missing: L3_PREFETCH,
        source: "ICX/events/icelakex_core.json",
    },
    Row {
        vendor: INTEL,
        family: 6,
        models: &[0x8f, 0xcf, 0xad, 0xae],
        pmu: "",
        events: &[
            ("OCR.READS_TO_CORE.DRAM", 0x012a, 0x7_3c00_4477),
            ("OCR.WRITE_ESTIMATE.MEMORY", 0x012b, 0xf_bff8_0822),
        ],
        missing: L3_PREFETCH,
        source: "SPR/events/sapphirerapids_core.json, EMR/events/emeraldrapids_core.json, \
                 GNR/events/graniterapids_core.json",
    },
    Row {
        vendor: INTEL,
        family: 6,
        models: &[0xaf, 0xb6],
        pmu: "",
        events: &[
            LONGEST_LAT_CACHE_MISS,
            ("OCR.DEMAND_RFO.L3_MISS", 0x01b7, 0x3f_bfc0_0002),
        ],
        missing: CLIENT,
        source: "SRF/events/sierraforest_core.json, GRR/events/grandridge_core.json",
    },
    Row {
        vendor: INTEL,
        family: 6,
        models: &[0xdd],
        pmu: "",
        events: &[
            LONGEST_LAT_CACHE_MISS,
            ("OCR.DEMAND_RFO.L3_MISS", 0x01b7, 0x33f_bfc0_0002),
        ],
        missing: CLIENT,
        source: "CWF/events/clearwaterforest_core.json",
    },
    // Clients of Intel with one kind of cores.
    Row {
        vendor: INTEL,
        family: 6,
        models: &[0x3c, 0x45, 0x46],
        pmu: "",
        events: &[
            ("ALL_READS.L3_MISS", 0x01b7, 0x3f_ffc0_07f7),
            ("ALL_RFO.L3_MISS", 0x01bb, 0x3f_ffc0_0122),
        ],
        missing: STREAMING,
        source: "HSW/events/haswell_core.json",
    },
    Row {
        vendor: INTEL,
        family: 6,
        models: &[0x4e, 0x5e, 0x8e, 0x9e, 0xa5, 0xa6],
        pmu: "",
        events: &[
            LONGEST_LAT_CACHE_MISS,
            ("DEMAND_RFO.L3_MISS", 0x01b7, 0x3f_fc40_0002),
        ],
        missing: CLIENT,
        source: "SKL/events/skylake_core.json",
    },
    Row {
        vendor: INTEL,
        family: 6,
        models: &[0x7d, 0x7e, 0xa7],
        pmu: "",
        events: &[
            LONGEST_LAT_CACHE_MISS,
            // DEMAND_RFO, HWPF_L2_RFO and STREAMING_WR, each documented with L3_MISS.
            ("OCR RFO and STREAMING_WR.L3_MISS", 0x01b7, 0x3f_ffc0_0822),
        ],
        missing: L3_PREFETCH,
        source: "ICL/events/icelake_core.json, RKL/events/rocketlake_core.json",
    },
    Row {
        vendor: INTEL,
        family: 6,
        models: &[0x8c, 0x8d],
        pmu: "",
        events: &[
            LONGEST_LAT_CACHE_MISS,
            ("OCR.STREAMING_WR.ANY_RESPONSE", 0x01b7, 0x1_0800),
        ],
        missing: WRITES,
        source: "TGL/events/tigerlake_core.json",
    },
    Row {
        vendor: INTEL,
        family: 6,
        models: &[0xbe],
        pmu: "",
        events: &[
            LONGEST_LAT_CACHE_MISS,
            ("OCR.DEMAND_RFO.L3_MISS", 0x01b7, 0x3f_8440_0002),
        ],
        missing: CLIENT,
        source: "ADL/events/alderlake_gracemont_core.json",
    },
    // Hybrids of Intel.
    Row {
        vendor: INTEL,
        family: 6,
        models: &[0x97, 0x9a, 0xb7, 0xba, 0xbf, 0xaa, 0xac, 0xb5],
        pmu: "cpu_core",
        events: &[
            LONGEST_LAT_CACHE_MISS,
            ("OCR.DEMAND_RFO.L3_MISS", 0x012a, 0x3f_bfc0_0002),
        ],
        missing: CLIENT,
        source: "ADL/events/alderlake_goldencove_core.json, MTL/events/meteorlake_redwoodcove_core.json",
    },
    Row {
        vendor: INTEL,
        family: 6,
        models: &[0x97, 0x9a, 0xb7, 0xba, 0xbf],
        pmu: "cpu_atom",
        events: &[
            LONGEST_LAT_CACHE_MISS,
            ("OCR.DEMAND_RFO.L3_MISS", 0x01b7, 0x3f_8440_0002),
        ],
        missing: CLIENT,
        source: "ADL/events/alderlake_gracemont_core.json",
    },
    Row {
        vendor: INTEL,
        family: 6,
        models: &[0xaa, 0xac, 0xb5],
        pmu: "cpu_atom",
        events: &[
            LONGEST_LAT_CACHE_MISS,
            ("OCR.DEMAND_RFO.L3_MISS", 0x01b7, 0x3f_bfc0_0002),
        ],
        missing: CLIENT,
        source: "MTL/events/meteorlake_crestmont_core.json",
    },
    Row {
        vendor: INTEL,
        family: 6,
        models: &[0xc5, 0xc6],
        pmu: "cpu_core",
        events: &[
            LONGEST_LAT_CACHE_MISS,
            ("OCR.DEMAND_RFO.L3_MISS", 0x012a, 0xfe7_f800_0002),
        ],
        missing: CLIENT,
        source: "ARL/events/arrowlake_lioncove_core.json",
    },
    Row {
        vendor: INTEL,
        family: 6,
        models: &[0xc5, 0xc6],
        pmu: "cpu_atom",
        events: &[
            LONGEST_LAT_CACHE_MISS,
            ("OCR.STREAMING_WR.ANY_RESPONSE", 0x01b7, 0x1_0800),
        ],
        missing: WRITES,
        source: "ARL/events/arrowlake_skymont_core.json",
    },
    Row {
        vendor: INTEL,
        family: 6,
        models: &[0xc5],
        pmu: "cpu_lowpower",
        events: &[LONGEST_LAT_CACHE_MISS],
        missing: WRITES,
        source: "ARL/events/arrowlake_crestmont_core.json",
    },
    Row {
        vendor: INTEL,
        family: 6,
        models: &[0xbd, 0xcc, 0xd5, 0xe5],
        pmu: "cpu_core",
        events: &[
            LONGEST_LAT_CACHE_MISS,
            ("OCR.DEMAND_RFO.L3_MISS", 0x012a, 0x9e7_fa00_0002),
        ],
        missing: CLIENT,
        source: "LNL/events/lunarlake_lioncove_core.json, PTL/events/pantherlake_cougarcove_core.json",
    },
    Row {
        vendor: INTEL,
        family: 6,
        models: &[0xbd, 0xcc, 0xd5, 0xe5],
        pmu: "cpu_atom",
        events: &[
            LONGEST_LAT_CACHE_MISS,
            ("OCR.DEMAND_RFO.L3_MISS", 0x01b7, 0x13f_bfc0_0002),
        ],
        missing: CLIENT,
        source: "LNL/events/lunarlake_skymont_core.json, PTL/events/pantherlake_darkmont_core.json",
    },
    // AMD has no event of a core for write-backs to memory.
    Row {
        vendor: AMD,
        family: 0x17,
        models: &[],
        pmu: "",
        events: &[
            // Demand fills from local (0x08) and remote (0x40) memory.
            ("ls_refills_from_sys.dram", 0x4843, 0),
            ("l2_pf_miss_l2_l3", 0xff72, 0),
        ],
        missing: WRITES,
        source: "x86/amdzen2",
    },
    Row {
        vendor: HYGON,
        family: 0x18,
        models: &[],
        pmu: "",
        events: &[
            ("ls_refills_from_sys.dram", 0x4843, 0),
            ("l2_pf_miss_l2_l3", 0xff72, 0),
        ],
        missing: WRITES,
        source: "x86/amdzen1",
    },
    Row {
        vendor: AMD,
        family: 0x19,
        models: &[],
        pmu: "",
        events: &[
            // A line that the L2's prefetchers bring is no fill from memory for the L1. Those of the L1's
            // own (unit mask 0xe0, which Linux' name without .l2_hwpf includes) are.
            ("ls_any_fills_from_sys.dram_io_all", 0x4844, 0),
            ("l2_pf_miss_l2_l3.l2_hwpf", 0x1f72, 0),
        ],
        missing: WRITES,
        source: "x86/amdzen3, x86/amdzen4",
    },
    Row {
        vendor: AMD,
        family: 0x1a,
        models: &[],
        pmu: "",
        events: &[
            ("l2_fill_rsp_src.dram_io_all", 0x1_0000_4865, 0),
            ("wcb_close.full_line_64b", 0x0150, 0),
        ],
        missing: WRITES,
        source: "x86/amdzen5",
    },
    // PMUv3 counts L1 misses as cache-misses. A core's write-backs (0x18) go to the shared cache.
    Row {
        vendor: ARM,
        family: 0,
        models: &[],
        pmu: "",
        events: &[("ll_cache_miss_rd", 0x37, 0)],
        missing: WRITES,
        source: "arm64/common-and-microarch.json",
    },
];

/// The events of a CPU model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficEvents {
    /// At most [`crate::perf_event::MAX_EVENTS`].
    pub events: Vec<PerfEvent>,
    /// Traffic that they do not count.
    pub missing: &'static str,
    /// Where they are documented.
    pub source: &'static str,
}

/// The events that count memory traffic on a PMU of this CPU, best first: those of its model, then
/// one that every PMU has. `pmu`: its name in sysfs on a hybrid CPU, otherwise empty.
pub fn candidates(cpu: &CpuModel, pmu: &str) -> Vec<TrafficEvents> {
    let vendor = match cfg!(target_arch = "aarch64") {
        true => ARM,
        false => &cpu.vendor,
    };
    let own = ROWS.iter().find(|row| row.fits(vendor, cpu, pmu));
    own.map(Row::events)
        .into_iter()
        .chain([generic()])
        .collect()
}

/// Last-level cache misses as the kernel defines them for the CPU.
fn generic() -> TrafficEvents {
    TrafficEvents {
        events: vec![PerfEvent::cache_misses()],
        missing: WRITES,
        source: "arch/x86/events and drivers/perf/arm_pmuv3.c in Linux",
    }
}

impl Row {
    fn fits(&self, vendor: &str, cpu: &CpuModel, pmu: &str) -> bool {
        let model = self.models.is_empty() || self.models.contains(&cpu.model);
        (self.vendor, self.pmu) == (vendor, pmu) && self.family == cpu.family && model
    }

    fn events(&self) -> TrafficEvents {
        let event = |&(name, config, config1): &(&str, u64, u64)| PerfEvent {
            name: name.into(),
            kind: EventKind::Raw { config, config1 },
        };
        TrafficEvents {
            events: self.events.iter().map(event).collect(),
            missing: self.missing,
            source: self.source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf_event::MAX_EVENTS;

    fn names(vendor: &str, family: u32, model: u32, pmu: &str) -> Vec<Vec<String>> {
        let cpu = CpuModel {
            vendor: vendor.into(),
            family,
            model,
            ..CpuModel::default()
        };
        let name = |event: PerfEvent| event.name;
        candidates(&cpu, pmu)
            .into_iter()
            .map(|found| found.events.into_iter().map(name).collect())
            .collect()
    }

    #[test]
    fn every_row_can_be_counted_and_names_its_source() {
        for row in ROWS {
            assert!(
                (1..=MAX_EVENTS).contains(&row.events.len()),
                "{}",
                row.source
            );
            assert!(!row.source.is_empty() && !row.missing.is_empty());
            for (i, (name, config, config1)) in row.events.iter().enumerate() {
                assert_ne!(*config, 0, "{name}");
                // The two registers of offcore responses belong to two events.
                let offcore = [0x01b7, 0x01bb, 0x012a, 0x012b].contains(config);
                assert_eq!(offcore, *config1 != 0, "{name} of {}", row.source);
                assert!(
                    row.events[..i].iter().all(|other| other.1 != *config),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn no_two_rows_fit_the_same_cpu() {
        for (i, row) in ROWS.iter().enumerate() {
            for other in &ROWS[..i] {
                let same =
                    (row.vendor, row.family, row.pmu) == (other.vendor, other.family, other.pmu);
                let both = row.models.iter().any(|model| other.models.contains(model));
                let all = row.models.is_empty() || other.models.is_empty();
                assert!(
                    !same || !(both || all),
                    "{} and {}",
                    row.source,
                    other.source
                );
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_model_is_counted_by_its_own_events_and_then_by_generic_ones() {
        for (vendor, family, model, pmu, own) in [
            (
                INTEL,
                6,
                0x55,
                "",
                &["ALL_READS.L3_MISS", "ALL_RFO.L3_MISS"][..],
            ),
            (
                INTEL,
                6,
                0x8f,
                "",
                &["OCR.READS_TO_CORE.DRAM", "OCR.WRITE_ESTIMATE.MEMORY"],
            ),
            (
                INTEL,
                6,
                0x97,
                "cpu_atom",
                &["LONGEST_LAT_CACHE.MISS", "OCR.DEMAND_RFO.L3_MISS"],
            ),
            (INTEL, 6, 0xc5, "cpu_lowpower", &["LONGEST_LAT_CACHE.MISS"]),
            (
                AMD,
                0x1a,
                0x44,
                "",
                &["l2_fill_rsp_src.dram_io_all", "wcb_close.full_line_64b"],
            ),
        ] {
            let found = names(vendor, family, model, pmu);
            assert_eq!(
                found,
                [own.to_vec(), vec!["cache-misses"]],
                "{vendor} {model:#x} {pmu}"
            );
        }
        for (vendor, family, model, pmu) in [
            (INTEL, 6, 0x97, ""),
            (INTEL, 6, 0x01, ""),
            (INTEL, 15, 0x55, ""),
            (AMD, 0x15, 0x01, ""),
            ("", 0, 0, ""),
        ] {
            assert_eq!(
                names(vendor, family, model, pmu),
                [["cache-misses"]],
                "{vendor} {model:#x}"
            );
        }
    }
}
