// SPDX-License-Identifier: GPL-2.0-only
// All that the timing of a machine depends on, as a file: the cores' logs, the device's transfers,
// and what the memory hierarchy was called for, in order. With them stand the times that came of
// it. replay.hh computes these again, without the emulator, the guest and their host.
//
// The file begins with a line that names the format and the number of bytes of the machine's
// description, which follows. Then come records: an Op, and its numbers as LEB128. The last record
// has a checksum of all before it.
#ifndef DRFQ_HARDWARE_INPUT_LOG_HH
#define DRFQ_HARDWARE_INPUT_LOG_HH

#include <cstddef>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "log_entry.hh"
#include "transfer.hh"

namespace drfq::hardware {

class InputLog {
 public:
  static constexpr const char *kFormat = "drfq-input-log-1";

  enum class Op : std::uint8_t {
    start,      ///< time
    entries,    ///< core, how many, insns at the end, and each entry
    expect,     ///< transfer: id, direction, target, segments, and each one's address and bytes
    cancel,     ///< of all transfers
    sleep,      ///< core
    wake,       ///< core
    play,       ///< without numbers
    drain,      ///< core
    write_rdt,  ///< core, MSR, value
    finished,   ///< outcome: a transfer's id, target, pid, time of its start, time when it is due
    clock,      ///< outcome: core, its clock, bytes that it read, bytes that it wrote
    end,        ///< FNV-1a of all bytes before it
  };

  /// description: the text that load_machine_description() reads.
  InputLog(std::unique_ptr<std::ostream>, const std::string &description, unsigned cores);
  /// Ends the log.
  ~InputLog();
  InputLog(const InputLog &) = delete;
  InputLog &operator=(const InputLog &) = delete;

  void start(Ps at) { record(Op::start, {at}); }
  void entries(unsigned core, const LogEntry *, std::size_t count, std::uint64_t end);
  void expect(const Transfer &);
  void cancel_transfers() { record(Op::cancel, {}); }
  void sleep(unsigned core) { record(Op::sleep, {core}); }
  void wake(unsigned core) { record(Op::wake, {core}); }
  void play() { record(Op::play, {}); }
  void drain(unsigned core) { record(Op::drain, {core}); }
  void write_rdt(unsigned core, std::uint32_t msr, std::uint64_t value) {
    record(Op::write_rdt, {core, msr, value});
  }
  void finished(const FinishedTransfer &);
  void clock(unsigned core, Ps at, std::uint64_t read, std::uint64_t written) {
    record(Op::clock, {core, at, read, written});
  }

  /// The last entry of each core. Entries are written as differences.
  struct Last {
    std::uint64_t insns = 0, arg = 0;
  };
  /// Whether an entry of this kind has a number in `extra`.
  static bool has_extra(LogEntry::Kind);

  /// FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv/), 64 bits.
  class Checksum {
   public:
    void add(const char *data, std::size_t bytes);
    std::uint64_t value() const { return value_; }

   private:
    std::uint64_t value_ = 14695981039346656037u;
  };

 private:
  void record(Op, std::initializer_list<std::uint64_t>);
  void put(std::uint64_t);
  void put_difference(std::uint64_t now, std::uint64_t before);
  void flush();

  std::unique_ptr<std::ostream> out_;
  std::string buffer_;
  std::vector<Last> last_;
  Checksum checksum_;
};

}  // namespace drfq::hardware

#endif
