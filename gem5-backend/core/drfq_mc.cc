// SPDX-License-Identifier: GPL-2.0-only
#include "drfq_mc.h"

#include <algorithm>
#include <new>

#include "controller.hh"

struct drfq_mc {
  explicit drfq_mc(const drfq::ControllerOptions &o) : controller(o) {}
  drfq::Controller controller;
  drfq::Ps now = 0;

  drfq::Ps present(drfq::Ps at) { return now = std::max(now, at); }
};

namespace {

drfq::Dir dir_of(bool write) { return write ? drfq::Dir::write : drfq::Dir::read; }

struct CallbackView : drfq::PlainView<CallbackView> {
  explicit CallbackView(const drfq_mc_view &view) : v(view) {}
  const drfq_mc_view &v;
  bool ready(const drfq::Entry &e) const { return v.ready(v.context, e.bank); }
  bool row_hit(const drfq::Entry &e) const { return v.row_hit(v.context, e.bank, e.row); }
  drfq::Ps column_at(const drfq::Entry &e, drfq::Dir d) const {
    return v.column_at(v.context, e.bank, d == drfq::Dir::write);
  }
  drfq::Ps activate_at(const drfq::Entry &e) const { return v.activate_at(v.context, e.bank); }
  drfq::Ps row_to_column() const { return v.row_to_column_ps; }
};

bool in_range(uint32_t v, uint32_t most) { return v >= 1 && v <= most; }

}  // namespace

void drfq_mc_defaults(drfq_mc_options *o) {
  const drfq::ControllerOptions d;
  *o = {0, d.cores, d.read_entries, d.write_entries, d.runs.tie, d.runs.any, d.aging};
}

drfq_mc *drfq_mc_new(const drfq_mc_options *o) {
  if (o == nullptr || o->policy > 1 || o->run_bursts > drfq::Queue::kMax ||
      !in_range(o->cores, drfq::kCoresMax) || !in_range(o->read_entries, drfq::Queue::kMax) ||
      !in_range(o->write_entries, drfq::Queue::kMax))
    return nullptr;
  drfq::ControllerOptions c;
  c.policy = o->policy == 0 ? drfq::Policy::lvtf : drfq::Policy::frfcfs;
  c.cores = o->cores;
  c.read_entries = o->read_entries;
  c.write_entries = o->write_entries;
  c.runs = {o->tie_bursts, o->run_bursts};
  c.aging = o->aging_ps;
  try {
    return new drfq_mc(c);
  } catch (const std::bad_alloc &) {
    return nullptr;
  }
}

void drfq_mc_free(drfq_mc *mc) { delete mc; }

int drfq_mc_read(drfq_mc *mc, uint64_t offset, uint64_t *value) {
  return static_cast<int>(mc->controller.registers().read(offset, value));
}

int drfq_mc_peek(const drfq_mc *mc, uint64_t offset, uint64_t *value) {
  return static_cast<int>(mc->controller.registers().peek(offset, value));
}

int drfq_mc_write(drfq_mc *mc, uint64_t offset, uint64_t value) {
  return static_cast<int>(mc->controller.registers().write(offset, value));
}

int drfq_mc_arrive(drfq_mc *mc, const drfq_mc_packet *p, drfq_mc_attribution *attribution) {
  if (p->bursts > drfq::Queue::kMax) return DRFQ_MC_BAD_PACKET;
  drfq::Arrival a;
  a.label = {p->core, p->substream};
  a.dir = dir_of(p->write);
  a.bytes = p->bytes;
  a.bursts = p->bursts;
  a.in_flight = p->in_flight;
  const drfq::Verdict v = mc->controller.arrive(a);
  *attribution = {v.attribution.pid, v.attribution.vtime};
  return static_cast<int>(v.admission);
}

bool drfq_mc_enqueue(drfq_mc *mc, bool write, const drfq_mc_attribution *attribution,
                     uint64_t now_ps, uint16_t bank, uint32_t row, uint16_t handle) {
  const drfq::Queue &q = mc->controller.queue(dir_of(write));
  if (bank >= drfq::kBanksMax || attribution->pid >= drfq::kPids || !drfq::has_room(q, 0, 1))
    return false;
  mc->controller.enqueue(dir_of(write), {attribution->pid, attribution->vtime, true},
                         mc->present(now_ps), bank, row, handle);
  return true;
}

bool drfq_mc_choose(drfq_mc *mc, const drfq_mc_view *view, uint64_t now_ps, uint64_t bus_free_ps,
                    drfq_mc_burst *burst) {
  const bool lvtf = mc->controller.options().policy == drfq::Policy::lvtf;
  if (view->ready == nullptr || view->row_hit == nullptr) return false;
  if (!lvtf && (view->column_at == nullptr || view->activate_at == nullptr)) return false;
  const drfq::Ps turnaround[2] = {view->turnaround_ps[0], view->turnaround_ps[1]};
  const drfq::Choice c =
      mc->controller.choose(CallbackView{*view}, mc->present(now_ps), bus_free_ps, turnaround);
  if (!c.found) return false;
  const drfq::Entry e = mc->controller.serve(c);
  *burst = {e.arrival, e.vtime, e.row, e.bank, e.handle, c.dir == drfq::Dir::write, c.aged};
  return true;
}

uint32_t drfq_mc_waiting(const drfq_mc *mc, bool write) {
  return mc->controller.queue(dir_of(write)).size();
}
