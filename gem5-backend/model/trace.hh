// SPDX-License-Identifier: GPL-2.0-only
// Traces: packets and register writes over time, as text. TRACES.md is the
// description of the format.
#ifndef DRFQ_TRACE_HH
#define DRFQ_TRACE_HH

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <istream>
#include <ostream>
#include <stdexcept>
#include <string>

#include "memory.hh"

namespace drfq {

/// One line of a trace.
struct TraceRecord {
  enum class What { packet, write } what = What::packet;
  Ps at = 0;
  Packet packet;             ///< a packet
  std::uint64_t offset = 0;  ///< a register write
  std::uint64_t value = 0;
};

class TraceReader {
 public:
  /// name is for messages. Throws std::runtime_error, as next() does, with
  /// file, line and reason.
  TraceReader(const std::string &name, std::istream &in) : name_(name), in_(in) {
    std::string line;
    if (!take_line(&line) || line != "drfq-trace 1")
      fail("a trace begins with the line 'drfq-trace 1'");
  }

  /// False at the end.
  bool next(TraceRecord *r) {
    std::string line;
    do {
      if (!take_line(&line)) return false;
    } while (line.empty() || line[0] == '#');
    at_ = line.c_str();
    const char kind = *at_;
    if (kind != 'P' && kind != 'W') fail("a line begins with P, W or #");
    at_++;
    r->at = number();
    if (r->at < last_) fail("time goes back");
    last_ = r->at;
    if (kind == 'W') {
      r->what = TraceRecord::What::write;
      r->offset = number();
      r->value = number();
    } else {
      r->what = TraceRecord::What::packet;
      packet(&r->packet);
    }
    if (*at_ != '\0') fail("something follows the last field");
    return true;
  }

 private:
  static constexpr std::size_t kLineMax = 256;

  bool take_line(std::string *line) {
    line->clear();
    line_++;
    for (int c = in_.get(); c != std::istream::traits_type::eof(); c = in_.get()) {
      if (c == '\n') return true;
      *line += static_cast<char>(c);
      if (line->size() > kLineMax) fail("the line is too long");
    }
    return !line->empty();
  }

  [[noreturn]] void fail(const std::string &why) const {
    throw std::runtime_error(name_ + ":" + std::to_string(line_) + ": " + why);
  }

  void space() {
    if (*at_ != ' ') fail("one space between fields");
    at_++;
  }

  std::uint64_t number() {
    space();
    if (!std::isdigit(static_cast<unsigned char>(*at_))) fail("a number was expected");
    char *end = nullptr;
    errno = 0;
    const std::uint64_t v = std::strtoull(at_, &end, 0);
    if (errno == ERANGE) fail("the number is too large");
    at_ = end;
    return v;
  }

  /// Below the value that stands for no port and no core.
  std::uint32_t number32(const char *what) {
    const std::uint64_t v = number();
    if (v >= Label::kNoCore) fail(std::string("the ") + what + " is too large");
    return static_cast<std::uint32_t>(v);
  }

  void packet(Packet *p) {
    *p = Packet();
    space();
    if (*at_ != 'R' && *at_ != 'W') fail("R or W was expected");
    p->dir = *at_++ == 'R' ? Dir::read : Dir::write;
    p->address = number();
    const std::uint64_t bytes = number();
    if (bytes == 0 || bytes > 65536) fail("a packet has 1 to 65536 bytes");
    p->bytes = static_cast<std::uint32_t>(bytes);
    if (p->address + (bytes - 1) < p->address) fail("the packet goes beyond the last address");
    p->port = number32("port");
    space();
    const char label = *at_;
    if (label != '-' && label != 'c' && label != 's') fail("the label is -, c N or s N");
    at_++;
    if (label == '-') return;
    const std::uint32_t id = number32("label");
    p->label = label == 'c' ? Label::of_core(id) : Label::of_substream(id);
  }

  std::string name_;
  std::istream &in_;
  const char *at_ = nullptr;
  unsigned line_ = 0;
  Ps last_ = 0;
};

/// Writes a trace of what a memory accepts, and of the register writes it is told of.
class TraceWriter final : public Observer {
 public:
  explicit TraceWriter(std::ostream &out) : out_(out) { out_ << "drfq-trace 1\n"; }

  void arrived(Ps at, const Packet &p, Admission a) override {
    if (a == Admission::accepted) packet(at, p);
  }

  void wrote(Ps at, std::uint64_t offset, std::uint64_t value) override {
    out_ << "W " << at << " " << offset << " " << value << "\n";
  }

  void packet(Ps at, const Packet &p) {
    out_ << "P " << at << (p.dir == Dir::read ? " R " : " W ") << p.address << " " << p.bytes << " "
         << p.port;
    if (p.label.substream != 0)
      out_ << " s " << p.label.substream << "\n";
    else if (p.label.core != Label::kNoCore)
      out_ << " c " << p.label.core << "\n";
    else
      out_ << " -\n";
  }

 private:
  std::ostream &out_;
};

}  // namespace drfq

#endif
