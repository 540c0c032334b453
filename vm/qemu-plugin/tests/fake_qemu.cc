// SPDX-License-Identifier: GPL-2.0-only
#include "fake_qemu.hh"

#include <cstring>

namespace drfq::plugin {

FakeQemu fake;

namespace {

/// A GByteArray and its contents.
struct Buffer {
  GByteArray array{nullptr, 0};
  std::uint8_t bytes[64];
};

std::uint64_t looked_up;

unsigned index_of(const qemu_plugin_register *r) {
  return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(r) - 1);
}

}  // namespace

qemu_plugin_meminfo_t info_of(unsigned bytes) {
  unsigned shift = 0;
  while (1u << shift < bytes) shift++;
  return shift;
}

Vcpu fake_vcpu(unsigned index, InlineCounters *counters) {
  static std::array<Buffer, 8> buffers;
  Vcpu vcpu;
  vcpu.index = index;
  vcpu.counters = counters;
  vcpu.buffer = &buffers[index].array;
  vcpu.buffer->data = buffers[index].bytes;
  for (unsigned r = 0; r < reg_count; r++)
    vcpu.registers[r] = reinterpret_cast<qemu_plugin_register *>(std::uintptr_t{r + 1});
  return vcpu;
}

}  // namespace drfq::plugin

using drfq::plugin::fake;

extern "C" {
GByteArray *g_byte_array_set_size(GByteArray *a, unsigned n) {
  a->len = n;
  return a;
}
GByteArray *g_byte_array_append(GByteArray *a, const std::uint8_t *bytes, unsigned n) {
  std::memcpy(a->data + a->len, bytes, n);
  a->len += n;
  return a;
}
bool qemu_plugin_read_register(qemu_plugin_register *r, GByteArray *to) {
  const std::uint64_t v = fake.registers[drfq::plugin::index_of(r)];
  g_byte_array_append(to, reinterpret_cast<const std::uint8_t *>(&v), sizeof v);
  return true;
}
bool qemu_plugin_write_register(qemu_plugin_register *r, GByteArray *from) {
  std::memcpy(&fake.registers[drfq::plugin::index_of(r)], from->data, sizeof(std::uint64_t));
  return true;
}
void qemu_plugin_set_pc(std::uint64_t pc) { throw drfq::plugin::Jump{pc}; }
int qemu_plugin_read_memory_hwaddr(std::uint64_t physical, GByteArray *to, std::size_t) {
  const std::uint32_t v = fake.memory[physical];
  g_byte_array_append(to, reinterpret_cast<const std::uint8_t *>(&v), sizeof v);
  return 0;
}
int qemu_plugin_write_memory_hwaddr(std::uint64_t physical, GByteArray *from) {
  std::uint32_t v = 0;
  std::memcpy(&v, from->data, sizeof v);
  fake.writes.emplace_back(physical, v);
  return 0;
}
bool qemu_plugin_translate_vaddr(std::uint64_t address, std::uint64_t *physical) {
  const auto page = fake.pages.find(address >> 12);
  if (page == fake.pages.end()) return false;
  *physical = page->second << 12 | (address & 0xfff);
  return true;
}
unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info) { return info; }
qemu_plugin_mem_value qemu_plugin_mem_get_value(qemu_plugin_meminfo_t info) {
  qemu_plugin_mem_value v{};
  v.type = static_cast<int>(info);
  v.data.u64 = fake.value;
  return v;
}
qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t, std::uint64_t address) {
  using drfq::plugin::looked_up;
  if (!qemu_plugin_translate_vaddr(address, &looked_up)) return nullptr;
  return reinterpret_cast<qemu_plugin_hwaddr *>(&looked_up);
}
bool qemu_plugin_hwaddr_is_io(const qemu_plugin_hwaddr *) {
  return drfq::plugin::looked_up >> 12 == fake.io;
}
std::uint64_t qemu_plugin_hwaddr_phys_addr(const qemu_plugin_hwaddr *) {
  return drfq::plugin::looked_up;
}
}
