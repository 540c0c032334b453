// SPDX-License-Identifier: GPL-2.0-only
#include "config/memory_table.hh"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "config/reader.hh"
#include "model/generator.hh"
#include "model/presets.hh"

namespace drfq {
namespace {

constexpr double kNsMax = 1e9;
constexpr double kNsMin = 1e-3;  // a picosecond

constexpr const char *kMaps[] = {"row-bank-column", "row-bank-column-group"};
constexpr const char *kPages[] = {"open", "open-adaptive", "closed"};
constexpr const char *kPolicies[] = {"lvtf", "frfcfs"};
constexpr const char *kAdmissions[] = {"thesis", "share"};
constexpr const char *kPorts[] = {"multi", "single"};

void load_timing(Reader *r, Timing *t) {
  for (const TimingField &f : kTimingFields) {
    const std::string key = std::string(f.name) + "_ns";
    if (r->has(key)) t->*f.field = static_cast<Ps>(r->positive(key, 1, kNsMax, kNsMin) * 1e3);
  }
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
  t->map = static_cast<AddressMap>(r->choice("map", kMaps, static_cast<std::size_t>(t->map)));
  t->page = static_cast<PagePolicy>(r->choice("page", kPages, static_cast<std::size_t>(t->page)));
}

}  // namespace

std::string memory_json(const MemoryOptions &m) {
  const Timing &t = m.timing;
  const ControllerOptions &c = m.controller;
  nlohmann::ordered_json out = {{"dram", t.name}};
  for (const TimingField &f : kTimingFields) out[std::string(f.name) + "_ps"] = t.*f.field;
  out.update({
      {"burst_bytes", t.burst_bytes},
      {"row_bytes", t.row_bytes},
      {"ranks", t.ranks},
      {"banks", t.banks},
      {"groups", t.groups},
      {"rows", t.rows},
      {"activation_limit", t.activation_limit},
      {"accesses_per_row", t.accesses_per_row},
      {"tCK_ps", t.ck},
      {"cores", c.cores},
      {"read_entries", c.read_entries},
      {"write_entries", c.write_entries},
      {"admission", kAdmissions[static_cast<std::size_t>(c.admission)]},
      {"tie_bursts", c.runs.tie},
      {"run_bursts", c.runs.any},
      {"prepare", c.prepare ? 1 : 0},
      {"fill", c.fill ? 1 : 0},
      {"batch", c.batch ? 1 : 0},
      {"aging_ps", c.aging},
      {"drain_high_percent", c.drain.high_percent},
      {"drain_low_percent", c.drain.low_percent},
      {"drain_min_writes", c.drain.min_writes},
      {"drain_min_reads", c.drain.min_reads},
      {"map", kMaps[static_cast<std::size_t>(t.map)]},
      {"page", kPages[static_cast<std::size_t>(t.page)]},
      {"policy", kPolicies[static_cast<std::size_t>(c.policy)]},
      {"ports", kPorts[static_cast<std::size_t>(m.ports)]},
  });
  return out.dump();
}

void check_tables(const toml::Document &doc) {
  static const char *const known[] = {"",       "memory", "loop",  "run",
                                      "report", "agent",  "sweep", "expect"};
  for (const toml::Table &t : doc.tables) {
    if (std::find(std::begin(known), std::end(known), t.name) == std::end(known))
      throw toml::Error(doc.file, t.line, "unknown table [" + t.name + "]");
    const bool many = t.name == "agent" || t.name == "sweep" || t.name == "expect";
    if (!t.name.empty() && many != t.element)
      throw toml::Error(doc.file, t.line,
                        many ? "write [[" + t.name + "]]" : "write [" + t.name + "]");
  }
}

MemoryOptions load_memory(const toml::Document &doc) {
  const toml::Table *table = doc.find("memory");
  Reader r(doc.file, table);
  MemoryOptions m;
  const std::string dram = r.text("dram", m.timing.name);
  if (!timing_by_name(dram, &m.timing))
    r.fail(r.line("dram"), "'dram' must be one of " + dram_preset_names());
  load_timing(&r, &m.timing);
  ControllerOptions &c = m.controller;
  c.policy = static_cast<Policy>(r.choice("policy", kPolicies, 0));
  c.admission = static_cast<AdmissionRule>(r.choice("admission", kAdmissions, 0));
  m.ports = static_cast<Ports>(r.choice("ports", kPorts, 0));
  c.cores = static_cast<std::uint32_t>(r.whole("cores", c.cores, 1, kCoresMax));
  c.read_entries = static_cast<unsigned>(r.whole("read_entries", c.read_entries, 4, Queue::kMax));
  c.write_entries =
      static_cast<unsigned>(r.whole("write_entries", c.write_entries, 4, Queue::kMax));
  c.runs.tie = static_cast<unsigned>(r.whole("tie_bursts", c.runs.tie, 0, 1u << 30));
  c.runs.any = static_cast<unsigned>(r.whole("run_bursts", c.runs.any, 0, Queue::kMax));
  c.prepare = r.flag("prepare", c.prepare);
  c.fill = r.flag("fill", c.fill);
  c.batch = r.flag("batch", c.batch);
  c.aging = r.whole("aging_ns", c.aging / kPsPerNs, 0, 1000000000) * kPsPerNs;
  c.drain.high_percent =
      static_cast<unsigned>(r.whole("drain_high_percent", c.drain.high_percent, 1, 99));
  c.drain.low_percent =
      static_cast<unsigned>(r.whole("drain_low_percent", c.drain.low_percent, 0, 99));
  c.drain.min_writes =
      static_cast<unsigned>(r.whole("drain_min_writes", c.drain.min_writes, 1, 256));
  c.drain.min_reads = static_cast<unsigned>(r.whole("drain_min_reads", c.drain.min_reads, 1, 256));
  r.done();
  const std::string wrong = check(m.timing);
  if (!wrong.empty()) r.fail(table != nullptr ? table->line : 0, "[memory]: " + wrong);
  if (Memory(m).max_packet_bytes() < kLineBytes)
    r.fail(r.line("burst_bytes"),
           "a packet of 64 bytes does not fit the queues: raise burst_bytes or the entries");
  return m;
}

MemoryOptions load_memory_file(const std::string &path) {
  const toml::Document doc = toml::parse(path, read_file(path));
  check_tables(doc);
  return load_memory(doc);
}

}  // namespace drfq
