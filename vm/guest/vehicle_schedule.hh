// SPDX-License-Identifier: GPL-2.0-only
// The cheapest schedule of vehicles for a timetable, as a flow of minimal cost.
//
// A vehicle leaves the depot, makes trips and returns. The end of each trip supplies a vehicle and
// the beginning of each trip demands one. Vehicles pass through the depot, or go from a trip
// directly to a later one. That the depot serves all trips is always possible.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>
#include <stdexcept>
#include <vector>

// The part of LEMON in headers is enough.
#define LEMON_ONLY_TEMPLATES
#include <lemon/maps.h>
#include <lemon/network_simplex.h>
#include <lemon/static_graph.h>

namespace drfq::guest {

// Seconds.
constexpr std::size_t kDay = 86400;

struct Trip {
  int begins_s, ends_s, from_m, to_m;
};

// A vehicle may make the trip `next` after `previous`.
struct Connection {
  std::size_t previous, next;
};

struct Timetable {
  std::vector<Trip> trips;
  // In the order of `previous`.
  std::vector<Connection> connections;
};

class VehicleSchedule {
 public:
  explicit VehicleSchedule(const Timetable &timetable) {
    const auto &[trips, connections] = timetable;
    const auto begin = [](std::size_t trip) { return static_cast<int>(2 * trip) + 1; };
    const auto end = [](std::size_t trip) { return static_cast<int>(2 * trip) + 2; };
    const int depot = 0, nodes = end(trips.size() - 1) + 1;
    std::vector<Arc> arcs;
    for (std::size_t i = 0; i < trips.size(); i++)
      arcs.push_back({depot, begin(i), kVehicle + trips[i].from_m});
    auto c = connections.begin();
    for (std::size_t i = 0; i < trips.size(); i++) {
      arcs.push_back({end(i), depot, trips[i].to_m});
      for (; c != connections.end() && c->previous == i; c++)
        arcs.push_back({end(i), begin(c->next), cost(trips[i], trips[c->next])});
    }
    graph_.build(nodes, arcs.begin(), arcs.end());

    lemon::StaticDigraph::NodeMap<std::int64_t> supply(graph_);
    for (int i = 0; i < nodes; i++) supply[graph_.node(i)] = i == depot ? 0 : i % 2 == 0 ? 1 : -1;
    lemon::StaticDigraph::ArcMap<std::int64_t> costs(graph_);
    for (std::size_t i = 0; i < arcs.size(); i++)
      costs[graph_.arc(static_cast<int>(i))] = arcs[i].cost;
    const lemon::ConstMap<lemon::StaticDigraph::Arc, std::int64_t> one(1);
    simplex_.emplace(graph_).upperMap(one).costMap(costs).supplyMap(supply);
  }

  // What a vehicle costs, in metres of an empty journey. The depot lies at 0 m.
  static constexpr std::int64_t kVehicle = 100000;

  // The empty journey and the wait between two trips.
  static std::int64_t cost(const Trip &previous, const Trip &next) {
    return std::abs(next.from_m - previous.to_m) + (next.begins_s - previous.ends_s);
  }

  // Returns the least cost of all vehicles. Each call solves anew.
  std::int64_t solve() {
    if (simplex_->run() != Simplex::OPTIMAL) throw std::runtime_error("there is no schedule");
    return simplex_->totalCost();
  }

 private:
  using Simplex = lemon::NetworkSimplex<lemon::StaticDigraph, std::int64_t>;

  // LEMON reads the first two and wants arcs in the order of `first`.
  struct Arc {
    int first, second;
    std::int64_t cost;
  };

  lemon::StaticDigraph graph_;
  std::optional<Simplex> simplex_;
};

// Random trips of one day. nodes: two per trip and the depot. arcs: two per trip, and the rest for
// connections.
inline Timetable random_timetable(std::size_t nodes, std::size_t arcs, std::uint64_t seed) {
  const std::size_t count = std::max<std::size_t>(nodes, 5) / 2;
  std::mt19937_64 random(seed);
  const auto below = [&random](std::size_t n) { return static_cast<int>(random() % n); };
  std::vector<Trip> trips;
  for (std::size_t i = 0; i < count; i++) {
    const int begins_s = static_cast<int>(kDay * i / count);
    trips.push_back({begins_s, begins_s + 600 + below(3000), below(20000), below(20000)});
  }
  // The first trip that begins after the end of another. It exists for the first trip of all.
  const auto later = [&](std::size_t trip) { return trips[trip].ends_s * count / kDay + 1; };
  std::size_t left = 0;
  for (std::size_t i = 0; i < count; i++) left += later(i) < count;
  std::vector<Connection> connections;
  for (std::size_t i = 0; i < count; i++) {
    if (later(i) >= count) continue;
    const std::size_t missing = arcs - std::min(arcs, 2 * count + connections.size());
    for (std::size_t n = missing / left; n > 0; n--)
      connections.push_back({i, later(i) + random() % (count - later(i))});
    left--;
  }
  return {trips, connections};
}

}  // namespace drfq::guest
