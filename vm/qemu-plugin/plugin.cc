// SPDX-License-Identifier: GPL-2.0-only
// The QEMU plugin: connects QEMU's callbacks to the hardware model. The guest boots on the host's
// clock with almost no instrumentation. When the guest asks for it (guest/go_live.c) the machine
// goes live: from then on time, caches and memory contention are simulated.
//
// Arguments: machine=FILE [stats=FILE] [interval_ms=N] [bar=FILE] [device=SOCKET] [device_log=FILE]
//            [input_log=FILE] [failures=FILE]
//   machine      the description, vm/machines/*.toml
//   stats        gets the ground truth, one line of JSON per interval
//   interval_ms  in simulated time; default 100
//   bar          the memory behind the controller's PCI BAR, shared with QEMU
//   device       where QEMU's vfio-user-pci finds the storage device of the description
//   device_log   gets a line for each I/O command of that device
//   input_log    gets all that timing depends on, for replay_machine
//   failures     tells the harness that one of these files could not be written (log_file.hh)
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <stdexcept>

#include "instruction_emulator.hh"
#include "data_path.hh"
#include "log_file.hh"
#include "nvme_device.hh"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace drfq::plugin {
namespace {

using Options = std::map<std::string, std::string>;

std::runtime_error with_errno(const std::string &what) {
  return std::runtime_error(what + ": " + std::strerror(errno));
}

std::string read_text(const std::string &path) {
  std::ifstream in(path);
  if (!in) throw with_errno(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

hardware::MachineDescription read_machine_description(const std::string &path) {
  return hardware::load_machine_description(path, read_text(path));
}

/// Reads interval_ms. Longer ones than the limit would exceed the range of Ps.
Ps interval(const std::string &ms) {
  constexpr std::uint64_t kMax = 1'000'000'000;
  const std::uint64_t value = std::stoull(ms);
  if (value == 0 || value > kMax)
    throw std::runtime_error("interval_ms=" + ms + " must be from 1 to " + std::to_string(kMax));
  return value * kPsPerMs;
}

void *map_bar(const std::string &path) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) throw with_errno(path);
  void *page =
      mmap(nullptr, hardware::HardwareModel::kBarBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (page == MAP_FAILED) throw with_errno(path);
  return page;
}

class Plugin final : public InstructionEmulator::Host {
 public:
  Plugin(qemu_plugin_id_t id, unsigned cores, const Options &o)
      : id_(id),
        hardware_(read_machine_description(o.at("machine"))),
        scheduler_(hardware_, cores),
        data_(hardware_, scheduler_),
        emulator_(hardware_, scheduler_, *this),
        vcpus_(cores),
        generations_(cores),
        score_(qemu_plugin_scoreboard_new(sizeof(InlineCounters))),
        failures_(o.count("failures") != 0 ? o.at("failures") : "") {
    if (cores != hardware_.description().cores)
      throw std::runtime_error("the description has " +
                               std::to_string(hardware_.description().cores) +
                               " cores but QEMU has " + std::to_string(cores) +
                               "; start QEMU with -smp equal to cores in [cpu]");
    stats_ = log_file(o, "stats");
    if (const auto f = o.find("bar"); f != o.end()) bar_ = map_bar(f->second);
    if (const auto f = o.find("interval_ms"); f != o.end()) interval_ = interval(f->second);
    for (unsigned c = 0; c < cores; c++) vcpus_[c].index = c;
    add_device(o);
    add_input_log(o);
    register_callbacks();
  }

  // InstructionEmulator::Host
  bool live() const override { return live_; }
  void go_live(std::uint64_t bar) override {
    bar_address_ = bar;
    // QEMU discards all translated code and calls start() while no vCPU runs.
    qemu_plugin_reset(id_, [](void *self) { static_cast<Plugin *>(self)->start(); }, this);
  }
  void write_ground_truth() override {
    if (stats_ != nullptr) scheduler_.write_ground_truth(*stats_);
  }
  std::uint64_t boot_tsc() const override {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(host_ns()) *
                                      hardware_.description().tsc_hz / 1'000'000'000);
  }

 private:
  static Plugin &of(void *self) { return *static_cast<Plugin *>(self); }

  std::uint64_t host_ns() const {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                          std::chrono::steady_clock::now() - begin_)
                                          .count());
  }

  void register_callbacks() {
    qemu_plugin_register_vcpu_init_cb(
        id_, [](unsigned c, void *self) { of(self).vcpu_init(c); }, this);
    qemu_plugin_register_vcpu_tb_trans_cb(
        id_, [](qemu_plugin_tb *tb, void *self) { of(self).translate(tb); }, this);
    qemu_plugin_register_flush_cb(id_, [](void *self) { of(self).forget_code(); }, this);
    qemu_plugin_register_atexit_cb(id_, [](void *self) { of(self).at_exit(); }, this);
    if (live_)
      qemu_plugin_register_vcpu_discon_cb(
          id_, QEMU_PLUGIN_DISCON_EXCEPTION,
          [](unsigned c, int, std::uint64_t from, std::uint64_t, void *self) {
            of(self).exception(c, from);
          },
          this);
  }

  /// The file of an option. Null: it is not given.
  std::unique_ptr<std::ostream> log_file(const Options &o, const std::string &option) {
    const auto path = o.find(option);
    if (path == o.end()) return nullptr;
    return std::make_unique<LogFile>(path->second, &failures_);
  }

  void add_device(const Options &o) {
    const auto socket = o.find("device");
    if (hardware_.description().storage.queues == 0) {
      if (socket != o.end() || o.count("device_log") != 0)
        throw std::runtime_error(
            "device and device_log need [storage] in the machine's description");
      return;
    }
    if (socket == o.end()) throw std::runtime_error("[storage] needs the argument device=SOCKET");
    device_ = std::make_unique<NvmeDevice>(hardware_, scheduler_, socket->second,
                                           log_file(o, "device_log"));
    scheduler_.attach(device_.get());
    data_.attach(device_.get());
  }

  void add_input_log(const Options &o) {
    std::unique_ptr<std::ostream> file = log_file(o, "input_log");
    if (file == nullptr) return;
    hardware_.record(std::make_unique<hardware::InputLog>(
        std::move(file), read_text(o.at("machine")), hardware_.description().cores));
  }

  /// Starts simulated time. No vCPU runs meanwhile.
  void start() {
    live_ = true;
    for (Vcpu &vcpu : vcpus_) {
      if (vcpu.counters == nullptr) continue;
      *vcpu.counters = InlineCounters{};
      vcpu.request_turn();
      vcpu.forget_pages();
    }
    if (bar_ != nullptr && bar_address_ != 0) hardware_.attach_bar(bar_, bar_address_);
    if (device_ != nullptr) device_->appear();
    scheduler_.start(host_ns() * kPsPerNs, stats_.get(), interval_);
    register_callbacks();
  }

  void at_exit() {
    if (live_) write_ground_truth();
    hardware_.record(nullptr);
  }

  void vcpu_init(unsigned c) {
    Vcpu &vcpu = vcpus_[c];
    vcpu.counters = static_cast<InlineCounters *>(qemu_plugin_scoreboard_find(score_, c));
    vcpu.buffer = g_byte_array_new();
    static const char *const names[] = {"rax", "rcx", "rdx", "rbx",    "rsp", "rbp", "rsi",
                                        "rdi", "r8",  "r9",  "r10",    "r11", "r12", "r13",
                                        "r14", "r15", "rip", "eflags", "cr4"};
    GArray *all = qemu_plugin_get_registers();
    for (unsigned i = 0; i < all->len; i++) {
      const auto &d = reinterpret_cast<const qemu_plugin_reg_descriptor *>(all->data)[i];
      for (unsigned r = 0; r < reg_count; r++)
        if (std::strcmp(d.name, names[r]) == 0) vcpu.registers[r] = d.handle;
    }
    g_array_free(all, 1);
  }

  void forget_code() {
    const std::lock_guard<std::mutex> lock(code_mutex_);
    blocks_.clear();
    sites_.clear();
    for (Vcpu &vcpu : vcpus_)
      if (vcpu.counters != nullptr) vcpu.counters->block = nullptr;
  }

  void take_turn(unsigned c) {
    Vcpu &vcpu = vcpus_[c];
    emulator_.amend_cpuid(vcpu);
    if (!live_) {
      vcpu.counters->turn_counter = 0;
      return;
    }
    if (generations_[c] != data_.generation()) {
      generations_[c] = data_.generation();
      vcpu.forget_pages();
    }
    if (scheduler_.take_turn(vcpu, vcpu.retired())) return;
    // Leave translated code and start this block again; RIP still points to its start.
    vcpu.counters->block = nullptr;
    qemu_plugin_set_pc(vcpu.get(rip));
  }

  /// The instruction at from faulted: it and the rest of its block did not retire.
  void exception(unsigned c, std::uint64_t from) {
    Vcpu &vcpu = vcpus_[c];
    const Block *b = vcpu.counters->block;
    vcpu.counters->block = nullptr;
    if (b == nullptr) return;
    for (std::size_t i = 0; i < b->offsets.size(); i++)
      if (b->offsets[i] == (from & 0xfff)) {
        vcpu.counters->insns[static_cast<unsigned>(b->ring)] -= b->offsets.size() - i;
        return;
      }
  }

  void translate(qemu_plugin_tb *tb);
  void instrument(qemu_plugin_tb *tb, qemu_plugin_insn *insn, Ring ring, std::size_t i,
                  std::size_t n);
  template <hardware::AccessKind kind, Ring ring>
  static void on_data(unsigned c, qemu_plugin_meminfo_t info, std::uint64_t address, void *left) {
    Plugin &p = *instance;
    Vcpu &vcpu = p.vcpus_[c];
    const std::uint64_t insns =
        vcpu.counters->insns[0] + vcpu.counters->insns[1] - reinterpret_cast<std::uintptr_t>(left);
    p.data_.access(vcpu, info, address, kind, insns, ring);
  }

  const qemu_plugin_id_t id_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  hardware::HardwareModel hardware_;
  VcpuScheduler scheduler_;
  DataPath data_;
  InstructionEmulator emulator_;
  std::unique_ptr<NvmeDevice> device_;
  std::deque<Vcpu> vcpus_;
  std::vector<std::uint32_t> generations_;
  qemu_plugin_scoreboard *score_;
  LogFailures failures_;
  std::unique_ptr<std::ostream> stats_;
  Ps interval_ = 100 * kPsPerMs;
  void *bar_ = nullptr;
  std::uint64_t bar_address_ = 0;
  bool live_ = false;

  std::mutex code_mutex_;
  std::deque<Block> blocks_;
  std::deque<InsnSite> sites_;

 public:
  static Plugin *instance;
};

Plugin *Plugin::instance = nullptr;

/// How the callback before an instruction accesses registers (QEMU_PLUGIN_CB_*).
int register_access(SpecialInsn insn) {
  switch (insn) {
    case SpecialInsn::clflush:
    case SpecialInsn::address_space:
      return QEMU_PLUGIN_CB_R_REGS;
    case SpecialInsn::translation:
    case SpecialInsn::pause:
      return QEMU_PLUGIN_CB_NO_REGS;
    default:
      return QEMU_PLUGIN_CB_RW_REGS_PC;
  }
}

void Plugin::instrument(qemu_plugin_tb *tb, qemu_plugin_insn *insn, Ring ring, std::size_t i,
                        std::size_t n) {
  const std::uint64_t address = qemu_plugin_insn_vaddr(insn);
  const std::uint64_t start = qemu_plugin_tb_vaddr(tb);
  std::uint8_t bytes[16];
  const std::size_t size = qemu_plugin_insn_data(insn, bytes, sizeof bytes);
  if (live_) {
    // Instructions after this one: the counters already include the whole block.
    void *left = reinterpret_cast<void *>(n - i - 1);
    const bool user = ring == Ring::user;
    using hardware::AccessKind;
    qemu_plugin_register_vcpu_mem_cb(
        insn,
        user ? on_data<AccessKind::load, Ring::user> : on_data<AccessKind::load, Ring::kernel>,
        QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_R, left);
    const auto store =
        user ? on_data<AccessKind::store, Ring::user> : on_data<AccessKind::store, Ring::kernel>;
    const auto streaming = user ? on_data<AccessKind::streaming, Ring::user>
                                : on_data<AccessKind::streaming, Ring::kernel>;
    qemu_plugin_register_vcpu_mem_cb(insn, is_streaming_store(bytes, size) ? streaming : store,
                                     QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_W, left);
  }
  const SpecialInsn what = decode(bytes, size);
  if (what == SpecialInsn::none) return;
  if (!live_ &&
      (what == SpecialInsn::hlt || what == SpecialInsn::pause || what == SpecialInsn::clflush ||
       what == SpecialInsn::address_space || what == SpecialInsn::translation))
    return;
  InsnSite site;
  site.insn = what;
  site.block_offset = start & 0xfff;
  site.offset = address & 0xfff;
  site.bytes = static_cast<std::uint8_t>(size);
  site.on_second_page = (address >> 12) != (start >> 12);
  site.ring = ring;
  site.counted = live_;
  site.left = static_cast<std::uint16_t>(n - i);
  if (what == SpecialInsn::clflush) site.operand = clflush_operand(bytes, size);
  if (what == SpecialInsn::address_space) site.operand = address_space_operand(bytes, size);
  const std::lock_guard<std::mutex> lock(code_mutex_);
  qemu_plugin_register_vcpu_insn_exec_cb(
      insn,
      [](unsigned c, void *s) {
        instance->emulator_.run(instance->vcpus_[c], *static_cast<const InsnSite *>(s));
      },
      register_access(what), &sites_.emplace_back(site));
  if (what == SpecialInsn::cpuid && i + 1 < n)
    qemu_plugin_register_vcpu_insn_exec_cb(
        qemu_plugin_tb_get_insn(tb, i + 1),
        [](unsigned c, void *) { instance->emulator_.amend_cpuid(instance->vcpus_[c]); },
        QEMU_PLUGIN_CB_RW_REGS, nullptr);
}

void Plugin::translate(qemu_plugin_tb *tb) {
  const std::size_t n = qemu_plugin_tb_n_insns(tb);
  // Kernel addresses are the upper half. A block lies in one half, so it belongs to one ring.
  const Ring ring = qemu_plugin_tb_vaddr(tb) >> 63 != 0 ? Ring::kernel : Ring::user;
  qemu_plugin_register_vcpu_tb_exec_cond_cb(
      tb, [](unsigned c, void *) { instance->take_turn(c); }, QEMU_PLUGIN_CB_RW_REGS_PC,
      QEMU_PLUGIN_COND_GE, {score_, offsetof(InlineCounters, turn_counter)}, kTurnThreshold,
      nullptr);
  if (live_) {
    Block block{ring, {}};
    for (std::size_t i = 0; i < n; i++)
      block.offsets.push_back(qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, i)) & 0xfff);
    const Block *stored;
    {
      const std::lock_guard<std::mutex> lock(code_mutex_);
      stored = &blocks_.emplace_back(std::move(block));
    }
    const std::size_t insns =
        offsetof(InlineCounters, insns) + static_cast<unsigned>(ring) * sizeof(std::uint64_t);
    qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64,
                                                      {score_, insns}, n);
    qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
        tb, QEMU_PLUGIN_INLINE_ADD_U64, {score_, offsetof(InlineCounters, turn_counter)}, n);
    qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_STORE_U64,
                                                      {score_, offsetof(InlineCounters, block)},
                                                      reinterpret_cast<std::uintptr_t>(stored));
  }
  for (std::size_t i = 0; i < n; i++) instrument(tb, qemu_plugin_tb_get_insn(tb, i), ring, i, n);
}

}  // namespace
}  // namespace drfq::plugin

extern "C" {
__attribute__((visibility("default"))) int qemu_plugin_version = 7;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
                               char **argv) {
  using drfq::plugin::Plugin;
  try {
    drfq::plugin::Options options;
    for (int i = 0; i < argc; i++) {
      const std::string word = argv[i];
      const std::size_t equals = word.find('=');
      options[word.substr(0, equals)] = equals == std::string::npos ? "" : word.substr(equals + 1);
    }
    if (options.count("machine") == 0)
      throw std::runtime_error("the argument machine=FILE is missing");
    Plugin::instance = new Plugin(id, static_cast<unsigned>(info->system.smp_vcpus), options);
    return 0;
  } catch (const std::exception &e) {
    std::cerr << "QEMU plugin: " << e.what() << std::endl;
    return 1;
  }
}
