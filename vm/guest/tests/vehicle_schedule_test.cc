// SPDX-License-Identifier: GPL-2.0-only
#include "guest/vehicle_schedule.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace drfq::guest {
namespace {

using Trips = std::vector<Trip>;
using Connections = std::vector<Connection>;

TEST(VehicleSchedule, VehicleMakesTheLaterTripOnlyIfAConnectionAllowsIt) {
  const Trips trips = {{0, 100, 10, 30}, {160, 200, 50, 5}};
  EXPECT_EQ(VehicleSchedule({trips, {}}).solve(), 2 * VehicleSchedule::kVehicle + 10 + 30 + 50 + 5);
  // It drives 20 m and waits for 60 s.
  EXPECT_EQ(VehicleSchedule({trips, {{0, 1}}}).solve(),
            VehicleSchedule::kVehicle + 10 + 20 + 60 + 5);
}

// Tries for each trip, from `trip` on, a vehicle of the depot and all that are free.
std::int64_t least(const Trips &trips, const Connections &connections, std::vector<bool> &used,
                   std::size_t trip) {
  if (trip == trips.size()) return 0;
  std::int64_t best =
      VehicleSchedule::kVehicle + trips[trip].from_m + least(trips, connections, used, trip + 1);
  for (const Connection &c : connections) {
    if (c.next != trip || used[c.previous]) continue;
    used[c.previous] = true;
    const std::int64_t direct = VehicleSchedule::cost(trips[c.previous], trips[trip]);
    best =
        std::min(best, direct - trips[c.previous].to_m + least(trips, connections, used, trip + 1));
    used[c.previous] = false;
  }
  return best;
}

TEST(VehicleSchedule, CostIsTheLeastOfAllSchedules) {
  for (std::uint64_t seed = 1; seed <= 20; seed++) {
    const auto [trips, connections] = random_timetable(15, 30, seed);
    ASSERT_EQ(trips.size(), 7u);
    ASSERT_EQ(connections.size(), 30u - 2 * 7);
    std::int64_t returns = 0;
    for (const Trip &trip : trips) returns += trip.to_m;
    std::vector<bool> used(trips.size());
    const std::int64_t expected = returns + least(trips, connections, used, 0);
    EXPECT_EQ(VehicleSchedule({trips, connections}).solve(), expected);
  }
}

TEST(VehicleSchedule, EveryConnectionIsToALaterTrip) {
  for (std::size_t nodes : {0u, 5u, 7u, 1001u}) {
    const auto [trips, connections] = random_timetable(nodes, 5000, 3);
    for (const Connection &c : connections)
      ASSERT_GE(trips[c.next].begins_s, trips[c.previous].ends_s);
  }
}

TEST(VehicleSchedule, SameSeedHasTheSameCostEachTime) {
  const auto of_seed = [](std::uint64_t seed) {
    VehicleSchedule schedule(random_timetable(401, 5000, seed));
    const std::int64_t cost = schedule.solve();
    EXPECT_EQ(schedule.solve(), cost);
    return cost;
  };
  EXPECT_EQ(of_seed(1), of_seed(1));
  EXPECT_NE(of_seed(1), of_seed(2));
}

}  // namespace
}  // namespace drfq::guest
