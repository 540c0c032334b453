// SPDX-License-Identifier: GPL-2.0-only
#include "vcpu.hh"

#include <algorithm>
#include <cstring>

namespace drfq::plugin {

std::uint64_t Vcpu::get(Reg r) const {
  std::uint64_t value = 0;
  g_byte_array_set_size(buffer, 0);
  if (qemu_plugin_read_register(registers[r], buffer))
    std::memcpy(&value, buffer->data, std::min<std::size_t>(buffer->len, sizeof value));
  return value;
}

void Vcpu::set(Reg r, std::uint64_t value) const {
  g_byte_array_set_size(buffer, 0);
  g_byte_array_append(buffer, reinterpret_cast<const std::uint8_t *>(&value), sizeof value);
  qemu_plugin_write_register(registers[r], buffer);
}

}  // namespace drfq::plugin
