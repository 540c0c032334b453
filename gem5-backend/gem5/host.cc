// SPDX-License-Identifier: GPL-2.0-only
#include "gem5/host.hh"

#include <sstream>
#include <stdexcept>

#include "base/logging.hh"
#include "config/experiment.hh"
#include "host/scenario_run.hh"
#include "host/server.hh"
#include "sim/core.hh"
#include "sim/sim_events.hh"
#include "sim/simulate.hh"

namespace gem5 {

namespace {

/** Passes register writes to the controller's log. */
class WriteLog final : public ::drfq::Observer {
 public:
  explicit WriteLog(memory::DrfqMemCtrl &c) : controller(c) {}

  void wrote(::drfq::Ps, std::uint64_t offset, std::uint64_t value) override {
    controller.wroteRegister(offset, value);
  }

 private:
  memory::DrfqMemCtrl &controller;
};

}  // namespace

DrfqHost::DrfqHost(const DrfqHostParams &p)
    : SimObject(p), controller(*p.controller), agents(p.agents) {}

std::string DrfqHost::experiment(const std::string &file, unsigned point, std::uint64_t seed) {
  try {
    const ::drfq::Experiment e = ::drfq::load_experiment(file, ::drfq::read_file(file));
    ::drfq::Scenario s = e.points.at(point).scenario;
    s.seed = seed;
    if (s.agents.size() > agents.size())
      return "error: the scenario has more agents than the configuration";
    WriteLog log(controller);
    std::ostringstream out;
    out.precision(17);
    for (const auto &f : ::drfq::run_on(s, *this, &log))
      out << "figure " << f.first << " " << f.second << "\n";
    return out.str();
  } catch (const std::exception &e) {
    return std::string("error: ") + e.what();
  }
}

std::string DrfqHost::serve(const std::string &socket, double rate) {
  try {
    ::drfq::ServerOptions o;
    o.path = socket;
    if (rate > 0) {
      o.mode = ::drfq::Service::Mode::free_running;
      o.rate = rate;
    }
    ::drfq::Server(o, *this).serve();
    return "";
  } catch (const std::exception &e) {
    return std::string("error: ") + e.what();
  }
}

::drfq::RegisterFile &DrfqHost::registers() { return controller.controller().registers(); }

const ::drfq::Stats &DrfqHost::stats() const { return controller.served(); }

::drfq::Policy DrfqHost::policy() const { return controller.controller().options().policy; }

::drfq::Ps DrfqHost::now() const { return curTick(); }

::drfq::Ps DrfqHost::next_event() const {
  bool idle = !controller.busy();
  for (const DrfqAgent *a : agents) idle = idle && a->idle();
  // gem5's refreshes never end, so only traffic counts as an event.
  return idle ? ::drfq::kNever : curTick();
}

void DrfqHost::run_until(::drfq::Ps to) {
  // gem5 would log a line at every simulate(), and there are thousands.
  Logger::setLevel(Logger::WARN);
  while (curTick() < to) {
    const GlobalSimLoopExitEvent *exit = simulate(to - curTick());
    if (curTick() < to) throw std::runtime_error("gem5 stopped: " + exit->getCause());
  }
}

void DrfqHost::clear_stats() {
  controller.clearServed();
  for (DrfqAgent *a : agents) a->clearCounters();
}

std::size_t DrfqHost::add(const ::drfq::AgentOptions &o) {
  panic_if(used == agents.size(), "%s: no agent is left", name());
  agents[used]->configure(o);
  return used++;
}

void DrfqHost::replace(std::size_t i, const ::drfq::AgentOptions &o) { agents[i]->configure(o); }

void DrfqHost::pause(std::size_t i, bool on) { agents[i]->pause(on); }

const ::drfq::Traffic::Counters &DrfqHost::counters(std::size_t i) const {
  return agents[i]->counters();
}

}  // namespace gem5
