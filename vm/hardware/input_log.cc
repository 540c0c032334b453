// SPDX-License-Identifier: GPL-2.0-only
#include "input_log.hh"

#include <iostream>
#include <utility>

namespace drfq::hardware {
namespace {
constexpr std::size_t kBuffer = 1 << 16;
}

InputLog::InputLog(std::unique_ptr<std::ostream> out, const std::string &description,
                   unsigned cores)
    : out_(std::move(out)), last_(cores) {
  buffer_ = std::string(kFormat) + " " + std::to_string(description.size()) + "\n" + description;
}

InputLog::~InputLog() {
  buffer_ += static_cast<char>(Op::end);
  flush();
  put(checksum_.value());
  flush();
}

bool InputLog::has_extra(LogEntry::Kind kind) {
  return kind == LogEntry::Kind::flush || kind == LogEntry::Kind::set_class ||
         kind == LogEntry::Kind::write_register;
}

void InputLog::entries(unsigned core, const LogEntry *entries, std::size_t count,
                       std::uint64_t end) {
  record(Op::entries, {core, count, end});
  Last &last = last_[core];
  for (std::size_t i = 0; i < count; i++) {
    const LogEntry &e = entries[i];
    buffer_ += static_cast<char>(static_cast<unsigned>(e.kind) << 1 | e.ring);
    put_difference(e.insns, last.insns);
    put_difference(e.arg, last.arg);
    if (has_extra(e.kind)) put(e.extra);
    last = {e.insns, e.arg};
  }
}

void InputLog::expect(const Transfer &t) {
  record(Op::expect, {t.id, index(t.dir), t.target, t.segments.size()});
  for (const Segment &s : t.segments) {
    put(s.address);
    put(s.bytes);
  }
}

void InputLog::finished(const FinishedTransfer &t) {
  record(Op::finished, {t.id, t.target, t.pid, t.started, t.due});
}

void InputLog::record(Op op, std::initializer_list<std::uint64_t> numbers) {
  if (buffer_.size() > kBuffer) flush();
  buffer_ += static_cast<char>(op);
  for (std::uint64_t n : numbers) put(n);
}

void InputLog::put(std::uint64_t n) {
  for (; n >= 0x80; n >>= 7) buffer_ += static_cast<char>(n | 0x80);
  buffer_ += static_cast<char>(n);
}

/// Small differences of either sign are short.
void InputLog::put_difference(std::uint64_t now, std::uint64_t before) {
  const std::uint64_t up = now - before;
  put(up >> 63 != 0 ? ~(up << 1) : up << 1);
}

void InputLog::flush() {
  checksum_.add(buffer_.data(), buffer_.size());
  if (out_->good() &&
      !out_->write(buffer_.data(), static_cast<std::streamsize>(buffer_.size())).flush())
    std::cerr << "input log: it cannot be written, so it ends here; is the disk full?" << std::endl;
  buffer_.clear();
}

void InputLog::Checksum::add(const char *data, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i++)
    value_ = (value_ ^ static_cast<unsigned char>(data[i])) * 1099511628211u;
}

}  // namespace drfq::hardware
