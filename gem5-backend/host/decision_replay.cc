// SPDX-License-Identifier: GPL-2.0-only
#include "host/decision_replay.hh"

#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "host/decision_log.hh"

namespace drfq {
namespace {

/// One line of the log: keys with a text, a number or a list of numbers.
class Line {
 public:
  Line(const std::string &where, const std::string &text)
      : where_(where), json_(nlohmann::json::parse(text, nullptr, false)) {
    if (!json_.is_object()) fail("the line is no JSON object");
  }

  [[noreturn]] void fail(const std::string &why) const {
    throw std::runtime_error(where_ + ": " + why);
  }

  bool has(const std::string &key) const { return json_.contains(key); }

  /// size 0: any.
  std::vector<std::int64_t> list(const std::string &key, std::size_t size) const {
    const auto it = json_.find(key);
    if (it == json_.end() || !it->is_array() || (size != 0 && it->size() != size))
      fail("'" + key + "' is missing or has another length");
    std::vector<std::int64_t> v;
    for (const nlohmann::json &item : *it) v.push_back(integer(key, item));
    return v;
  }

  std::uint64_t number(const std::string &key, std::uint64_t most) const {
    const auto it = json_.find(key);
    if (it == json_.end()) fail("'" + key + "' is missing");
    const std::int64_t v = integer(key, *it);
    if (v < 0 || static_cast<std::uint64_t>(v) > most) fail("'" + key + "' is out of range");
    return static_cast<std::uint64_t>(v);
  }

  std::string text(const std::string &key) const {
    const auto it = json_.find(key);
    if (it == json_.end() || !it->is_string()) fail("'" + key + "' is missing");
    return it->get<std::string>();
  }

 private:
  std::int64_t integer(const std::string &key, const nlohmann::json &v) const {
    constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
    if (!v.is_number_integer() || (v.is_number_unsigned() && v.get<std::uint64_t>() > kMost))
      fail("'" + key + "' has a value that is no integer of 64 bits");
    return v.get<std::int64_t>();
  }

  std::string where_;
  nlohmann::json json_;
};

ControllerOptions options_of(const Line &l) {
  ControllerOptions o;
  const std::string policy = l.text("policy");
  if (policy != name(Policy::lvtf) && policy != name(Policy::frfcfs)) l.fail("'policy' is unknown");
  o.policy = policy == name(Policy::lvtf) ? Policy::lvtf : Policy::frfcfs;
  o.cores = static_cast<std::uint32_t>(l.number("cores", kCoresMax));
  o.read_entries = static_cast<unsigned>(l.number("read_entries", Queue::kMax));
  o.write_entries = static_cast<unsigned>(l.number("write_entries", Queue::kMax));
  if (l.has("admission")) {
    const std::string rule = l.text("admission");
    if (rule != "thesis" && rule != "share") l.fail("'admission' is unknown");
    if (rule == "share") o.admission = AdmissionRule::share;
  }
  o.runs.tie = static_cast<unsigned>(l.number("tie_bursts", 1u << 30));
  if (l.has("run_bursts")) o.runs.any = static_cast<unsigned>(l.number("run_bursts", Queue::kMax));
  o.prepare = l.number("prepare", 1) != 0;
  o.batch = l.has("batch") && l.number("batch", 1) != 0;
  o.aging = l.number("aging_ps", kPsPerMs * 1000);
  const auto drain = l.list("drain", 0);
  if (drain.size() != 3 && drain.size() != 4) l.fail("'drain' has another length");
  o.drain.high_percent = static_cast<unsigned>(drain[0]);
  o.drain.low_percent = static_cast<unsigned>(drain[1]);
  o.drain.min_writes = static_cast<unsigned>(drain[2]);
  if (drain.size() == 4) o.drain.min_reads = static_cast<unsigned>(drain[3]);
  return o;
}

class Replay {
 public:
  explicit Replay(const Line &header)
      : controller_(options_of(header)),
        banks_(static_cast<unsigned>(header.number("banks", kBanksMax))) {
    result_.source = header.text("source");
    view_.rcd = header.number("row_to_column_ps", kPsPerMs);
  }

  const DecisionReplay &result() const { return result_; }

  void event(const Line &l) {
    if (l.has("w")) {
      const auto v = l.list("w", 3);
      controller_.registers().write(static_cast<std::uint64_t>(v[1]),
                                    static_cast<std::uint64_t>(v[2]));
    } else if (l.has("a")) {
      arrive(l);
    } else if (l.has("q")) {
      queue(l);
    } else if (l.has("d")) {
      decide(l);
    } else {
      l.fail("no event that is known");
    }
  }

 private:
  void arrive(const Line &l) {
    const auto v = l.list("a", 10);
    Arrival a;
    now_ = static_cast<Ps>(v[0]);
    a.dir = v[1] == 0 ? Dir::read : Dir::write;
    a.bytes = static_cast<std::uint32_t>(v[2]);
    a.bursts = static_cast<unsigned>(v[3]);
    a.in_flight = static_cast<unsigned>(v[4]);
    a.label = {static_cast<std::uint32_t>(v[5]), static_cast<Pid>(v[6])};
    const Verdict got = controller_.arrive(a);
    const bool same = static_cast<std::int64_t>(got.admission) == v[7] &&
                      got.attribution.pid == v[8] &&
                      static_cast<std::int64_t>(got.attribution.vtime) == v[9];
    result_.arrivals++;
    result_.arrivals_same += same;
    if (!same) differs(l, "the core's verdict is " + std::string(name(got.admission)));
    // The following lines of the log depend on the logged verdict. Claims on queues are of the
    // core's own attribution, so with shares the log cannot name another owner.
    if (v[8] < 0 || v[8] >= static_cast<std::int64_t>(kPids)) l.fail("there is no such pid");
    if (controller_.shares() && got.attribution.pid != v[8]) l.fail("the core has another owner");
    const bool accepted = v[7] == static_cast<std::int64_t>(Admission::accepted);
    accepted_bursts_ = accepted ? a.bursts : 0;
    dir_ = a.dir;
    attribution_ = {static_cast<Pid>(v[8]), static_cast<VTime>(v[9]), true};
  }

  void queue(const Line &l) {
    const auto v = l.list("q", 2);
    if (accepted_bursts_ == 0) l.fail("no packet was accepted that this burst could be of");
    accepted_bursts_--;
    if (v[0] < 0 || v[0] >= banks_) l.fail("there is no such bank");
    const Queue &q = controller_.queue(dir_);
    if (q.size() == q.capacity()) l.fail("the queue is full");
    controller_.enqueue(dir_, attribution_, now_, static_cast<std::uint16_t>(v[0]),
                        static_cast<std::uint32_t>(v[1]), 0);
  }

  void see(const Line &l) {
    const auto v = l.list("d", 9);
    BankState &s = view_.s;
    now_ = static_cast<Ps>(v[0]);
    s.bus_free = static_cast<Ps>(v[1]);
    s.turnaround[0] = static_cast<Ps>(v[2]);
    s.turnaround[1] = static_cast<Ps>(v[3]);
    const auto times = [&](const char *key, std::vector<Ps> *to) {
      const auto list = l.list(key, banks_);
      to->assign(list.begin(), list.end());
    };
    s.rows = l.list("rows", banks_);
    times("read", &s.column_at[0]);
    times("write", &s.column_at[1]);
    times("act", &s.activate_at);
    s.busy.clear();
    if (l.has("busy"))
      for (std::int64_t b : l.list("busy", 0)) s.busy.insert(static_cast<unsigned>(b));
  }

  void decide(const Line &l) {
    accepted_bursts_ = 0;
    see(l);
    const auto v = l.list("d", 9);
    const Dir dir = v[4] == 0 ? Dir::read : Dir::write;
    const Choice got = controller_.choose(view_, now_, view_.s.bus_free, view_.s.turnaround);
    const bool same = got.found && got.dir == dir && got.aged == (v[5] != 0) &&
                      controller_.queue(dir).at(got.place).seq == static_cast<std::uint64_t>(v[6]);
    result_.decisions++;
    result_.decisions_same += same;
    result_.directions_same += got.dir == dir;
    if (!same) differs(l, "the core would serve " + describe(got));
    Choice then = got;
    then.dir = dir;
    const Queue &q = controller_.queue(dir);
    for (then.place = 0; then.place < q.entries(); then.place++)
      if (q.at(then.place).seq == static_cast<std::uint64_t>(v[6])) break;
    if (then.place == q.entries()) l.fail("the burst that was served does not wait");
    controller_.serve(then);
  }

  std::string describe(const Choice &c) const {
    if (!c.found) return "nothing";
    return std::string(name(c.dir)) + " " +
           std::to_string(controller_.queue(c.dir).at(c.place).seq);
  }

  void differs(const Line &l, const std::string &what) {
    if (!result_.first_difference.empty()) return;
    try {
      l.fail(what);
    } catch (const std::runtime_error &e) {
      result_.first_difference = e.what();
    }
  }

  Controller controller_;
  unsigned banks_;
  BankStateView view_;
  DecisionReplay result_;
  Ps now_ = 0;
  Dir dir_ = Dir::read;
  Attribution attribution_;
  unsigned accepted_bursts_ = 0;  // of the last arrival, and not yet queued
};

}  // namespace

DecisionReplay replay_decisions(const std::string &file, std::istream &in) {
  std::unique_ptr<Replay> replay;
  std::string text;
  for (unsigned line = 1; std::getline(in, text); line++) {
    const Line l(file + ":" + std::to_string(line), text);
    if (replay != nullptr) {
      replay->event(l);
    } else {
      if (!l.has("drfq_decisions") || l.number("drfq_decisions", ~0u) != 1)
        l.fail("a decision log begins with drfq_decisions 1");
      replay = std::make_unique<Replay>(l);
    }
  }
  if (replay == nullptr)
    throw std::runtime_error(file + ": a decision log begins with drfq_decisions 1");
  return replay->result();
}

}  // namespace drfq
