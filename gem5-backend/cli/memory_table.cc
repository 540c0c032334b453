// SPDX-License-Identifier: GPL-2.0-only
// The [memory] table: controller, DRAM and ports.
#include "experiment.hh"
#include "reader.hh"

namespace drfq {
namespace {

constexpr double kNsMax = 1e9;

void load_timing(Reader *r, Timing *t) {
  struct Field {
    const char *key;
    Ps Timing::*field;
  };
  static constexpr Field fields[] = {
      {"tRCD_ns", &Timing::rcd}, {"tCL_ns", &Timing::cl}, {"tCWL_ns", &Timing::cwl},
      {"tRP_ns", &Timing::rp}, {"tRAS_ns", &Timing::ras}, {"tRRD_ns", &Timing::rrd},
      {"tRRD_L_ns", &Timing::rrd_l}, {"tFAW_ns", &Timing::xaw}, {"tWTR_ns", &Timing::wtr},
      {"tWTR_L_ns", &Timing::wtr_l}, {"tRTW_ns", &Timing::rtw}, {"tRTP_ns", &Timing::rtp},
      {"tWR_ns", &Timing::wr}, {"tBURST_ns", &Timing::burst}, {"tCCD_L_ns", &Timing::ccd_l},
      {"tCCD_L_WR_ns", &Timing::ccd_l_wr}, {"tCS_ns", &Timing::cs}, {"tREFI_ns", &Timing::refi},
      {"tRFC_ns", &Timing::rfc}, {"frontend_ns", &Timing::frontend},
      {"backend_ns", &Timing::backend},
  };
  for (const Field &f : fields)
    if (r->has(f.key)) t->*f.field = static_cast<Ps>(r->positive(f.key, 1, kNsMax) * 1e3);
  const auto count = [r](const char *key, unsigned *v, std::uint64_t most) {
    *v = static_cast<unsigned>(r->whole(key, *v, 0, most));
  };
  count("burst_bytes", &t->burst_bytes, 256);
  count("row_bytes", &t->row_bytes, 1u << 20);
  count("ranks", &t->ranks, 256);
  count("banks", &t->banks, 256);
  count("groups", &t->groups, 256);
  count("rows", &t->rows, 1u << 30);
  count("activation_limit", &t->activation_limit, 16);
  count("accesses_per_row", &t->accesses_per_row, 1u << 20);
  static constexpr const char *maps[] = {"row-bank-column", "row-bank-column-group"};
  t->map = static_cast<AddressMap>(r->choice("map", maps, static_cast<std::size_t>(t->map)));
  static constexpr const char *pages[] = {"open", "open-adaptive", "closed"};
  t->page = static_cast<PagePolicy>(r->choice("page", pages, static_cast<std::size_t>(t->page)));
}

}  // namespace

MemoryOptions load_memory(const toml::Document &doc) {
  const toml::Table *table = doc.find("memory");
  Reader r(doc.file, table);
  MemoryOptions m;
  const std::string dram = r.text("dram", m.timing.name);
  if (!timing_by_name(dram, &m.timing))
    r.fail(r.line("dram"), "'dram' must be one of lpddr2-1066-x32, ddr4-2400, ddr5-4800");
  load_timing(&r, &m.timing);
  ControllerOptions &c = m.controller;
  static constexpr const char *policies[] = {"lvtf", "frfcfs"};
  c.policy = static_cast<Policy>(r.choice("policy", policies, 0));
  static constexpr const char *ports[] = {"multi", "single"};
  m.ports = static_cast<Ports>(r.choice("ports", ports, 0));
  c.cores = static_cast<std::uint32_t>(r.whole("cores", c.cores, 1, kCoresMax));
  c.read_entries = static_cast<unsigned>(r.whole("read_entries", c.read_entries, 4, Queue::kMax));
  c.write_entries =
      static_cast<unsigned>(r.whole("write_entries", c.write_entries, 4, Queue::kMax));
  c.tie_bursts = static_cast<unsigned>(r.whole("tie_bursts", c.tie_bursts, 0, 1u << 30));
  c.prepare = r.flag("prepare", c.prepare);
  c.aging = r.whole("aging_ns", 0, 0, 1000000000) * kPsPerNs;
  c.drain.high_percent = static_cast<unsigned>(r.whole("drain_high_percent", 85, 1, 99));
  c.drain.low_percent = static_cast<unsigned>(r.whole("drain_low_percent", 50, 0, 99));
  c.drain.min_writes = static_cast<unsigned>(r.whole("drain_min_writes", 16, 1, 256));
  r.done();
  const std::string wrong = check(m.timing);
  if (!wrong.empty()) r.fail(table != nullptr ? table->line : 0, "[memory]: " + wrong);
  return m;
}

}  // namespace drfq
