// SPDX-License-Identifier: GPL-2.0-only
// A PCI function for QEMU's device vfio-user-pci (QEMU, docs/interop/vfio-user.rst). It gives the
// guest a configuration space, a BAR that is plain memory, and an MSI-X table that QEMU keeps. The
// model behind it sees the guest's stores as the plugin does, and no message concerns them.
//
// QEMU's threads wait for replies while they hold QEMU's lock. The server's thread therefore takes
// no other lock.
#ifndef DRFQ_PLUGIN_VFIO_USER_SERVER_HH
#define DRFQ_PLUGIN_VFIO_USER_SERVER_HH

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace drfq::plugin {

/// BAR 0: memory, then the MSI-X table, then its pending bits.
inline constexpr std::uint64_t kMsixTable = 0x2000, kMsixPending = 0x3000, kFunctionBytes = 0x4000;

class VfioUserServer {
 public:
  /// Listens at a path and serves the one client in a thread that lives as long as the process.
  /// class_code: 24 bits. vectors: interrupts. Throws std::runtime_error.
  VfioUserServer(const std::string &path, std::uint32_t class_code, unsigned vectors);
  VfioUserServer(const VfioUserServer &) = delete;
  VfioUserServer &operator=(const VfioUserServer &) = delete;

  /// The memory of BAR 0, kMsixTable bytes that the guest sees.
  std::uint8_t *memory() const { return bar_; }
  /// Where the guest sees BAR 0; 0: nowhere yet.
  std::uint64_t address() const { return address_.load(std::memory_order_relaxed); }

 private:
  struct Header {
    std::uint16_t id = 0, command = 0;
    std::uint32_t size = 0, flags = 0, error = 0;
  };
  using Bytes = std::vector<std::uint8_t>;

  void serve(int socket);
  bool receive(int socket, Header *, Bytes *body) const;
  void answer(int socket, Header, const Bytes &body, int fd = -1) const;
  void refuse(int socket, Header) const;
  void handle(int socket, const Header &, const Bytes &body);
  void region_info(int socket, const Header &, const Bytes &body) const;
  void irq_info(int socket, const Header &, const Bytes &body) const;
  void region_read(int socket, const Header &, const Bytes &body);
  void region_write(int socket, const Header &, const Bytes &body);
  std::uint8_t *space(std::uint32_t region, std::uint64_t offset, std::uint32_t count);
  void write_config(std::uint64_t offset, const std::uint8_t *from, std::uint32_t count);

  unsigned vectors_;
  std::array<std::uint8_t, 256> config_{};
  int bar_fd_ = -1;
  std::uint8_t *bar_ = nullptr;
  std::atomic<std::uint64_t> address_{0};
};

}  // namespace drfq::plugin

#endif
