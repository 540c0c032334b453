// SPDX-License-Identifier: GPL-2.0-only
#include "gem5/senders.hh"

#include "cpu/base.hh"
#include "cpu/thread_context.hh"

namespace gem5 {

::drfq::Label DrfqSenders::stamp(const RequestPtr &req) {
  if (devices != nullptr) devices->stamp(req);
  if (!drfqIsLabelled(req)) {
    const ::drfq::Label core = coreOf(req->requestorId());
    if (core.core != ::drfq::Label::kNoCore) drfqStamp(req, core);
  }
  return drfqLabelOf(req);
}

// gem5 names a sender by its place below the system, and a CPU's parts are below the CPU. A CPU
// with several hardware threads shares its walkers, which then count for the first thread.
::drfq::Label DrfqSenders::coreOf(RequestorID sender) {
  if (cores.size() <= sender) cores.resize(sender + 1);
  std::optional<::drfq::Label> &label = cores[sender];
  if (label) return *label;
  label.emplace();
  const std::string name = system->name() + "." + system->getRequestorName(sender);
  for (ThreadContext *thread : system->threads) {
    const std::string cpu = thread->getCpuPtr()->name() + ".";
    if (name.compare(0, cpu.size(), cpu) != 0) continue;
    label = ::drfq::Label::of_core(thread->contextId());
    break;
  }
  return *label;
}

}  // namespace gem5
