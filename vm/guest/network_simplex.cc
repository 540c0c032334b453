// SPDX-License-Identifier: GPL-2.0-only
// Schedules vehicles by the network simplex method of LEMON: a stand-in for 429.mcf of SPEC
// CPU2006, which does the same.
//
//   network_simplex [NODES [ARCS [SEED [REPEATS]]]]
//
// It builds a random network, prints {"ready":true}, and solves it REPEATS times (0: until it is
// killed). Then it prints the time of that and the least cost. The program ends with its parent.
#include <sys/prctl.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "vehicle_schedule.hh"

namespace {

// Of NODES, ARCS, SEED and REPEATS.
constexpr unsigned long kDefaults[] = {3001, 300000, 1, 1};

unsigned long argument(int argc, char **argv, int index) {
  if (argc <= index) return kDefaults[index - 1];
  char *end;
  const unsigned long value = std::strtoul(argv[index], &end, 10);
  if (*end == 0 && end != argv[index]) return value;
  std::fprintf(stderr, "network_simplex: %s: expected a number\n", argv[index]);
  std::exit(2);
}

void run(int argc, char **argv) {
  drfq::guest::VehicleSchedule schedule(drfq::guest::random_timetable(
      argument(argc, argv, 1), argument(argc, argv, 2), argument(argc, argv, 3)));
  const unsigned long repeats = argument(argc, argv, 4);
  std::printf("{\"ready\":true}\n");
  std::fflush(stdout);
  const auto begin = std::chrono::steady_clock::now();
  std::int64_t cost = 0;
  for (unsigned long i = 0; repeats == 0 || i < repeats; i++) cost = schedule.solve();
  const std::chrono::nanoseconds measured = std::chrono::steady_clock::now() - begin;
  std::printf("{\"measured_ns\":%lld,\"repeats\":%lu,\"cost\":%lld}\n",
              static_cast<long long>(measured.count()), repeats, static_cast<long long>(cost));
}

}  // namespace

int main(int argc, char **argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    run(argc, argv);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "network_simplex: %s\n", error.what());
    return 1;
  }
}
