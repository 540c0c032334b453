// SPDX-License-Identifier: GPL-2.0-only
#include "replay.hh"

#include <deque>
#include <sstream>
#include <stdexcept>

#include "input_log.hh"
#include "machine_description.hh"
#include "memory_hierarchy.hh"

namespace drfq::hardware {
namespace {

using Op = InputLog::Op;
using Kind = LogEntry::Kind;

/// Bounds of numbers, so that a damaged one uses up neither memory nor time. A transfer of the
/// device has at most 128 KiB. Times are below 5 hours, because a damaged one would keep a replay
/// busy for ever.
constexpr std::uint64_t kMost = 1 << 24, kTransferBytes = 1 << 20, kTimes = std::uint64_t{1} << 54;

class Reader {
 public:
  explicit Reader(std::istream &in) : in_(in) {}

  char byte() {
    char c = 0;
    if (!in_.get(c)) throw std::runtime_error("the log ends early; was the machine killed?");
    checksum_.add(&c, 1);
    return c;
  }
  std::uint64_t number() {
    std::uint64_t n = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto c = static_cast<unsigned char>(byte());
      if (shift == 63 && c > 1) break;
      n |= std::uint64_t{c & 0x7fu} << shift;
      if ((c & 0x80) == 0) return n;
    }
    throw std::runtime_error("the log is damaged: a number is too long");
  }
  /// limit: the number must be below it.
  std::uint64_t number(std::uint64_t limit, const char *what) {
    const std::uint64_t n = number();
    if (n >= limit)
      throw std::runtime_error("the log is damaged: " + std::string(what) + " " +
                               std::to_string(n) + " is not below " + std::to_string(limit));
    return n;
  }
  std::uint64_t difference(std::uint64_t before) {
    const std::uint64_t n = number();
    return before + ((n & 1) != 0 ? ~(n >> 1) : n >> 1);
  }
  std::string text(std::size_t bytes) {
    std::string out;
    for (std::size_t i = 0; i < bytes; i++) out += byte();
    return out;
  }
  std::uint64_t checksum() const { return checksum_.value(); }
  bool at_end() { return in_.peek() == std::istream::traits_type::eof(); }

 private:
  std::istream &in_;
  InputLog::Checksum checksum_;
};

MachineDescription read_description(Reader *in) {
  const std::string format = std::string(InputLog::kFormat) + " ";
  if (in->text(format.size()) != format)
    throw std::runtime_error("not an input log of this version, which begins with " + format);
  std::uint64_t bytes = 0;
  for (char c = in->byte(); c != '\n'; c = in->byte()) {
    if (c < '0' || c > '9' || bytes > kMost)
      throw std::runtime_error("the log is damaged: its first line does not end with a number");
    bytes = 10 * bytes + static_cast<unsigned>(c - '0');
  }
  return load_machine_description("the description in the log", in->text(bytes));
}

class Replay {
 public:
  Replay(std::istream &log, unsigned skip, std::ostream *transfers)
      : in_(log),
        d_(read_description(&in_)),
        hierarchy_(d_),
        last_(d_.cores),
        skip_(skip),
        transfers_(transfers) {}

  Replayed run() {
    if (transfers_ != nullptr) *transfers_ << kTransferColumns << '\n';
    while (out_.difference.empty()) {
      const auto op = static_cast<Op>(in_.byte());
      if (op == Op::end) {
        end();
        break;
      }
      act(op);
    }
    return std::move(out_);
  }

 private:
  unsigned core() { return static_cast<unsigned>(in_.number(d_.cores, "core")); }

  void act(Op op) {
    switch (op) {
      case Op::start:
        return hierarchy_.start(start());
      case Op::entries:
        return entries();
      case Op::expect:
        return expect();
      case Op::cancel:
        finished_.clear();
        return hierarchy_.cancel_transfers();
      case Op::sleep:
        return hierarchy_.sleep(core());
      case Op::wake:
        return hierarchy_.wake(core());
      case Op::play:
        skipped_ = plays_++ % (skip_ + 1) != skip_;
        if (!skipped_) hierarchy_.play();
        return;
      case Op::drain:
        return hierarchy_.drain(core());
      case Op::write_rdt: {
        const unsigned c = core();
        const auto msr = static_cast<std::uint32_t>(in_.number());
        hierarchy_.write_rdt(c, msr, in_.number());
        return;
      }
      case Op::finished:
        return compare_finished();
      case Op::clock:
        return compare_clock();
      case Op::end:
        return;
    }
    throw std::runtime_error("the log is damaged: there is no record " +
                             std::to_string(static_cast<unsigned>(op)));
  }

  void entries() {
    const unsigned c = core();
    const std::uint64_t count = in_.number(kMost, "a number of entries"), end = in_.number();
    std::vector<LogEntry> log;
    for (std::uint64_t i = 0; i < count; i++) {
      const auto kind = static_cast<unsigned char>(in_.byte());
      LogEntry e;
      e.kind = static_cast<Kind>(kind >> 1);
      e.ring = kind & 1;
      if (e.kind > Kind::start_transfer)
        throw std::runtime_error("the log is damaged: there is no entry of kind " +
                                 std::to_string(kind >> 1));
      e.insns = in_.difference(last_[c].insns);
      e.arg = in_.difference(last_[c].arg);
      if (InputLog::has_extra(e.kind)) e.extra = in_.number();
      check(e);
      last_[c] = {e.insns, e.arg};
      log.push_back(e);
    }
    if (hierarchy_.insn_time(end) >= kTimes) refuse_time();
    hierarchy_.hand_over(c, log, end);
  }

  Ps start() {
    const Ps at = in_.number();
    if (at >= kTimes) refuse_time();
    return at;
  }

  [[noreturn]] static void refuse_time() {
    throw std::runtime_error(
        "the log goes beyond 5 hours of simulated time, which a replay does not compute: record a "
        "shorter run (a damaged log may say so, too)");
  }

  void check(const LogEntry &e) {
    const bool time = e.kind == Kind::busy || e.kind == Kind::wake;
    if (hierarchy_.insn_time(e.insns) >= kTimes || (time && e.arg >= kTimes)) refuse_time();
    if (e.kind == Kind::busy && (busy_ += e.arg) >= kTimes) refuse_time();
    if (e.kind == Kind::set_class && e.arg >= hierarchy_.rdt().rmids())
      throw std::runtime_error("the log is damaged: there is no monitoring id " +
                               std::to_string(e.arg));
  }

  void expect() {
    Transfer t;
    std::uint64_t bytes = 0;
    t.id = in_.number();
    t.dir = in_.number(2, "a direction") == 0 ? Dir::read : Dir::write;
    t.target = static_cast<unsigned>(in_.number());
    for (std::uint64_t left = in_.number(kMost, "a number of segments"); left != 0; left--) {
      Segment s;
      s.address = in_.number();
      s.bytes = in_.number(kTransferBytes - bytes + 1, "a number of bytes");
      bytes += s.bytes;
      t.segments.push_back(s);
    }
    hierarchy_.expect(std::move(t));
  }

  void compare_finished() {
    FinishedTransfer was;
    was.id = in_.number();
    was.target = static_cast<unsigned>(in_.number());
    was.pid = static_cast<Pid>(in_.number());
    was.started = in_.number();
    was.due = in_.number();
    if (finished_.empty()) {
      if (skipped_) hierarchy_.play();
      for (const FinishedTransfer &t : hierarchy_.take_finished()) finished_.push_back(t);
    }
    const FinishedTransfer is = finished_.empty() ? FinishedTransfer{} : finished_.front();
    std::ostringstream text;
    if (finished_.empty())
      text << "transfer " << was.id << " has not finished";
    else if (is.id != was.id || is.target != was.target || is.pid != was.pid ||
             is.started != was.started || is.due != was.due)
      text << "transfer " << was.id << " of pid " << was.pid << " started at " << was.started
           << " ps and was due at " << was.due << " ps; in the replay, transfer " << is.id
           << " of pid " << is.pid << " started at " << is.started << " ps and is due at " << is.due
           << " ps";
    out_.difference = text.str();
    if (!out_.difference.empty()) return;
    finished_.pop_front();
    out_.transfers++;
    if (transfers_ != nullptr)
      *transfers_ << is.id << ',' << is.pid << ',' << is.started << ',' << is.due << '\n';
  }

  void compare_clock() {
    const unsigned c = core();
    const Ps at = in_.number();
    const std::uint64_t read = in_.number(), written = in_.number();
    // The playback is behind, or a later log has been played, too.
    if (skip_ != 0) return;
    const Ps now = hierarchy_.clock(c);
    const TrafficBytes &traffic = hierarchy_.traffic(c);
    if (now == at && traffic.read == read && traffic.write == written) {
      out_.clocks++;
      return;
    }
    std::ostringstream text;
    text << "core " << c << " was at " << at << " ps and had read " << read << " and written "
         << written << " bytes; in the replay it is at " << now << " ps and has read "
         << traffic.read << " and written " << traffic.write << " bytes";
    out_.difference = text.str();
  }

  void end() {
    const std::uint64_t is = in_.checksum(), was = in_.number();
    if (is != was || !in_.at_end())
      throw std::runtime_error("the log is damaged: its checksum does not fit");
  }

  Reader in_;
  const MachineDescription d_;
  MemoryHierarchy hierarchy_;
  std::vector<InputLog::Last> last_;
  const unsigned skip_;
  std::ostream *transfers_;
  std::uint64_t plays_ = 0;
  Ps busy_ = 0;           // the sum of all such entries
  bool skipped_ = false;  // the last call for playback
  std::deque<FinishedTransfer> finished_;
  Replayed out_;
};

}  // namespace

Replayed replay(std::istream &log, unsigned skip, std::ostream *transfers) {
  return Replay(log, skip, transfers).run();
}

}  // namespace drfq::hardware
