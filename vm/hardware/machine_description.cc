// SPDX-License-Identifier: GPL-2.0-only
#include "machine_description.hh"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "config/memory_table.hh"
#include "config/reader.hh"
#include "dma_engine.hh"

namespace drfq::hardware {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

unsigned as_unsigned(std::uint64_t v) { return static_cast<unsigned>(v); }

Ps cycles(const MachineDescription &d, double n) {
  return static_cast<Ps>(std::llround(n * 1e12 / static_cast<double>(d.clock_hz)));
}

void load_cpu(Reader r, MachineDescription *d) {
  if (!r.has("clock_mhz")) r.fail(r.line(""), "[cpu] needs clock_mhz");
  d->cores = as_unsigned(r.whole("cores", 4, 1, kMachineCoresMax));
  d->cpu_model = as_unsigned(r.whole("model", 0, 0, 255));
  d->clock_hz = static_cast<std::uint64_t>(std::llround(r.positive("clock_mhz", 1, 10000) * 1e6));
  if (d->clock_hz < 1'000'000) r.fail(r.line("clock_mhz"), "'clock_mhz' must be at least 1");
  d->tsc_hz = r.whole("tsc_mhz", 1000, 1, 4000) * 1'000'000;
  d->insns_per_cycle = r.positive("insns_per_cycle", 1, 16);
  if (d->insns_per_cycle < 0.01)
    r.fail(r.line("insns_per_cycle"), "'insns_per_cycle' must be at least 0.01");
  d->window = as_unsigned(r.whole("window", 0, 0, 1024));
  d->misses = as_unsigned(r.whole("misses", 1, 1, 64));
  if (d->window == 0 && d->misses > 1)
    r.fail(r.line("misses"), "'misses' above 1 needs a 'window'");
  if (d->window != 0 && d->misses == 1) r.fail(r.line("window"), "'window' needs 'misses' above 1");
  d->streaming_stores = r.flag("streaming_stores", false);
  d->quantum = r.whole("quantum_ns", 20000, 100, 1000000) * kPsPerNs;
  r.done();
}

/// Refuses keys that mean nothing without what they need.
void refuse(const Reader &r, std::initializer_list<const char *> keys, const std::string &needed) {
  for (const char *key : keys)
    if (r.has(key)) r.fail(r.line(key), std::string("'") + key + "' needs " + needed);
}

/// Reads [l1] or [llc]. shared: it is [llc].
CacheConfig load_cache(Reader r, const MachineDescription &d, const char *name, bool shared) {
  if (!r.has("kib") || !r.has("ways"))
    r.fail(r.line(""), std::string("[") + name + "] needs kib and ways");
  CacheConfig c;
  c.bytes = r.whole("kib", 0, 1, 64 * 1024) * 1024;
  c.ways = as_unsigned(r.whole("ways", 0, 1, 32));
  if (shared)
    c.hit = cycles(d, static_cast<double>(r.whole("hit_cycles", 8, 0, 10000)));
  else if (r.has("hit_cycles"))
    r.fail(r.line("hit_cycles"),
           "'hit_cycles' is a key of [llc] only: a hit of [l1] costs its instruction alone");
  if (c.bytes % (std::uint64_t{c.ways} * kLineBytes) != 0)
    r.fail(r.line("kib"), "'kib' must be a multiple of ways x 64 bytes");
  if ((c.sets() & (c.sets() - 1)) != 0)
    r.fail(r.line("kib"),
           "'kib' and 'ways' must give a power of two of sets, not " + std::to_string(c.sets()));
  r.done();
  return c;
}

void load_prefetch(Reader r, PrefetcherConfig *p) {
  static constexpr const char *kinds[] = {"none", "next-line", "stride"};
  p->kind = static_cast<PrefetcherConfig::Kind>(r.choice("kind", kinds, 0));
  p->degree = as_unsigned(r.whole("degree", p->degree, 1, 32));
  p->streams = as_unsigned(r.whole("streams", p->streams, 1, 64));
  p->outstanding = as_unsigned(r.whole("outstanding", p->outstanding, 1, 32));
  if (p->kind == PrefetcherConfig::Kind::none)
    refuse(r, {"degree", "streams", "outstanding"}, "a 'kind'");
  r.done();
}

/// Linux multiplies the counts of these models by a factor that corrects an erratum, which the
/// machine lacks. The factor depends on the number of RMIDs. It is 1 for these numbers.
void check_correction(const Reader &r, unsigned model, unsigned rmids) {
  constexpr unsigned kBroadwellX = 79, kSkylakeX = 85;
  if ((model != kBroadwellX && model != kSkylakeX) || rmids < 24 || rmids == 64) return;
  r.fail(r.line("rmids"), "with 'model' " + std::to_string(model) +
                              ", 'rmids' must be below 24, or 64: Linux corrects the counts of "
                              "other numbers, which are right here");
}

void load_rdt(Reader r, const MachineDescription &d, RdtConfig *s) {
  s->rmids = as_unsigned(r.whole("rmids", 0, 0, 1024));
  s->upscale = as_unsigned(r.whole("upscale", s->upscale, 64, kMiB));
  s->counter_bits = as_unsigned(r.whole("counter_bits", s->counter_bits, 24, 62));
  s->counter_start = r.whole("counter_start", 0, 0, (std::uint64_t{1} << s->counter_bits) - 1);
  s->l3_closes = as_unsigned(r.whole("l3_closes", 0, 0, 128));
  s->cbm_bits = as_unsigned(r.whole("cbm_bits", 0, 0, 32));
  s->mba_closes = as_unsigned(r.whole("mba_closes", 0, 0, 128));
  s->mba_max_delay = as_unsigned(r.whole("mba_max_delay", s->mba_max_delay, 1, 99));
  // In linear mode, the SDM ties the precision of a delay to the largest one.
  s->mba_step = as_unsigned(r.whole("mba_step", 100 - s->mba_max_delay, 1, 50));
  static constexpr const char *shapes[] = {"linear", "mt2", "plateau"};
  s->throttle = static_cast<ThrottleCurve>(r.choice("throttle", shapes, 0));
  if (s->rmids == 1) r.fail(r.line("rmids"), "'rmids' must be 0 or at least 2");
  check_correction(r, d.cpu_model, s->rmids);
  if (s->upscale % kLineBytes != 0) r.fail(r.line("upscale"), "'upscale' must be a multiple of 64");
  if ((s->l3_closes != 0) != (s->cbm_bits != 0))
    r.fail(r.line("l3_closes"), "'l3_closes' and 'cbm_bits' go together");
  if (s->cbm_bits != 0 && d.llc.ways % s->cbm_bits != 0)
    r.fail(r.line("cbm_bits"),
           "'cbm_bits' must divide the " + std::to_string(d.llc.ways) + " ways of [llc]");
  if (s->cbm_bits == 1 || s->l3_closes == 1 || s->mba_closes == 1)
    r.fail(r.line("cbm_bits"), "'l3_closes', 'cbm_bits' and 'mba_closes' must be 0 or at least 2");
  if ((s->mba_max_delay % s->mba_step) != 0)
    r.fail(r.line(r.has("mba_step") ? "mba_step" : "mba_max_delay"),
           "'mba_step', " + std::to_string(s->mba_step) + " here, must divide 'mba_max_delay'");
  if (s->mba_closes == 0) refuse(r, {"mba_max_delay", "mba_step", "throttle"}, "'mba_closes'");
  r.done();
}

/// Without the hypervisor bit of CPUID, Linux takes three fixed counters for granted, whatever leaf
/// 0AH says (intel_pmu_init). It enables all counters with one write, which faults if one is
/// absent.
constexpr unsigned kFixedCounters = 3;

void load_pmu(Reader r, PmuConfig *p) {
  p->version = as_unsigned(r.whole("version", 0, 0, 2));
  p->counters = as_unsigned(r.whole("counters", p->version ? 4 : 0, 0, 8));
  p->fixed = as_unsigned(r.whole("fixed", p->version ? kFixedCounters : 0, 0, kFixedCounters));
  p->bits = as_unsigned(r.whole("bits", p->bits, 40, 48));
  if (p->version == 1) r.fail(r.line("version"), "'version' must be 0 (none) or 2");
  if (p->version != 0 && p->counters == 0)
    r.fail(r.line("counters"), "'counters' must be at least 1 when there is a PMU");
  if (p->version != 0 && p->fixed < kFixedCounters)
    r.fail(r.line("fixed"),
           "'fixed' must be 3 with a PMU: Linux takes three for granted, and with fewer, none of "
           "its counters would count");
  if (p->version == 0 && (p->counters != 0 || p->fixed != 0))
    r.fail(r.line("version"), "counters need 'version' 2");
  r.done();
}

/// Reads [storage]. Its times are those of the device that is modelled; the scale slows them down.
void load_storage(const std::string &file, Reader r, const MachineDescription &d,
                  StorageConfig *s) {
  s->file = r.text("file", "");
  if (!s->file.empty() && s->file[0] != '/') {
    const std::size_t slash = file.rfind('/');
    if (slash != std::string::npos) s->file = file.substr(0, slash + 1) + s->file;
  }
  s->bytes = r.whole("mib", 64, 1, kMiB) * kMiB;
  if (!s->file.empty() && r.has("mib"))
    r.fail(r.line("mib"), "'mib' is for a device without 'file'");
  const double mb_per_s = r.positive("mb_per_s", 2000, 100'000);
  if (mb_per_s < 1) r.fail(r.line("mb_per_s"), "'mb_per_s' must be at least 1");
  s->fs_per_byte = static_cast<std::uint64_t>(std::llround(1e9 / mb_per_s * d.scale));
  s->latency =
      static_cast<Ps>(std::llround(r.positive("latency_us", 80, 1'000'000) * kPsPerUs)) * d.scale;
  if (s->latency < DmaEngine::lookahead(d))
    r.fail(r.line("latency_us"), "'latency_us' must be at least two quanta, " +
                                     std::to_string(DmaEngine::lookahead(d) / kPsPerNs) +
                                     " ns of the machine's time: raise it or lower quantum_ns");
  s->queues = as_unsigned(r.whole("queues", d.cores, 1, kMachineCoresMax));
  s->outstanding = as_unsigned(r.whole("outstanding", 32, 1, 1024));
  s->ddio_ways = as_unsigned(r.whole("ddio_ways", 0, 0, d.llc.ways));
  r.done();
}

/// Reads bank_hash and removes it from [memory], because the controller does not know this key.
bool take_bank_hash(toml::Document *doc) {
  toml::Table *memory = doc->find("memory");
  const bool on = Reader(doc->file, memory).flag("bank_hash", true);
  memory->values.erase("bank_hash");
  return on;
}

/// Multiplies every time of the memory, so that a slower machine keeps the ratio to its memory.
void slow_down(unsigned scale, MemoryOptions *m) {
  m->timing.ck *= scale;
  for (const TimingField &f : kTimingFields) m->timing.*f.field *= scale;
  m->controller.aging *= scale;
}

}  // namespace

std::uint64_t MachineDescription::fs_per_insn() const {
  const double fs = 1e15 / (static_cast<double>(clock_hz) * insns_per_cycle);
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::llround(fs)));
}

MachineDescription load_machine_description(const std::string &file, const std::string &text) {
  toml::Document doc = toml::parse(file, text);
  MachineDescription d;
  for (const toml::Table &t : doc.tables) {
    bool known = t.name.empty();
    for (const char *name : {"cpu", "l1", "llc", "prefetch", "rdt", "pmu", "storage", "memory"})
      known = known || t.name == name;
    if (!known || t.element) throw toml::Error(file, t.line, "unknown table [" + t.name + "]");
  }
  for (const char *name : {"cpu", "l1", "llc", "memory"})
    if (doc.find(name) == nullptr)
      throw toml::Error(file, 1, std::string("[") + name + "] is missing");
  Reader top(file, doc.find(""));
  d.name = top.text("name", "");
  d.about = top.text("about", "");
  d.scale = as_unsigned(top.whole("scale", 1, 1, 1000));
  d.mailbox = top.flag("mailbox", true);
  if (d.name.empty()) throw toml::Error(file, 1, "'name' is missing");
  top.done();
  load_cpu(Reader(file, doc.find("cpu")), &d);
  d.l1 = load_cache(Reader(file, doc.find("l1")), d, "l1", false);
  d.llc = load_cache(Reader(file, doc.find("llc")), d, "llc", true);
  load_prefetch(Reader(file, doc.find("prefetch")), &d.prefetch);
  load_rdt(Reader(file, doc.find("rdt")), d, &d.rdt);
  load_pmu(Reader(file, doc.find("pmu")), &d.pmu);
  if (toml::Table *storage = doc.find("storage"))
    load_storage(file, Reader(file, storage), d, &d.storage);
  d.bank_hash = take_bank_hash(&doc);
  if (const Reader r(file, doc.find("memory")); r.has("cores"))
    r.fail(r.line("cores"), "[cpu] gives the cores: leave out 'cores'");
  d.memory = load_memory(doc);
  d.memory.controller.cores = d.cores;
  slow_down(d.scale, &d.memory);
  if (d.memory.ports != Ports::multi) {
    const Reader r(file, doc.find("memory"));
    r.fail(r.line("ports"), "the cores of a machine have a port each: leave out 'ports'");
  }
  return d;
}

}  // namespace drfq::hardware
