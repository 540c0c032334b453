// SPDX-License-Identifier: GPL-2.0-only
#include "host/scenario_run.hh"

#include <algorithm>
#include <cmath>

#include "host/charging.hh"

namespace drfq {
namespace {

Ps to_ps(double ns) { return static_cast<Ps>(std::llround(ns * 1e3)); }

/// Times that differ by less are the same: they are sums of decimals. No update or window is as
/// short.
constexpr double kSameNs = 0.5;

}  // namespace

class ScenarioRun::Run {
 public:
  Run(const Scenario &s, Host &host, Observer *observer, bool starts)
      : s_(s),
        observer_(observer),
        host_(host),
        windows_(static_cast<unsigned>(std::max(1.0, std::floor(s.duration_ns / s.window_ns)))),
        random_(s.seed * 7919 + 1),
        charger_(s.loop, running(s)),
        end_ns_(s.warmup_ns) {
    for (std::size_t i = 0; i < s.agents.size(); i++) {
      const AgentSpec &a = s.agents[i];
      AgentOptions o = a.traffic;
      o.seed = s.seed == 0 ? 0 : s.seed * 1000 + i;
      host_.add(o);
      flows_.push_back(charger_.flow(a.weight));
      if (!starts) continue;
      if (!a.is_device()) write(mmio::kPidCore + 8 * o.label.core, a.pid);
      write_vtime(i, looped(a) ? charger_.register_value(flows_.back()) : a.vtime);
    }
  }

  bool step() {
    while (now_ns_ + kSameNs >= end_ns_)
      if (!next_part()) return false;
    const double next_ns = now_ns_ + s_.loop.update_ns;
    std::vector<double> lost(s_.agents.size(), 0);
    if (!preempt(&lost) || !run_to(next_ns)) return false;
    if (s_.loop.enabled) update(lost);
    return true;
  }

  double now_ns() const { return now_ns_; }
  Figures figures() const { return collect(); }

  /// The state (core/state.hh).
  template <class Self, class F>
  static void parts(Self &self, F &f) {
    f.same(self.flows_.size(), "number of agents");
    for (auto &flow : self.flows_) flow_parts(flow, f);
    f(self.random_, self.charger_, self.now_ns_, self.end_ns_, self.part_, self.first_, self.all_,
      self.shares_);
  }

 private:
  static std::uint32_t running(const Scenario &s) {
    std::uint32_t n = 0;
    for (const AgentSpec &a : s.agents) n += a.traffic.enabled && !a.is_device();
    return n;
  }

  /// Whether the loop charges the agent and writes its registers.
  bool looped(const AgentSpec &a) const { return s_.loop.enabled && !a.fixed; }

  RegisterFile &registers() { return host_.registers(); }

  double bytes(std::size_t i) const { return static_cast<double>(host_.counters(i).bytes_total()); }

  double total() const {
    double all = 0;
    for (std::size_t i = 0; i < s_.agents.size(); i++) all += bytes(i);
    return all;
  }

  void write_vtime(std::size_t i, VTime v) {
    const AgentSpec &a = s_.agents[i];
    if (!a.is_device()) write(mmio::kVtimeCore + 8 * a.traffic.label.core, v);
    write(mmio::kVtimePid + 8 * a.pid, v);
  }

  void write(std::uint64_t offset, std::uint64_t value) {
    registers().write(offset, value);
    if (observer_ != nullptr) observer_->wrote(host_.now(), offset, value);
  }

  /// Goes from the warm-up to the first window, or from one window to the next. False at the end.
  bool next_part() {
    if (part_ > windows_) return false;
    if (part_ == 0)
      host_.clear_stats();
    else if (total() > all_)
      shares_.push_back((bytes(0) - first_) / (total() - all_));
    if (++part_ > windows_) return false;
    first_ = bytes(0);
    all_ = total();
    end_ns_ = s_.warmup_ns + s_.duration_ns * (static_cast<double>(part_) / windows_);
    return true;
  }

  /// Runs to a time, through parts that end before. False when the run ends before.
  bool run_to(double to_ns) {
    while (end_ns_ + kSameNs < to_ns) {
      now_ns_ = std::max(now_ns_, end_ns_);
      host_.run_until(to_ps(now_ns_));
      if (!next_part()) return false;
    }
    now_ns_ = to_ns;
    host_.run_until(to_ps(now_ns_));
    return true;
  }

  /// A daemon runs first on the cores it hits. Sets the time that their agents lose. False when the
  /// run ends meanwhile.
  bool preempt(std::vector<double> *lost) {
    if (s_.daemon_percent == 0 || s_.daemon_ns <= 0) return true;
    const double d = std::min(s_.daemon_ns, s_.loop.update_ns);
    for (std::size_t i = 0; i < lost->size(); i++) {
      if (s_.agents[i].is_device() || random_.below(100) >= s_.daemon_percent) continue;
      (*lost)[i] = d;
      host_.pause(i, true);
    }
    if (!run_to(now_ns_ + d)) return false;
    for (std::size_t i = 0; i < lost->size(); i++)
      if ((*lost)[i] > 0) host_.pause(i, false);
    return true;
  }

  void update(const std::vector<double> &lost) {
    std::uint64_t min_start = ~std::uint64_t{0};
    for (std::size_t i = 0; i < flows_.size(); i++) {
      const AgentSpec &a = s_.agents[i];
      if (!a.traffic.enabled || !looped(a)) continue;
      Use u;
      registers().read(mmio::kTraffic + 8 * a.pid, &u.bytes);
      u.device = a.is_device();
      u.run_ns = u.device ? 0 : static_cast<std::uint64_t>(s_.loop.update_ns - lost[i]);
      charger_.charge(&flows_[i], u);
      if (!u.device) min_start = std::min(min_start, drfq_start(&flows_[i]));
    }
    // A hold ends when V catches up, and only charged processes move V.
    const bool charged = min_start != ~std::uint64_t{0};
    if (charged) charger_.advance(min_start);
    for (std::size_t i = 0; i < flows_.size(); i++) {
      if (!looped(s_.agents[i])) continue;
      if (s_.agents[i].is_device()) host_.pause(i, charged && charger_.held(flows_[i]));
      write_vtime(i, charger_.register_value(flows_[i]));
    }
  }

  Figures collect() const {
    Figures f;
    const double all = total();
    f["total.bytes_per_ns"] = all / s_.duration_ns;
    for (std::size_t i = 0; i < s_.agents.size(); i++) {
      const std::string n = s_.agents[i].traffic.name + ".";
      const Histogram &h = host_.counters(i).latency;
      f[n + "bytes_per_ns"] = bytes(i) / s_.duration_ns;
      f[n + "share_percent"] = all > 0 ? 100 * bytes(i) / all : 0;
      f[n + "latency_p50_ns"] = static_cast<double>(h.percentile(50)) / 1e3;
      f[n + "latency_p99_ns"] = static_cast<double>(h.percentile(99)) / 1e3;
      f[n + "latency_max_ns"] = static_cast<double>(h.max()) / 1e3;
    }
    if (s_.agents.size() >= 2 && bytes(1) > 0)
      f["ratio_error_percent"] =
          100 * (bytes(0) / bytes(1) / (s_.agents[0].weight / s_.agents[1].weight) - 1);
    f["share_error_percent"] = share_error(all);
    double mean = 0, squares = 0;
    for (double x : shares_) mean += x / static_cast<double>(shares_.size());
    for (double x : shares_) squares += (x - mean) * (x - mean);
    f["share_stdev_percent"] =
        shares_.empty() ? 0 : 100 * std::sqrt(squares / static_cast<double>(shares_.size()));
    collect_memory(&f);
    return f;
  }

  /// The largest error of an enabled agent's share of the total against its weight's.
  double share_error(double all) const {
    double weights = 0, worst = 0;
    for (const AgentSpec &a : s_.agents) weights += a.traffic.enabled ? a.weight : 0;
    for (std::size_t i = 0; i < s_.agents.size() && all > 0; i++) {
      if (!s_.agents[i].traffic.enabled) continue;
      const double due = s_.agents[i].weight / weights;
      worst = std::max(worst, std::fabs(bytes(i) / all / due - 1));
    }
    return 100 * worst;
  }

  void collect_memory(Figures *f) const {
    const Stats &st = host_.stats();
    double all = 0;
    for (const auto &by_pid : st.bytes)
      for (std::uint64_t b : by_pid) all += static_cast<double>(b);
    (*f)["unattributed_percent"] =
        all > 0 ? 100 * static_cast<double>(st.bytes[0][0] + st.bytes[1][0]) / all : 0;
    const double bursts = static_cast<double>(st.bursts[0] + st.bursts[1]);
    const double us = s_.duration_ns / 1e3;
    (*f)["row_hit_percent"] =
        bursts > 0 ? 100 * static_cast<double>(st.row_hits[0] + st.row_hits[1]) / bursts : 0;
    (*f)["turnarounds_per_us"] = static_cast<double>(st.turnarounds) / us;
    (*f)["aged_bursts_per_us"] = static_cast<double>(st.aged) / us;
    for (Dir d : {Dir::read, Dir::write}) {
      const std::string n = name(d);
      (*f)[n + "_wait_p50_ns"] = static_cast<double>(st.wait[index(d)].percentile(50)) / 1e3;
      (*f)[n + "_wait_p99_ns"] = static_cast<double>(st.wait[index(d)].percentile(99)) / 1e3;
      (*f)[n + "_wait_max_ns"] = static_cast<double>(st.wait[index(d)].max()) / 1e3;
    }
    for (Admission a : {Admission::full, Admission::reserved, Admission::blocked}) {
      const auto i = static_cast<unsigned>(a);
      (*f)[std::string("refused_") + name(a) + "_per_us"] =
          static_cast<double>(st.refused[0][i] + st.refused[1][i]) / us;
    }
  }

  const Scenario &s_;
  Observer *observer_;
  Host &host_;
  const unsigned windows_;
  Random random_;
  Charger charger_;
  std::vector<Flow> flows_;
  double now_ns_ = 0;           // between two steps: of the last update
  double end_ns_;               // of the part
  unsigned part_ = 0;           // 0: the warm-up; then the windows
  double first_ = 0, all_ = 0;  // bytes of the first agent and of all when the part began
  std::vector<double> shares_;  // of the first agent in each window
};

ScenarioRun::ScenarioRun(const Scenario &s, Host &host, Observer *observer, const StateWords *saved)
    : run_(std::make_unique<Run>(s, host, observer, saved == nullptr)) {
  if (saved != nullptr) load_state(run_.get(), *saved);
}

ScenarioRun::~ScenarioRun() = default;

bool ScenarioRun::step() { return run_->step(); }

double ScenarioRun::now_ns() const { return run_->now_ns(); }

Figures ScenarioRun::figures() const { return run_->figures(); }

StateWords ScenarioRun::save() const { return save_state(*run_); }

Figures run(const Scenario &s, Observer *observer) {
  ModelHost host(s.memory);
  host.memory().observe(observer);
  return run_on(s, host, observer);
}

Figures run_on(const Scenario &s, Host &host, Observer *observer) {
  ScenarioRun run(s, host, observer);
  while (run.step()) {
  }
  return run.figures();
}

}  // namespace drfq
