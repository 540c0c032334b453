// SPDX-License-Identifier: GPL-2.0-only
#include "config/experiment.hh"

#include <algorithm>
#include <set>

#include "../../bpf/drfq.h"
#include "config/memory_table.hh"
#include "config/reader.hh"
#include "generated/protocol.hh"

namespace drfq {
namespace {

constexpr std::size_t kPointsMax = 10000;
constexpr std::size_t kAgentsMax = 64;
constexpr std::uint64_t kUnplacedMib = 1ull << 40;
constexpr double kWeightMost = 0xffffffffu / DRFQ_WEIGHT_ONE;
constexpr double kWindowsMax = 1e6;

LoopOptions load_loop(const toml::Document &doc) {
  Reader r(doc.file, doc.find("loop"));
  LoopOptions l;
  l.enabled = r.flag("enabled", l.enabled);
  static constexpr const char *names[] = {"memory", "delta", "dovetail", "memoryless"};
  l.charging =
      static_cast<Charging>(r.choice("charging", names, static_cast<std::size_t>(l.charging)));
  l.update_ns = r.positive("update_us", l.update_ns / 1e3, 1e6, 1e-3) * 1e3;
  l.shift = static_cast<unsigned>(r.whole("shift", l.shift, 0, 40));
  l.cpus = static_cast<std::uint32_t>(r.whole("cpus", l.cpus, 1, 4096));
  l.bytes_per_ns = r.positive("bytes_per_ns", l.bytes_per_ns, 1e4, 1e-6);
  l.delta_ns = r.positive("delta_ms", l.delta_ns / 1e6, 1e6) * 1e6;
  l.cap_ns = r.positive("cap_ms", l.cap_ns / 1e6, 1e6) * 1e6;
  l.wake_ns = r.positive("wake_ms", l.wake_ns / 1e6, 1e6) * 1e6;
  if (r.has("hold_ms")) l.hold_ns = r.positive("hold_ms", 40, 1e6) * 1e6;
  r.done();
  return l;
}

AgentSpec load_agent(const toml::Document &doc, const toml::Table &table, std::size_t number) {
  Reader r(doc.file, &table);
  AgentSpec a;
  AgentOptions &o = a.traffic;
  o.name = r.text("name", "");
  if (o.name.empty()) r.fail(table.line, "an agent needs a name");
  if (o.name == "total")
    r.fail(r.line("name"), "'total' names the figures of all agents; give the agent another name");
  static constexpr const char *kinds[] = {"copy", "stream", "chase", "dma", "cpu", "phase"};
  o.kind = static_cast<Kind>(r.choice("kind", kinds, 0));
  a.pid = static_cast<Pid>(r.whole("pid", 100 + number, 1, kPids - 1));
  const bool device = r.flag("device", o.kind == Kind::dma);
  const auto core = static_cast<std::uint32_t>(r.whole("core", number, 0, kCoresMax - 1));
  o.label = device ? Label::of_substream(a.pid) : Label::of_core(core);
  o.outstanding_lines = static_cast<unsigned>(r.whole(
      "outstanding_lines", o.kind == Kind::chase ? 1 : 8, 1, wire::kDemandOutstandingLinesMax));
  o.base = r.whole("base_mib", kUnplacedMib, 0, 1u << 24) << 20;
  o.array_bytes = r.whole("array_kib", o.array_bytes >> 10, 1, 1u << 24) << 10;
  o.arrays = static_cast<unsigned>(r.whole("arrays", o.arrays, 1, 64));
  o.write_percent = static_cast<unsigned>(r.whole("write_percent", 0, 0, 100));
  o.block_bytes = r.whole("block_kib", o.block_bytes >> 10, 1, 1u << 20) << 10;
  o.bytes_per_s = r.whole("bytes_per_s", 0, 0, wire::kDemandBytesPerSMax);
  if (r.has("gap_ns")) o.gap = static_cast<Ps>(r.positive("gap_ns", 1, 1e9, 1e-3) * 1e3);
  if (r.has("pause_us")) o.pause = static_cast<Ps>(r.positive("pause_us", 1, 1e6, 1e-6) * 1e6);
  if (r.has("start_us")) o.start = static_cast<Ps>(r.positive("start_us", 1, 1e9, 1e-6) * 1e6);
  o.period = static_cast<Ps>(r.positive("period_ms", 10, 1e6, 1e-6) * 1e9);
  o.enabled = r.flag("enabled", true);
  a.weight = r.positive("weight", 1, kWeightMost);
  a.vtime = r.whole("vtime", 1, 0, ~0ull >> 1);
  a.fixed = r.has("vtime");
  r.done();
  return a;
}

/// Gives every agent without a base the memory behind the last one. Addresses wrap at the
/// capacity, so two agents could otherwise work on the same rows.
void place_agents(const toml::Document &doc, Scenario *s) {
  const std::uint64_t capacity = s->memory.timing.capacity_bytes();
  std::uint64_t next = 0;
  for (AgentSpec &a : s->agents) {
    AgentOptions &o = a.traffic;
    if (o.base == kUnplacedMib << 20) o.base = next;
    next = std::max(next, o.base + footprint(o));
    if (o.base + footprint(o) <= capacity) continue;
    throw toml::Error(doc.file, 1,
                      "agent '" + o.name + "' ends beyond the memory's " +
                          std::to_string(capacity >> 20) +
                          " MiB; give it a smaller array_kib or another base_mib");
  }
  for (const AgentSpec &a : s->agents)
    for (const AgentSpec &b : s->agents) {
      const AgentOptions &x = a.traffic, &y = b.traffic;
      if (&a >= &b || !x.enabled || !y.enabled) continue;
      if (x.base < y.base + footprint(y) && y.base < x.base + footprint(x))
        throw toml::Error(doc.file, 1,
                          "agents '" + x.name + "' and '" + y.name +
                              "' use the same memory; give them other values of base_mib");
    }
}

Scenario load_scenario(const toml::Document &doc) {
  Scenario s;
  s.memory = load_memory(doc);
  s.loop = load_loop(doc);
  Reader r(doc.file, doc.find("run"));
  s.warmup_ns = r.positive("warmup_ms", s.warmup_ns / 1e6, 1e6) * 1e6;
  s.duration_ns = r.positive("duration_ms", s.duration_ns / 1e6, 1e6) * 1e6;
  s.window_ns = r.positive("window_ms", s.window_ns / 1e6, 1e6, 1e-6) * 1e6;
  if (s.duration_ns / s.window_ns > kWindowsMax)
    r.fail(r.line("window_ms"), "a run has at most 1000000 windows; raise 'window_ms'");
  if (r.has("daemon_us")) s.daemon_ns = r.positive("daemon_us", 1, 1e6) * 1e3;
  s.daemon_percent = static_cast<unsigned>(r.whole("daemon_percent", 0, 0, 100));
  if (r.has("daemon_us") != r.has("daemon_percent"))
    r.fail(r.line(r.has("daemon_us") ? "daemon_us" : "daemon_percent"),
           "a daemon needs both 'daemon_us' and 'daemon_percent'");
  r.array("seeds");
  r.done();
  for (const toml::Table &t : doc.tables) {
    if (t.name != "agent") continue;
    AgentSpec a = load_agent(doc, t, s.agents.size());
    for (const AgentSpec &other : s.agents)
      if (other.traffic.name == a.traffic.name || other.pid == a.pid)
        throw toml::Error(doc.file, t.line, "two agents have the same name or pid");
    // A core has one pid, so the second agent's bytes would be the first one's or the reverse.
    for (const AgentSpec &other : s.agents)
      if (!a.is_device() && !other.is_device() && other.traffic.label.core == a.traffic.label.core)
        throw toml::Error(doc.file, t.line, "two agents have the same core");
    if (!a.is_device() && a.traffic.label.core >= s.memory.controller.cores)
      throw toml::Error(doc.file, t.line, "the agent's core is not below [memory] cores");
    s.agents.push_back(a);
  }
  if (s.agents.empty()) throw toml::Error(doc.file, 1, "an experiment needs [[agent]] tables");
  if (s.agents.size() > kAgentsMax) throw toml::Error(doc.file, 1, "at most 64 agents");
  place_agents(doc, &s);
  return s;
}

/// Sets "table.key", "agent.NAME.key" or "agent.*.key".
void set(toml::Document *doc, const std::string &path, const toml::Value &value) {
  const auto wrong = [&](const std::string &why) {
    throw toml::Error(doc->file, value.line, "sweep of '" + path + "': " + why);
  };
  const std::size_t first = path.find('.'), last = path.rfind('.');
  if (first == std::string::npos) wrong("a path like memory.policy or agent.NAME.weight is needed");
  const std::string table = path.substr(0, first), key = path.substr(last + 1);
  bool found = false;
  if (table == "agent") {
    const std::string name = last > first ? path.substr(first + 1, last - first - 1) : "";
    for (toml::Table &t : doc->tables) {
      const auto named = t.values.find("name");
      if (t.name != "agent" || named == t.values.end()) continue;
      if (name != "*" && named->second.text != name) continue;
      t.values[key] = value;
      found = true;
    }
    if (!found) wrong("there is no such agent");
    return;
  }
  if (table != "memory" && table != "loop" && table != "run")
    wrong("only memory, loop, run and agent can be varied");
  if (path == "run.seeds") wrong("all combinations have the seeds of [run]; set them there");
  if (doc->find(table) == nullptr) {
    toml::Table t;
    t.name = table;
    doc->tables.push_back(t);
  }
  doc->find(table)->values[key] = value;
}

/// One axis: keys that change together.
struct Axis {
  std::vector<std::pair<std::string, const toml::Value *>> keys;
  std::size_t length = 0;
};

std::vector<Axis> load_axes(const toml::Document &doc) {
  std::vector<Axis> axes;
  std::set<std::string> varied;
  std::size_t points = 1;
  for (const toml::Table &t : doc.tables) {
    if (t.name != "sweep") continue;
    Axis axis;
    for (const auto &kv : t.values) {
      const toml::Value &v = kv.second;
      if (!varied.insert(kv.first).second)
        throw toml::Error(doc.file, v.line, "another sweep varies '" + kv.first + "' already");
      if (v.type != toml::Value::Type::array || v.items.empty())
        throw toml::Error(doc.file, v.line, "a sweep takes arrays of values");
      if (axis.length != 0 && v.items.size() != axis.length)
        throw toml::Error(doc.file, v.line, "arrays of one sweep must be equally long");
      axis.length = v.items.size();
      axis.keys.emplace_back(kv.first, &v);
    }
    if (axis.keys.empty()) throw toml::Error(doc.file, t.line, "an empty sweep");
    points *= axis.length;
    if (points > kPointsMax) throw toml::Error(doc.file, t.line, "too many combinations");
    axes.push_back(axis);
  }
  return axes;
}

std::vector<Point> load_points(const toml::Document &doc) {
  const std::vector<Axis> axes = load_axes(doc);
  std::vector<std::size_t> at(axes.size(), 0);
  std::vector<Point> points;
  for (;;) {
    toml::Document here = doc;
    Point p;
    for (std::size_t i = 0; i < axes.size(); i++)
      for (const auto &k : axes[i].keys) {
        set(&here, k.first, k.second->items[at[i]]);
        p.settings.emplace_back(k.first, k.second->items[at[i]].show());
      }
    p.scenario = load_scenario(here);
    points.push_back(p);
    std::size_t i = axes.size();
    while (i > 0 && ++at[i - 1] == axes[i - 1].length) at[--i] = 0;
    if (i == 0) return points;
  }
}

Column parse_column(const toml::Document &doc, unsigned line, const std::string &text) {
  Column c;
  std::string figure = text;
  const std::size_t at = figure.find('@');
  c.statistic = at == std::string::npos ? "median" : figure.substr(at + 1);
  figure = figure.substr(0, at);
  const std::string suffix = "/reference";
  if (figure.size() > suffix.size() &&
      figure.compare(figure.size() - suffix.size(), suffix.size(), suffix) == 0) {
    c.relative = true;
    figure.resize(figure.size() - suffix.size());
  }
  c.figure = figure;
  for (const char *s : {"median", "mean", "min", "max", "worst"})
    if (c.statistic == s) return c;
  throw toml::Error(doc.file, line,
                    "'" + c.statistic + "' is none of median, mean, min, max, worst");
}

/// One key and its value, or two arrays of the same length.
void load_reference(const toml::Document &doc, Reader *r, Experiment *e) {
  if (!r->has("reference_key") && !r->has("reference_value")) return;
  std::vector<std::string> both[2];
  const char *const keys[] = {"reference_key", "reference_value"};
  for (unsigned i = 0; i < 2; i++) {
    const toml::Value *v = r->has(keys[i]) ? r->find(keys[i]) : nullptr;
    if (v != nullptr && v->type == toml::Value::Type::array)
      for (const toml::Value &item : v->items) both[i].push_back(item.show());
    else if (v != nullptr)
      both[i].push_back(v->show());
  }
  if (both[0].size() != both[1].size())
    throw toml::Error(doc.file, r->line("reference_key"),
                      "reference_key and reference_value must have the same number of items");
  for (std::size_t i = 0; i < both[0].size(); i++)
    e->reference.emplace_back(both[0][i], both[1][i]);
}

Expectation load_expectation(const toml::Document &doc, const toml::Table &t) {
  Reader r(doc.file, &t);
  Expectation x;
  x.column = parse_column(doc, t.line, r.text("column", ""));
  const auto number = [&r](const char *key, bool *has, double *to) {
    *has = r.has(key);
    if (*has) *to = r.positive(key, 1, 1e18);
  };
  number("least", &x.has_least, &x.least);
  number("most", &x.has_most, &x.most);
  if (!x.has_least && !x.has_most) r.fail(t.line, "[[expect]] needs 'least' or 'most'");
  x.when_key = r.text("when_key", "");
  x.when_value = r.text("when_value", "");
  if (r.has("when_key") != r.has("when_value"))
    r.fail(t.line, "[[expect]] takes 'when_key' and 'when_value' together");
  r.done();
  return x;
}

void load_report(const toml::Document &doc, Experiment *e) {
  Reader r(doc.file, doc.find("report"));
  const toml::Value *columns = r.array("columns");
  if (columns == nullptr || columns->items.empty()) r.fail(1, "[report] needs columns = [...]");
  for (const toml::Value &v : columns->items)
    e->columns.push_back(parse_column(doc, v.line, v.text));
  load_reference(doc, &r, e);
  e->plot = parse_column(doc, r.line("plot"), r.text("plot", e->columns[0].show()));
  r.done();
  for (const toml::Table &t : doc.tables)
    if (t.name == "expect") e->expectations.push_back(load_expectation(doc, t));
}

/// Relative columns need a reference of every combination.
void check_reference(const toml::Document &doc, const Experiment &e) {
  for (const Column &c : all_columns(e))
    if (c.relative && e.reference.empty())
      throw toml::Error(doc.file, 1, "'" + c.show() + "' needs reference_key");
  for (const auto &r : e.reference) {
    bool found = false;
    for (const Point &p : e.points)
      found = found || std::find(p.settings.begin(), p.settings.end(), r) != p.settings.end();
    if (!found)
      throw toml::Error(doc.file, 1, "reference: no combination has " + r.first + " = " + r.second);
  }
  for (std::size_t i = 0; i < e.points.size() && !e.reference.empty(); i++) {
    const auto wanted = reference_settings(e, i);
    const auto matches = [&wanted](const Point &p) { return p.settings == wanted; };
    if (std::any_of(e.points.begin(), e.points.end(), matches)) continue;
    std::string all;
    for (const auto &s : wanted) all += (all.empty() ? "" : ", ") + s.first + " = " + s.second;
    throw toml::Error(doc.file, 1, "reference: no combination has " + all);
  }
}

std::vector<std::uint64_t> load_seeds(const toml::Document &doc) {
  Reader r(doc.file, doc.find("run"));
  const toml::Value *values = r.array("seeds");
  if (values == nullptr) return {1};
  std::vector<std::uint64_t> seeds;
  for (const toml::Value &v : values->items) {
    if (v.type != toml::Value::Type::integer || v.integer < 0)
      throw toml::Error(doc.file, v.line, "seeds are integers from 0");
    seeds.push_back(static_cast<std::uint64_t>(v.integer));
  }
  if (seeds.empty()) throw toml::Error(doc.file, 1, "seeds must not be empty");
  return seeds;
}

}  // namespace

std::string Column::show() const {
  return figure + (relative ? "/reference" : "") + (statistic == "median" ? "" : "@" + statistic);
}

std::vector<Column> all_columns(const Experiment &e) {
  std::vector<Column> all = e.columns;
  all.push_back(e.plot);
  for (const Expectation &x : e.expectations) all.push_back(x.column);
  return all;
}

std::vector<std::pair<std::string, std::string>> reference_settings(const Experiment &e,
                                                                    std::size_t point) {
  auto settings = e.points[point].settings;
  for (auto &s : settings)
    for (const auto &r : e.reference)
      if (s.first == r.first) s.second = r.second;
  return settings;
}

Experiment load_experiment(const std::string &file, const std::string &text) {
  const toml::Document doc = toml::parse(file, text);
  check_tables(doc);
  Experiment e;
  Reader top(file, &doc.tables[0]);
  e.title = top.text("title", file);
  e.note = top.text("note", "");
  top.done();
  e.points = load_points(doc);
  e.seeds = load_seeds(doc);
  load_report(doc, &e);
  check_reference(doc, e);
  return e;
}

}  // namespace drfq
