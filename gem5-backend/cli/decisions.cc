// SPDX-License-Identifier: GPL-2.0-only
#include "decisions.hh"

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>
#include <vector>

#include "../model/decisions.hh"

namespace drfq {
namespace {

/// One line of the log: keys with a text or a list of numbers (a plain number is a list of one).
class Line {
 public:
  Line(const std::string &where, const std::string &text) : where_(where), at_(text.c_str()) {
    expect('{');
    do {
      const std::string key = quoted();
      expect(':');
      if (*at_ == '"')
        texts_[key] = quoted();
      else
        lists_[key] = numbers();
    } while (take(','));
    expect('}');
    if (*at_ != '\0') fail("something follows the line");
  }

  [[noreturn]] void fail(const std::string &why) const {
    throw std::runtime_error(where_ + ": " + why);
  }

  bool has(const std::string &key) const { return lists_.count(key) != 0; }

  const std::vector<std::int64_t> &list(const std::string &key, std::size_t size) const {
    const auto it = lists_.find(key);
    if (it == lists_.end() || (size != 0 && it->second.size() != size))
      fail("'" + key + "' is missing or has another length");
    return it->second;
  }

  std::uint64_t number(const std::string &key, std::uint64_t most) const {
    const std::int64_t v = list(key, 1)[0];
    if (v < 0 || static_cast<std::uint64_t>(v) > most) fail("'" + key + "' is out of range");
    return static_cast<std::uint64_t>(v);
  }

  const std::string &text(const std::string &key) const {
    const auto it = texts_.find(key);
    if (it == texts_.end()) fail("'" + key + "' is missing");
    return it->second;
  }

 private:
  bool take(char c) {
    if (*at_ != c) return false;
    at_++;
    return true;
  }

  void expect(char c) {
    if (!take(c)) fail(std::string("'") + c + "' was expected");
  }

  std::string quoted() {
    std::string s;
    expect('"');
    while (*at_ != '"' && *at_ != '\0') s += *at_++;
    expect('"');
    return s;
  }

  std::int64_t number() {
    if (*at_ != '-' && !std::isdigit(static_cast<unsigned char>(*at_)))
      fail("a number was expected");
    char *end = nullptr;
    errno = 0;
    const std::int64_t v = std::strtoll(at_, &end, 10);
    if (errno == ERANGE) fail("a number is too large");
    at_ = end;
    return v;
  }

  std::vector<std::int64_t> numbers() {
    std::vector<std::int64_t> v;
    if (!take('[')) return {number()};
    if (take(']')) return v;
    do v.push_back(number());
    while (take(','));
    expect(']');
    return v;
  }

  std::string where_;
  const char *at_;
  std::map<std::string, std::string> texts_;
  std::map<std::string, std::vector<std::int64_t>> lists_;
};

/// The View of core/pick.hh, as it was logged.
struct LoggedBanks {
  BankState s;
  Ps rcd = 0;
  bool ready(const Entry &e) const { return s.busy.count(e.bank) == 0; }
  bool row_hit(const Entry &e) const { return s.rows[e.bank] == static_cast<std::int64_t>(e.row); }
  Ps column_at(const Entry &e, Dir d) const { return s.column_at[index(d)][e.bank]; }
  Ps activate_at(const Entry &e) const { return s.activate_at[e.bank]; }
  Ps row_to_column() const { return rcd; }
  bool fits_before(const Entry &, const Entry &, Dir, Ps) const { return false; }
  BankHeads heads(const Queue &q, Dir, unsigned bank) const { return search_heads(q, bank, *this); }
};

ControllerOptions options_of(const Line &l) {
  ControllerOptions o;
  const std::string &policy = l.text("policy");
  if (policy != name(Policy::lvtf) && policy != name(Policy::frfcfs)) l.fail("'policy' is unknown");
  o.policy = policy == name(Policy::lvtf) ? Policy::lvtf : Policy::frfcfs;
  o.cores = static_cast<std::uint32_t>(l.number("cores", kCoresMax));
  o.read_entries = static_cast<unsigned>(l.number("read_entries", Queue::kMax));
  o.write_entries = static_cast<unsigned>(l.number("write_entries", Queue::kMax));
  o.tie_bursts = static_cast<unsigned>(l.number("tie_bursts", 1u << 30));
  o.prepare = l.number("prepare", 1) != 0;
  o.aging = l.number("aging_ps", kPsPerMs * 1000);
  const auto &drain = l.list("drain", 0);
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
      const auto &v = l.list("w", 3);
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
    const auto &v = l.list("a", 10);
    Arrival a;
    now_ = static_cast<Ps>(v[0]);
    a.dir = v[1] == 0 ? Dir::read : Dir::write;
    a.bytes = static_cast<std::uint32_t>(v[2]);
    a.bursts = static_cast<unsigned>(v[3]);
    a.in_flight = static_cast<unsigned>(v[4]);
    a.label = {static_cast<std::uint32_t>(v[5]), static_cast<Pid>(v[6])};
    const Verdict got = controller_.arrive(a);
    const bool same = static_cast<std::int64_t>(got.admission) == v[7] && got.owner.pid == v[8] &&
                      static_cast<std::int64_t>(got.owner.vtime) == v[9];
    result_.arrivals++;
    result_.arrivals_same += same;
    if (!same) differs(l, "the core's verdict is " + std::string(name(got.admission)));
    // The log goes on with what was decided then.
    dir_ = a.dir;
    owner_ = {static_cast<Pid>(v[8]), static_cast<VTime>(v[9])};
  }

  void queue(const Line &l) {
    const auto &v = l.list("q", 2);
    if (v[0] < 0 || v[0] >= banks_) l.fail("there is no such bank");
    const Queue &q = controller_.queue(dir_);
    if (q.size() == q.capacity()) l.fail("the queue is full");
    controller_.enqueue(dir_, owner_, now_, static_cast<std::uint16_t>(v[0]),
                        static_cast<std::uint32_t>(v[1]), 0);
  }

  void see(const Line &l) {
    const auto &v = l.list("d", 9);
    BankState &s = view_.s;
    now_ = static_cast<Ps>(v[0]);
    s.bus_free = static_cast<Ps>(v[1]);
    s.turnaround[0] = static_cast<Ps>(v[2]);
    s.turnaround[1] = static_cast<Ps>(v[3]);
    const auto times = [&](const char *key, std::vector<Ps> *to) {
      const auto &list = l.list(key, banks_);
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
    see(l);
    const auto &v = l.list("d", 9);
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
    for (then.place = 0; then.place < q.size(); then.place++)
      if (q.at(then.place).seq == static_cast<std::uint64_t>(v[6])) break;
    if (then.place == q.size()) l.fail("the burst that was served does not wait");
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
  LoggedBanks view_;
  DecisionReplay result_;
  Ps now_ = 0;
  Dir dir_ = Dir::read;
  Owner owner_;
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
