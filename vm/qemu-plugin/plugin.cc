// SPDX-License-Identifier: GPL-2.0-only
// The plugin: QEMU's side of a machine. It boots with next to no
// instrumentation, on the host's clock; when the guest asks for it the machine
// goes live: simulated time, caches, contention.
//
// Arguments: machine=FILE [stats=FILE] [interval_ms=N] [bar=FILE]
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

#include "emulate.hh"
#include "memory.hh"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace drfq::plugin {
namespace {

using Options = std::map<std::string, std::string>;

std::runtime_error failed(const std::string &what) {
  return std::runtime_error(what + ": " + std::strerror(errno));
}

machine::Description read_description(const std::string &path) {
  std::ifstream in(path);
  if (!in) throw failed(path);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return machine::load_description(path, text);
}

void *map_bar(const std::string &path) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) throw failed(path);
  void *page =
      mmap(nullptr, machine::Machine::kBarBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (page == MAP_FAILED) throw failed(path);
  return page;
}

class Plugin final : public Emulator::Host {
 public:
  Plugin(qemu_plugin_id_t id, unsigned cores, const Options &o)
      : id_(id),
        machine_(read_description(o.at("machine"))),
        gate_(machine_, cores),
        data_(machine_, gate_),
        emulator_(machine_, gate_, *this),
        cores_(cores),
        generations_(cores),
        score_(qemu_plugin_scoreboard_new(sizeof(Hot))) {
    if (cores != machine_.description().cores)
      throw std::runtime_error("the description has " +
                               std::to_string(machine_.description().cores) + " cores and QEMU " +
                               std::to_string(cores));
    if (const auto f = o.find("stats"); f != o.end()) {
      stats_.open(f->second);
      if (!stats_) throw failed(f->second);
    }
    if (const auto f = o.find("bar"); f != o.end()) bar_ = map_bar(f->second);
    if (const auto f = o.find("interval_ms"); f != o.end())
      interval_ = std::stoull(f->second) * kPsPerMs;
    for (unsigned c = 0; c < cores; c++) cores_[c].index = c;
    register_callbacks();
  }

  // Emulator::Host
  bool live() const override { return live_; }
  void go_live(std::uint64_t bar) override {
    bar_address_ = bar;
    // All code is translated anew then.
    qemu_plugin_reset(id_, [](void *self) { static_cast<Plugin *>(self)->start(); }, this);
  }
  void report() override {
    if (stats_.is_open()) gate_.write_report(stats_);
  }
  std::uint64_t boot_tsc() const override {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(host_ns()) *
                                      machine_.description().tsc_hz / 1'000'000'000);
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

  /// From now on time is simulated. All vCPUs stand still meanwhile.
  void start() {
    live_ = true;
    for (Core &core : cores_) {
      if (core.hot == nullptr) continue;
      *core.hot = Hot{};
      core.hot->spent = kTurn;
      core.forget_pages();
    }
    if (bar_ != nullptr && bar_address_ != 0) machine_.attach_bar(bar_, bar_address_);
    gate_.start(host_ns() * kPsPerNs, stats_.is_open() ? &stats_ : nullptr, interval_);
    register_callbacks();
  }

  void at_exit() {
    if (live_) report();
  }

  void vcpu_init(unsigned c) {
    Core &core = cores_[c];
    core.hot = static_cast<Hot *>(qemu_plugin_scoreboard_find(score_, c));
    core.buffer = g_byte_array_new();
    static const char *const names[] = {"rax", "rcx", "rdx", "rbx",    "rsp", "rbp", "rsi",
                                        "rdi", "r8",  "r9",  "r10",    "r11", "r12", "r13",
                                        "r14", "r15", "rip", "eflags", "cr4"};
    GArray *all = qemu_plugin_get_registers();
    for (unsigned i = 0; i < all->len; i++) {
      const auto &d = reinterpret_cast<const qemu_plugin_reg_descriptor *>(all->data)[i];
      for (unsigned r = 0; r < reg_count; r++)
        if (std::strcmp(d.name, names[r]) == 0) core.registers[r] = d.handle;
    }
    g_array_free(all, 1);
  }

  void forget_code() {
    const std::lock_guard<std::mutex> lock(code_mutex_);
    blocks_.clear();
    sites_.clear();
    for (Core &core : cores_)
      if (core.hot != nullptr) core.hot->block = nullptr;
  }

  void turn(unsigned c) {
    Core &core = cores_[c];
    emulator_.amend_cpuid(core);
    if (!live_) {
      core.hot->spent = 0;
      return;
    }
    if (generations_[c] != data_.generation()) {
      generations_[c] = data_.generation();
      core.forget_pages();
    }
    if (gate_.turn(core, core.progress())) return;
    // Out of translated code, back to the beginning of this block, where the register stands.
    core.hot->block = nullptr;
    qemu_plugin_set_pc(core.get(rip));
  }

  /// A block was left by a fault: what follows the instruction at from, and it, were not done.
  void exception(unsigned c, std::uint64_t from) {
    Core &core = cores_[c];
    const Block *b = core.hot->block;
    core.hot->block = nullptr;
    if (b == nullptr) return;
    for (std::size_t i = 0; i < b->offsets.size(); i++)
      if (b->offsets[i] == (from & 0xfff)) {
        core.hot->insns[static_cast<unsigned>(b->ring)] -= b->offsets.size() - i;
        return;
      }
  }

  void translate(qemu_plugin_tb *tb);
  void instrument(qemu_plugin_tb *tb, qemu_plugin_insn *insn, Ring ring, std::size_t i,
                  std::size_t n);
  template <Special what>
  void emulate_with(qemu_plugin_insn *insn, int flags, Site *site) {
    qemu_plugin_register_vcpu_insn_exec_cb(
        insn,
        [](unsigned c, void *s) {
          Plugin &p = *instance;
          p.emulator_.run(what, p.cores_[c], *static_cast<const Site *>(s));
        },
        flags, site);
  }
  void emulate(qemu_plugin_insn *insn, Special what, Site *site);

  template <machine::Use use, Ring ring>
  static void on_data(unsigned c, qemu_plugin_meminfo_t info, std::uint64_t address, void *left) {
    Plugin &p = *instance;
    Core &core = p.cores_[c];
    const std::uint64_t insns =
        core.hot->insns[0] + core.hot->insns[1] - reinterpret_cast<std::uintptr_t>(left);
    p.data_.access(core, info, address, use, insns, ring);
  }

  const qemu_plugin_id_t id_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  machine::Machine machine_;
  Gate gate_;
  DataPath data_;
  Emulator emulator_;
  std::deque<Core> cores_;
  std::vector<std::uint32_t> generations_;
  qemu_plugin_scoreboard *score_;
  std::ofstream stats_;
  Ps interval_ = 100 * kPsPerMs;
  void *bar_ = nullptr;
  std::uint64_t bar_address_ = 0;
  bool live_ = false;

  std::mutex code_mutex_;
  std::deque<Block> blocks_;
  std::deque<Site> sites_;

 public:
  static Plugin *instance;
};

Plugin *Plugin::instance = nullptr;

void Plugin::emulate(qemu_plugin_insn *insn, Special what, Site *site) {
  switch (what) {
    case Special::cpuid:
      return emulate_with<Special::cpuid>(insn, QEMU_PLUGIN_CB_RW_REGS_PC, site);
    case Special::rdmsr:
      return emulate_with<Special::rdmsr>(insn, QEMU_PLUGIN_CB_RW_REGS_PC, site);
    case Special::wrmsr:
      return emulate_with<Special::wrmsr>(insn, QEMU_PLUGIN_CB_RW_REGS_PC, site);
    case Special::rdpmc:
      return emulate_with<Special::rdpmc>(insn, QEMU_PLUGIN_CB_RW_REGS_PC, site);
    case Special::rdtsc:
      return emulate_with<Special::rdtsc>(insn, QEMU_PLUGIN_CB_RW_REGS_PC, site);
    case Special::rdtscp:
      return emulate_with<Special::rdtscp>(insn, QEMU_PLUGIN_CB_RW_REGS_PC, site);
    case Special::hlt:
      return emulate_with<Special::hlt>(insn, QEMU_PLUGIN_CB_RW_REGS_PC, site);
    case Special::clflush:
      return emulate_with<Special::clflush>(insn, QEMU_PLUGIN_CB_R_REGS, site);
    case Special::translation:
      return emulate_with<Special::translation>(insn, QEMU_PLUGIN_CB_NO_REGS, site);
    case Special::pause:
      return emulate_with<Special::pause>(insn, QEMU_PLUGIN_CB_NO_REGS, site);
    case Special::none:
      return;
  }
}

void Plugin::instrument(qemu_plugin_tb *tb, qemu_plugin_insn *insn, Ring ring, std::size_t i,
                        std::size_t n) {
  const std::uint64_t address = qemu_plugin_insn_vaddr(insn);
  const std::uint64_t start = qemu_plugin_tb_vaddr(tb);
  if (live_) {
    // Behind this instruction; the counts hold the whole block already.
    void *left = reinterpret_cast<void *>(n - i - 1);
    const bool user = ring == Ring::user;
    using machine::Use;
    qemu_plugin_register_vcpu_mem_cb(
        insn, user ? on_data<Use::load, Ring::user> : on_data<Use::load, Ring::kernel>,
        QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_R, left);
    qemu_plugin_register_vcpu_mem_cb(
        insn, user ? on_data<Use::store, Ring::user> : on_data<Use::store, Ring::kernel>,
        QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_W, left);
  }
  std::uint8_t bytes[16];
  const std::size_t size = qemu_plugin_insn_data(insn, bytes, sizeof bytes);
  const Special what = decode(bytes, size);
  if (what == Special::none) return;
  if (!live_ && (what == Special::hlt || what == Special::pause || what == Special::clflush ||
                 what == Special::translation))
    return;
  Site site{};
  site.block_offset = start & 0xfff;
  site.offset = address & 0xfff;
  site.bytes = static_cast<std::uint8_t>(size);
  site.second_page = (address >> 12) != (start >> 12);
  site.ring = ring;
  site.last = i + 1 == n;
  site.counted = live_;
  site.left = static_cast<std::uint16_t>(n - i);
  if (what == Special::clflush) {
    const Operand operand = clflush_operand(bytes, size);
    site.operand_base = static_cast<std::uint8_t>(operand.base);
    site.operand_displacement = operand.displacement;
  }
  const std::lock_guard<std::mutex> lock(code_mutex_);
  emulate(insn, what, &sites_.emplace_back(site));
  if (what == Special::cpuid && i + 1 < n)
    qemu_plugin_register_vcpu_insn_exec_cb(
        qemu_plugin_tb_get_insn(tb, i + 1),
        [](unsigned c, void *) { instance->emulator_.amend_cpuid(instance->cores_[c]); },
        QEMU_PLUGIN_CB_RW_REGS, nullptr);
}

void Plugin::translate(qemu_plugin_tb *tb) {
  const std::size_t n = qemu_plugin_tb_n_insns(tb);
  // Kernel and user addresses lie in different halves; a block belongs to one ring.
  const Ring ring = qemu_plugin_tb_vaddr(tb) >> 63 != 0 ? Ring::kernel : Ring::user;
  qemu_plugin_register_vcpu_tb_exec_cond_cb(
      tb, [](unsigned c, void *) { instance->turn(c); }, QEMU_PLUGIN_CB_RW_REGS_PC,
      QEMU_PLUGIN_COND_GE, {score_, offsetof(Hot, spent)}, kTurn, nullptr);
  if (live_) {
    Block block{ring, {}};
    for (std::size_t i = 0; i < n; i++)
      block.offsets.push_back(qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, i)) & 0xfff);
    const Block *kept;
    {
      const std::lock_guard<std::mutex> lock(code_mutex_);
      kept = &blocks_.emplace_back(std::move(block));
    }
    const std::size_t insns =
        offsetof(Hot, insns) + static_cast<unsigned>(ring) * sizeof(std::uint64_t);
    qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64,
                                                      {score_, insns}, n);
    qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64,
                                                      {score_, offsetof(Hot, spent)}, n);
    qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_STORE_U64,
                                                      {score_, offsetof(Hot, block)},
                                                      reinterpret_cast<std::uintptr_t>(kept));
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
    if (options.count("machine") == 0) throw std::runtime_error("machine=FILE is missing");
    Plugin::instance = new Plugin(id, static_cast<unsigned>(info->system.smp_vcpus), options);
    return 0;
  } catch (const std::exception &e) {
    std::cerr << "machine: " << e.what() << std::endl;
    return 1;
  }
}
