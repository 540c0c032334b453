// SPDX-License-Identifier: GPL-2.0-only
// A program without a kernel for gem5's X86Board. It finds the registers' PCI function as a kernel
// does, makes traffic of each kind that gem5 leaves without an owner, and prints who was charged.
#include <cstdint>

#include "generated/registers.hh"

namespace {

constexpr std::uint16_t kSerial = 0x3f8, kConfigAddress = 0xcf8, kConfigData = 0xcfc;
// The board's bridge forwards both.
constexpr std::uint32_t kBase = 0xc0400000;         // of the controller's registers
constexpr std::uint32_t kOwnerOfDisk = 0xe0000000;  // bare_metal.py puts it there
constexpr std::uint64_t kMib = 1 << 20, kLine = 64;
constexpr std::uint64_t kCoreOwner = 2, kDiskOwner = 3;
// Above this program and gem5's page tables, which map all addresses to themselves.
constexpr std::uint64_t kArray = 64 * kMib;

void out8(std::uint16_t port, std::uint8_t value) {
  asm volatile("outb %0, %1" ::"a"(value), "d"(port));
}
std::uint8_t in8(std::uint16_t port) {
  std::uint8_t value;
  asm volatile("inb %1, %0" : "=a"(value) : "d"(port));
  return value;
}
void out32(std::uint16_t port, std::uint32_t value) {
  asm volatile("outl %0, %1" ::"a"(value), "d"(port));
}
std::uint32_t in32(std::uint16_t port) {
  std::uint32_t value;
  asm volatile("inl %1, %0" : "=a"(value) : "d"(port));
  return value;
}

volatile std::uint8_t &byte(std::uint64_t address) {
  return *reinterpret_cast<volatile std::uint8_t *>(address);
}
void load(std::uint64_t address) { [[maybe_unused]] const std::uint8_t value = byte(address); }
volatile std::uint64_t &word(std::uint64_t address) {
  return *reinterpret_cast<volatile std::uint64_t *>(address);
}
volatile std::uint64_t &reg(std::uint64_t offset) { return word(kBase + offset); }

void print(const char *text) {
  for (; *text != 0; text++) out8(kSerial, static_cast<std::uint8_t>(*text));
}
void print(const char *kind, const char *name, std::uint64_t value) {
  char digits[21], *at = digits + sizeof digits - 1;
  *at = 0;
  do *--at = static_cast<char>('0' + value % 10);
  while ((value /= 10) != 0);
  print(kind), print(" "), print(name), print(" "), print(at), print("\n");
}

/// gem5's own operations: loads from these addresses, their arguments in registers.
enum class Operation : std::uint8_t { exit = 0x21, reset_stats = 0x40, dump_stats = 0x41 };
void simulator(Operation o) {
  constexpr std::uint64_t kOperations = 0xffff0000, kNow = 0, kOnce = 0;
  std::uint64_t result = kOperations + (static_cast<std::uint64_t>(o) << 8);
  asm volatile("mov (%0), %0" : "+a"(result) : "D"(kNow), "S"(kOnce));
}

std::uint32_t config(unsigned slot, unsigned at) {
  out32(kConfigAddress, 0x80000000 | slot << 11 | at);
  return in32(kConfigData);
}
void set_config(unsigned slot, unsigned at, std::uint32_t value) {
  out32(kConfigAddress, 0x80000000 | slot << 11 | at);
  out32(kConfigData, value);
}

/// Lets no cache keep an address above 3 GiB: gem5 maps each 2 MiB there by an entry of one table.
void uncache(std::uint32_t address) {
  constexpr std::uint64_t kDirectory = 0x75000, kCacheDisable = 0x10;
  std::uint64_t const entry = kDirectory + 8 * (address / (2 * kMib) % 512);
  word(entry) = word(entry) | kCacheDisable;
}

bool find_registers() {
  using namespace drfq::virtual_machine;
  constexpr unsigned kCommand = 4, kMemorySpace = 2, kBar = 0x10 + 4 * kPciBar;
  for (unsigned slot = 0; slot < 32; slot++) {
    if (config(slot, 0) != (kPciDevice << 16 | kPciVendor)) continue;
    print("function", "slot", slot);
    set_config(slot, kBar, ~0u);
    print("function", "bytes", ~(config(slot, kBar) & ~0xfu) + 1u);
    uncache(kBase);
    set_config(slot, kBar, kBase);
    set_config(slot, kCommand, config(slot, kCommand) | kMemorySpace);
    print("function", "id", reg(drfq::mmio::kId));
    return true;
  }
  return false;
}

/// Prints the bytes since the last call, after a while in which the caches write back.
void report(const char *kind) {
  for (volatile unsigned i = 0; i < 2000; i = i + 1) continue;
  const auto moved = [](std::uint64_t owner) { return reg(drfq::mmio::kTraffic + 8 * owner); };
  const std::uint64_t none = moved(0), core = moved(kCoreOwner), disk = moved(kDiskOwner);
  print(kind, "none", none);
  print(kind, "core", core);
  print(kind, "disk", disk);
}

/// Reads the disk's first sectors by DMA, as a driver does.
void read_disk(std::uint8_t sectors) {
  constexpr unsigned kSlot = 4, kCommand = 4, kPortsAndMaster = 5, kBar4 = 0x20;
  constexpr std::uint16_t kDisk = 0x1f0, kMaster = 0xc000;
  constexpr std::uint64_t kTable = 48 * kMib, kEnd = 1ull << 63;
  uncache(kOwnerOfDisk);
  word(kOwnerOfDisk) = kDiskOwner;
  set_config(kSlot, kBar4, kMaster);
  set_config(kSlot, kCommand, config(kSlot, kCommand) | kPortsAndMaster);
  word(kTable) = kArray | static_cast<std::uint64_t>(sectors * 512) << 32 | kEnd;
  out32(kMaster + 4, kTable);
  out8(kDisk + 6, 0xe0);  // LBA, the first drive
  out8(kDisk + 2, sectors);
  for (unsigned i = 3; i < 6; i++) out8(static_cast<std::uint16_t>(kDisk + i), 0);
  out8(kDisk + 7, 0xc8);  // READ DMA
  out8(kMaster, 0x09);    // to memory, start
  while ((in8(kMaster + 2) & 4) == 0) continue;
}

template <class F>
void each_line(std::uint64_t from, std::uint64_t bytes, F f) {
  for (std::uint64_t at = from; at < from + bytes; at += kLine) f(at);
}

void make_traffic() {
  // Pages of 2 MiB, more than the TLB holds: each access is a walk.
  for (unsigned round = 0; round < 2; round++)
    for (std::uint64_t page = 32; page < 1056; page++) load(page * (2 * kMib + kLine));
  report("walks");
  each_line(kArray, 4 * kMib,
            [](std::uint64_t at) { asm volatile("prefetcht0 %0" ::"m"(byte(at))); });
  report("prefetches");
  // More than the second level holds, so its dirty lines are replaced.
  each_line(kArray + 8 * kMib, 8 * kMib, [](std::uint64_t at) { byte(at) = 1; });
  report("replacements");
  read_disk(64);
  report("transfers");
}

}  // namespace

extern "C" {

std::uint8_t stack[16384];

[[noreturn]] void main_program() {
  if (find_registers()) {
    reg(drfq::mmio::kPidCore) = kCoreOwner;
    report("before");
    simulator(Operation::reset_stats);
    make_traffic();
    simulator(Operation::dump_stats);
  }
  print("end\n");
  simulator(Operation::exit);
  for (;;) continue;
}
}

asm(".globl _start\n_start: lea stack + 16384(%rip), %rsp\n call main_program");
