// SPDX-License-Identifier: GPL-2.0-only
#include "gem5/host.hh"

#include <sstream>
#include <stdexcept>

#include "base/logging.hh"
#include "config/experiment.hh"
#include "gem5/checkpoint.hh"
#include "host/scenario_run.hh"
#include "host/server.hh"
#include "sim/core.hh"
#include "sim/sim_events.hh"
#include "sim/simulate.hh"

namespace gem5 {

namespace {

/** Passes register writes to the logs of all channels. */
class WriteLog final : public ::drfq::Observer {
 public:
  explicit WriteLog(const std::vector<memory::DrfqMemCtrl *> &c) : channels(c) {}

  void wrote(::drfq::Ps, std::uint64_t offset, std::uint64_t value) override {
    for (auto *c : channels) c->wroteRegister(offset, value);
  }

 private:
  const std::vector<memory::DrfqMemCtrl *> &channels;
};

/** A hash (FNV-1a). */
std::uint64_t identify(const std::string &text, unsigned point, std::uint64_t seed) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (char c : text + "\n" + std::to_string(point) + " " + std::to_string(seed))
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

/** An experiment under way. */
struct DrfqHost::Running {
  std::uint64_t identity;  // of the file, the combination and the seed
  ::drfq::Scenario scenario;
  WriteLog log;
  std::unique_ptr<::drfq::ScenarioRun> run;
};

DrfqHost::DrfqHost(const DrfqHostParams &p)
    : SimObject(p), channels(p.controllers), agents(p.agents) {
  fatal_if(channels.empty(), "%s: it needs a controller", name());
}

DrfqHost::~DrfqHost() = default;

std::string DrfqHost::experiment(const std::string &file, unsigned point, std::uint64_t seed,
                                 double until_ns) {
  try {
    const std::string text = ::drfq::read_file(file);
    const ::drfq::Experiment e = ::drfq::load_experiment(file, text);
    const std::uint64_t identity = identify(text, point, seed);
    if (!restored.empty() && restoredIdentity != identity)
      return "error: the checkpoint is of another experiment, combination or seed";
    running.reset(new Running{identity, e.points.at(point).scenario, WriteLog(channels), nullptr});
    ::drfq::Scenario &s = running->scenario;
    s.seed = seed;
    if (s.agents.size() > agents.size())
      return "error: the scenario has more agents than the configuration";
    // Not make_unique(), which may not see the private base.
    running->run.reset(
        new ::drfq::ScenarioRun(s, *this, &running->log, restored.empty() ? nullptr : &restored));
    // After its checkpoint, the run that goes on resumes by a simulate(0) too
    // (configs/experiment.py).
    if (!restored.empty()) simulate(0);
    return advance(until_ns);
  } catch (const std::exception &e) {
    return std::string("error: ") + e.what();
  }
}

std::string DrfqHost::proceed() {
  try {
    return advance(0);
  } catch (const std::exception &e) {
    return std::string("error: ") + e.what();
  }
}

std::string DrfqHost::advance(double until_ns) {
  while (running->run->step())
    if (until_ns > 0 && running->run->now_ns() + 0.5 >= until_ns) return "";
  if (until_ns > 0)
    return "error: the run is over before the checkpoint, which is at " +
           std::to_string(static_cast<std::uint64_t>(until_ns)) + " ns";
  std::ostringstream out;
  out.precision(17);
  for (const auto &f : running->run->figures())
    out << "figure " << f.first << " " << f.second << "\n";
  return out.str();
}

void DrfqHost::serialize(CheckpointOut &cp) const {
  // A server's clients hold the state of their traffic, so there is none to save.
  fatal_if(running == nullptr, "%s: a checkpoint needs an experiment", name());
  drfqOut(cp, "experiment", {running->identity});
  drfqOut(cp, "run", running->run->save());
}

void DrfqHost::unserialize(CheckpointIn &cp) {
  restoredIdentity = drfqIn(cp, "experiment").at(0);
  restored = drfqIn(cp, "run");
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

::drfq::RegisterFile &DrfqHost::registers() { return first().controller().registers(); }

const ::drfq::Stats &DrfqHost::stats() const {
  if (channels.size() == 1) return first().served();
  sum = first().served();
  for (std::size_t i = 1; i < channels.size(); i++) sum.add(channels[i]->served());
  return sum;
}

::drfq::Policy DrfqHost::policy() const { return first().controller().options().policy; }

::drfq::Ps DrfqHost::now() const { return curTick(); }

::drfq::Ps DrfqHost::next_event() const {
  bool idle = true;
  for (const auto *c : channels) idle = idle && !c->busy();
  for (const DrfqAgent *a : agents) idle = idle && a->idle();
  // gem5's refreshes never end, so only traffic counts as an event.
  return idle ? ::drfq::kNever : curTick();
}

void DrfqHost::run_until(::drfq::Ps to) {
  // gem5 would log a line at every simulate(), and there are thousands.
  Logger::setLevel(Logger::WARN);
  for (auto *c : channels)
    if (c != &first()) c->controller().registers().follow(registers());
  while (curTick() < to) {
    const GlobalSimLoopExitEvent *exit = simulate(to - curTick());
    if (curTick() < to) throw std::runtime_error("gem5 stopped: " + exit->getCause());
  }
  for (auto *c : channels)
    if (c != &first()) registers().take_traffic(&c->controller().registers());
}

void DrfqHost::clear_stats() {
  for (auto *c : channels) c->clearServed();
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
