// SPDX-License-Identifier: GPL-2.0-only
// An arbitrary guest: accesses, MSRs, controller registers, transfers of a device, halts and
// wake-ups in any order and with any value.
#include <fstream>
#include <sstream>

#include "hardware_model.hh"
#include "tests/fuzz/input.hh"

namespace {

using namespace drfq;
using namespace drfq::hardware;

const MachineDescription &small() {
  static const MachineDescription d = [] {
    std::ifstream in(std::string(MACHINES) + "/thesis.toml");
    std::stringstream text;
    text << in.rdbuf();
    MachineDescription out = load_machine_description("thesis", text.str());
    out.llc.bytes = 64 << 10;  // small, so that it fills
    out.l1.bytes = 2 << 10;
    out.storage.queues = 1;
    out.storage.bytes = 1 << 20;
    out.storage.fs_per_byte = 7'500'000;
    out.storage.latency = kPsPerMs;
    out.storage.outstanding = 32;
    return out;
  }();
  return d;
}

constexpr std::uint32_t kMsrs[] = {0xC1,  0xC4,  0xC5,  0x186, 0x189, 0x1A6, 0x309, 0x30B,
                                   0x345, 0x38D, 0x38E, 0x38F, 0x390, 0x4C1, 0xC8D, 0xC8E,
                                   0xC8F, 0xC90, 0xC97, 0xC98, 0xD50, 0xD57, 0xD58};
constexpr std::uint64_t kBar = std::uint64_t{1} << 40;

/// One access by the core in the upper bits of what, of a size from the address.
void access(unsigned what, std::uint64_t address, const RetiredInsns &retired, HardwareModel *m) {
  m->access(what >> 6, retired.total(), address, 1u << (address & 6),
            what & 16 ? AccessKind::store : AccessKind::load,
            what & 32 ? drfq::hardware::Ring::user : drfq::hardware::Ring::kernel);
}

/// A device moves two pieces of memory at any address, or forgets all transfers.
void transfer(Input *in, unsigned core, const RetiredInsns &retired, HardwareModel *m) {
  const std::uint64_t first = in->take(8), second = in->any(), bytes = in->take(2);
  if (bytes == 0) return m->cancel_transfers();
  const std::uint64_t id = in->position();
  m->start_transfer(
      core, retired.total(),
      {id, second % 2 ? Dir::write : Dir::read, {{first, bytes}, {second, 512}}, core});
}

/// Performs the action that the next bytes select. retired: the cores' instructions so far.
void act(Input *in, HardwareModel *m, RetiredInsns *retired) {
  const unsigned what = static_cast<unsigned>(in->take(1));
  const unsigned core = what >> 6;
  RetiredInsns &p = retired[core];
  std::uint64_t value = 0;
  switch (what & 15) {
    case 0:
    case 1:
    case 2:
    case 3:
      access(what, in->take(3), p, m);
      break;
    case 4:
      p.user += in->take(2);
      break;
    case 5:
      p.kernel += in->take(1);
      break;
    case 6:
      m->sync(core, p);
      break;
    case 7:
      m->flush(core, p.total(), in->take(3));
      break;
    case 8:
      m->rdmsr(core, p, kMsrs[in->take(1) % std::size(kMsrs)], &value);
      break;
    case 9: {
      const std::uint32_t msr = kMsrs[in->take(1) % std::size(kMsrs)];
      m->wrmsr(core, p, msr, in->take(what & 16 ? 8 : 1) << (what & 32 ? 32 : 0));
      break;
    }
    case 10:
      m->rdpmc(core, p, static_cast<std::uint32_t>(in->take(4)), &value);
      break;
    case 11: {
      // The BAR, and memory that may be the mailbox.
      const std::uint64_t offset = in->take(3) % (2 * HardwareModel::kBarBytes);
      m->stored(core, p.total(), kBar + offset, 1u << (what >> 4 & 3), in->take(8));
      m->set_space(core, p.total(), offset << 12);
      break;
    }
    case 12: {
      const std::uint64_t offset = in->take(3) % HardwareModel::kBarBytes;
      m->loaded(core, p.total(), kBar + offset, 8, in->take(2));
      break;
    }
    case 13:
      m->sleep(core, p);
      break;
    case 14:
      m->wake(core, in->take(5));
      break;
    case 15:
      if ((what & 16) != 0)
        transfer(in, core, p, m);
      else
        m->add_busy_time(core, p, in->take(3), Ring::kernel);
      m->take_finished();
      break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, std::size_t size) {
  Input in(data, size);
  HardwareModel m(small());
  std::vector<std::uint64_t> page(HardwareModel::kBarBytes / 8);
  m.attach_bar(page.data(), kBar);
  m.start(0);
  RetiredInsns retired[4];
  for (unsigned steps = 0; !in.empty() && steps < 2000; steps++) act(&in, &m, retired);
  std::stringstream line;
  m.write_ground_truth(line);
  return 0;
}
