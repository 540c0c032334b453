// SPDX-License-Identifier: GPL-2.0-only
#include "vfio_user_server.hh"

#include <linux/vfio.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace drfq::plugin {
namespace {

enum Command : std::uint16_t {
  kVersion = 1,
  kDmaMap = 2,
  kDmaUnmap = 3,
  kDeviceInfo = 4,
  kRegionInfo = 5,
  kIrqInfo = 7,
  kSetIrqs = 8,
  kRegionRead = 9,
  kRegionWrite = 10,
  kReset = 13,
};

constexpr std::uint32_t kReply = 1, kNoReply = 0x10, kError = 0x20;
/// QEMU's longest message is a region's data, far shorter.
constexpr std::uint32_t kMaxMessageBytes = 1 << 20;

/// Offsets of the configuration space (PCI Local Bus Specification 3.0, chapter 6 and 6.8.2).
constexpr unsigned kStatus = 0x06, kClass = 0x09, kBar0 = 0x10, kSubsystem = 0x2c,
                   kCapability = 0x34, kMsix = 0x40;
/// A vendor id that QEMU's own devices use, and a device id that is ours alone.
constexpr std::uint16_t kVendor = 0x1234, kDevice = 0x6e76;

/// An access to a region; its data follows.
struct Access {
  std::uint64_t offset = 0;
  std::uint32_t region = 0, count = 0;
};

template <typename T>
void append(std::vector<std::uint8_t> *out, const T &value) {
  const std::size_t at = out->size();
  out->resize(at + sizeof value);
  std::memcpy(out->data() + at, &value, sizeof value);
}

/// The value at an offset; zeros where the message has ended.
template <typename T>
T take(const std::vector<std::uint8_t> &from, std::size_t offset = 0) {
  T value{};
  if (offset + sizeof value <= from.size()) std::memcpy(&value, from.data() + offset, sizeof value);
  return value;
}

bool read_all(int socket, void *to, std::size_t bytes) {
  auto *p = static_cast<char *>(to);
  while (bytes != 0) {
    const ssize_t n = read(socket, p, bytes);
    if (n <= 0) return false;
    p += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

/// Whether software may change this byte: command, cache line, latency, BAR 0, interrupt line and
/// the control of MSI-X.
bool is_writable(std::uint64_t offset) {
  return (offset >= 4 && offset < 6) || offset == 0x0c || offset == 0x0d ||
         (offset >= kBar0 && offset < kBar0 + 8) || offset == 0x3c || offset == kMsix + 3;
}

std::runtime_error with_errno(const std::string &what) {
  return std::runtime_error(what + ": " + std::strerror(errno));
}

int listen_at(const std::string &path) {
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  if (path.size() >= sizeof a.sun_path) throw std::runtime_error(path + ": too long for a socket");
  std::memcpy(a.sun_path, path.c_str(), path.size() + 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  unlink(path.c_str());
  if (fd < 0 || bind(fd, reinterpret_cast<sockaddr *>(&a), sizeof a) != 0 || listen(fd, 1) != 0)
    throw with_errno(path);
  return fd;
}

}  // namespace

VfioUserServer::VfioUserServer(const std::string &path, std::uint32_t class_code, unsigned vectors)
    : vectors_(vectors) {
  bar_fd_ = memfd_create("drfq-device", MFD_CLOEXEC);
  if (bar_fd_ < 0 || ftruncate(bar_fd_, kFunctionBytes) != 0) throw with_errno("a device's memory");
  void *m = mmap(nullptr, kFunctionBytes, PROT_READ | PROT_WRITE, MAP_SHARED, bar_fd_, 0);
  if (m == MAP_FAILED) throw with_errno("a device's memory");
  bar_ = static_cast<std::uint8_t *>(m);
  const auto put = [this](unsigned offset, auto value) {
    std::memcpy(&config_[offset], &value, sizeof value);
  };
  put(0, kVendor);
  put(2, kDevice);
  put(kStatus, std::uint16_t{0x10});  // there is a list of capabilities
  put(kClass - 1, class_code << 8 | 1);
  put(kBar0, std::uint32_t{4});  // 64-bit memory
  put(kSubsystem, kVendor);
  put(kSubsystem + 2, kDevice);
  put(kCapability, std::uint8_t{kMsix});
  put(kMsix, std::uint16_t{0x11});
  put(kMsix + 2, static_cast<std::uint16_t>(vectors - 1));
  put(kMsix + 4, static_cast<std::uint32_t>(kMsixTable));
  put(kMsix + 8, static_cast<std::uint32_t>(kMsixPending));
  const int listener = listen_at(path);
  // QEMU's signals are for its own threads.
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  std::thread([this, listener] {
    const int s = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    close(listener);
    if (s >= 0) serve(s);
  }).detach();
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

/// Receives a message. Descriptors that come with it, those of the guest's memory, are closed.
bool VfioUserServer::receive(int socket, Header *h, Bytes *body) const {
  iovec v{h, sizeof *h};
  alignas(cmsghdr) char control[CMSG_SPACE(16 * sizeof(int))] = {};
  msghdr m{};
  m.msg_iov = &v;
  m.msg_iovlen = 1;
  m.msg_control = control;
  m.msg_controllen = sizeof control;
  if (recvmsg(socket, &m, MSG_WAITALL | MSG_CMSG_CLOEXEC) != sizeof *h) return false;
  for (cmsghdr *c = CMSG_FIRSTHDR(&m); c != nullptr; c = CMSG_NXTHDR(&m, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      close(fd);
    }
  }
  if (h->size < sizeof *h || h->size > kMaxMessageBytes) return false;
  body->resize(h->size - sizeof *h);
  return read_all(socket, body->data(), body->size());
}

void VfioUserServer::answer(int socket, Header h, const Bytes &body, int fd) const {
  if ((h.flags & kNoReply) != 0) return;
  Bytes out;
  h.size = static_cast<std::uint32_t>(sizeof h + body.size());
  h.flags |= kReply;
  append(&out, h);
  out.insert(out.end(), body.begin(), body.end());
  iovec v{out.data(), out.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr m{};
  m.msg_iov = &v;
  m.msg_iovlen = 1;
  if (fd >= 0) {
    m.msg_control = control;
    m.msg_controllen = sizeof control;
    cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
  }
  // If QEMU has gone, so has its reason to be answered.
  static_cast<void>(sendmsg(socket, &m, MSG_NOSIGNAL));
}

void VfioUserServer::refuse(int socket, Header h) const {
  h.flags |= kError;
  h.error = EINVAL;
  answer(socket, h, {});
}

void VfioUserServer::serve(int socket) {
  Header h;
  Bytes body;
  while (receive(socket, &h, &body)) {
    h.flags &= kNoReply;
    handle(socket, h, body);
  }
  close(socket);
}

void VfioUserServer::handle(int socket, const Header &h, const Bytes &body) {
  switch (h.command) {
    case kVersion: {
      static constexpr char kCapabilities[] =
          R"({"capabilities":{"max_msg_fds":8,"max_data_xfer_size":1048576}})";
      Bytes out(body.begin(),
                body.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(4, body.size())));
      append(&out, kCapabilities);
      return answer(socket, h, out);
    }
    case kDmaMap:
    case kSetIrqs:
    case kReset:
      return answer(socket, h, {});
    case kDmaUnmap:
      return answer(socket, h, body);
    case kDeviceInfo: {
      Bytes out;
      for (const std::uint32_t word :
           {std::uint32_t{16}, std::uint32_t{VFIO_DEVICE_FLAGS_RESET | VFIO_DEVICE_FLAGS_PCI},
            std::uint32_t{VFIO_PCI_NUM_REGIONS}, std::uint32_t{VFIO_PCI_NUM_IRQS}})
        append(&out, word);
      return answer(socket, h, out);
    }
    case kRegionInfo:
      return region_info(socket, h, body);
    case kIrqInfo:
      return irq_info(socket, h, body);
    case kRegionRead:
      return region_read(socket, h, body);
    case kRegionWrite:
      return region_write(socket, h, body);
    default:
      return refuse(socket, h);
  }
}

void VfioUserServer::region_info(int socket, const Header &h, const Bytes &body) const {
  struct {
    vfio_region_info info;
    vfio_info_cap_header header;
    std::uint32_t areas, reserved;
    std::uint64_t offset, bytes;
  } out{};
  const auto asked = take<std::uint32_t>(body), index = take<std::uint32_t>(body, 8);
  out.info.index = index;
  out.info.argsz = sizeof out.info;
  int fd = -1;
  if (index == VFIO_PCI_CONFIG_REGION_INDEX || index == VFIO_PCI_BAR0_REGION_INDEX) {
    out.info.size = index == VFIO_PCI_BAR0_REGION_INDEX ? kFunctionBytes : config_.size();
    out.info.flags = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
  }
  if (index == VFIO_PCI_BAR0_REGION_INDEX) {
    out.info.flags |= VFIO_REGION_INFO_FLAG_MMAP | VFIO_REGION_INFO_FLAG_CAPS;
    out.info.argsz = sizeof out;
    // QEMU looks at it in the short answer, too.
    out.info.cap_offset = sizeof out.info;
    out.header = {VFIO_REGION_INFO_CAP_SPARSE_MMAP, 1, 0};
    out.areas = 1;
    out.bytes = kMsixTable;
    if (asked >= sizeof out) fd = bar_fd_;
  }
  const auto *p = reinterpret_cast<const std::uint8_t *>(&out);
  answer(socket, h, Bytes(p, p + (fd >= 0 ? sizeof out : sizeof out.info)), fd);
}

void VfioUserServer::irq_info(int socket, const Header &h, const Bytes &body) const {
  const auto index = take<std::uint32_t>(body, 8);
  std::uint32_t flags = 0, count = 0;
  if (index == VFIO_PCI_MSIX_IRQ_INDEX) {
    flags = VFIO_IRQ_INFO_EVENTFD | VFIO_IRQ_INFO_NORESIZE;
    count = vectors_;
  } else if (index >= VFIO_PCI_ERR_IRQ_INDEX) {
    // QEMU warns about a device without them.
    flags = VFIO_IRQ_INFO_EVENTFD;
    count = 1;
  }
  Bytes out;
  for (const std::uint32_t word : {std::uint32_t{16}, flags, index, count}) append(&out, word);
  answer(socket, h, out);
}

std::uint8_t *VfioUserServer::space(std::uint32_t region, std::uint64_t offset,
                                    std::uint32_t count) {
  const bool bar = region == VFIO_PCI_BAR0_REGION_INDEX;
  if (!bar && region != VFIO_PCI_CONFIG_REGION_INDEX) return nullptr;
  const std::uint64_t bytes = bar ? kFunctionBytes : config_.size();
  if (offset > bytes || count > bytes - offset) return nullptr;
  return (bar ? bar_ : config_.data()) + offset;
}

void VfioUserServer::region_read(int socket, const Header &h, const Bytes &body) {
  const auto a = take<Access>(body);
  const std::uint8_t *from = space(a.region, a.offset, a.count);
  if (from == nullptr) return refuse(socket, h);
  Bytes out;
  append(&out, a);
  out.insert(out.end(), from, from + a.count);
  answer(socket, h, out);
}

void VfioUserServer::region_write(int socket, const Header &h, const Bytes &body) {
  const auto a = take<Access>(body);
  std::uint8_t *to = space(a.region, a.offset, a.count);
  if (to == nullptr || body.size() < sizeof a + a.count) return refuse(socket, h);
  if (a.region == VFIO_PCI_CONFIG_REGION_INDEX)
    write_config(a.offset, body.data() + sizeof a, a.count);
  else
    std::memcpy(to, body.data() + sizeof a, a.count);
  Bytes out;
  append(&out, a);
  answer(socket, h, out);
}

void VfioUserServer::write_config(std::uint64_t offset, const std::uint8_t *from,
                                  std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; i++)
    if (is_writable(offset + i)) config_[offset + i] = from[i];
  if (offset >= kBar0 + 8 || offset + count <= kBar0) return;
  std::uint64_t address;
  std::memcpy(&address, &config_[kBar0], sizeof address);
  // The low bits tell size and kind. All ones ask for the size, which QEMU answers itself.
  config_[kBar0] = static_cast<std::uint8_t>((config_[kBar0] & 0xf0) | 4);
  address_.store(address & ~std::uint64_t{0xf}, std::memory_order_relaxed);
}

}  // namespace drfq::plugin
