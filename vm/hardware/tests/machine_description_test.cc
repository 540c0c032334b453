// SPDX-License-Identifier: GPL-2.0-only
#include "machine_description.hh"

#include <gtest/gtest.h>

#include "config/toml.hh"
#include "program_runner.hh"

namespace drfq::hardware {
namespace {

const char *const kSmall =
    "name = \"small\"\n"             // 1
    "scale = 2\n"                    // 2
    "[cpu]\n"                        // 3
    "clock_mhz = 100\n"              // 4
    "[l1]\n"                         // 5
    "kib = 4\n"                      // 6
    "ways = 2\n"                     // 7
    "[llc]\n"                        // 8
    "kib = 64\n"                     // 9
    "ways = 4\n"                     // 10
    "[memory]\n"                     // 11
    "dram = \"lpddr2-1066-x32\"\n";  // 12

MachineDescription small(const std::string &more = "") {
  return load_machine_description("f", kSmall + more);
}

std::string wrong(const std::string &text) {
  try {
    load_machine_description("f", text);
  } catch (const toml::Error &e) {
    return e.what();
  }
  return "accepted";
}

std::string replaced(std::string from, const std::string &to) {
  std::string text = kSmall;
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(MachineDescription, MissingKeysHaveDefaultsAndScaleSlowsMemory) {
  const MachineDescription d = small();
  EXPECT_EQ(d.name, "small");
  EXPECT_EQ(d.fs_per_insn(), 10'000'000u);
  EXPECT_EQ(d.l1.sets(), 32u);
  EXPECT_EQ(d.llc.hit, 80'000u) << "8 cycles";
  EXPECT_EQ(d.memory.timing.burst, 2 * lpddr2_1066_x32().burst);
  EXPECT_EQ(d.memory.timing.refi, 2 * lpddr2_1066_x32().refi);
  EXPECT_EQ(d.memory.controller.cores, d.cores);
  EXPECT_EQ(d.rdt.rmids, 0u);
  EXPECT_EQ(d.pmu.version, 0u);
  EXPECT_TRUE(d.bank_hash);
  EXPECT_FALSE(small("bank_hash = false\n").bank_hash);
}

TEST(MachineDescription, ATableOfStorageAddsADeviceWhoseTimesTheScaleSlowsDown) {
  EXPECT_EQ(small().storage.queues, 0u);
  const MachineDescription d = small("[storage]\nmb_per_s = 500\nlatency_us = 100\n");
  EXPECT_EQ(d.storage.fs_per_byte, 2 * 2'000'000u);
  EXPECT_EQ(d.storage.latency, 200 * kPsPerUs);
  EXPECT_EQ(d.storage.bytes, 64u << 20);
  EXPECT_EQ(d.storage.queues, d.cores);
  EXPECT_EQ(d.storage.ddio_ways, 0u);
  EXPECT_EQ(small("[storage]\nfile = \"disk.img\"\n").storage.file, "disk.img");
  EXPECT_EQ(small("[storage]\nfile = \"/disk.img\"\n").storage.file, "/disk.img");
}

TEST(MachineDescription, WrongStorageIsRefusedWithItsReason) {
  const auto storage = [](const std::string &line) {
    return wrong(kSmall + std::string("[storage]\n") + line + "\n");
  };
  EXPECT_NE(storage("latency_us = 1").find("at least two quanta"), std::string::npos);
  EXPECT_NE(storage("ddio_ways = 5").find("from 0 to 4"), std::string::npos);
  EXPECT_NE(storage("mb_per_s = 0").find("above 0"), std::string::npos);
  EXPECT_NE(storage("file = \"a\"\nmib = 3").find("without 'file'"), std::string::npos);
  EXPECT_NE(storage("speed = 3").find("unknown key 'speed'"), std::string::npos);
}

TEST(MachineDescription, ErrorsNameFileLineAndReason) {
  EXPECT_EQ(wrong(replaced("ways = 4", "ways = 3")),
            "f:9: 'kib' must be a multiple of ways x 64 bytes");
  EXPECT_EQ(wrong(replaced("kib = 64", "kib = 48")),
            "f:9: 'kib' and 'ways' must give a power of two of sets, not 192");
  EXPECT_EQ(wrong(replaced("[l1]", "[l2]")), "f:5: unknown table [l2]");
  EXPECT_EQ(wrong(replaced("ways = 2", "way = 2")), "f:5: [l1] needs kib and ways");
  EXPECT_EQ(wrong(replaced("[l1]\n", "[l1]\nhit_cycles = 4\n")),
            "f:6: 'hit_cycles' is a key of [llc] only: a hit of [l1] costs its instruction alone");
  EXPECT_EQ(wrong(replaced("clock_mhz = 100", "clock_mhz = 0")),
            "f:4: 'clock_mhz' must be a number above 0, at most 10000");
  EXPECT_EQ(wrong(replaced("scale = 2", "scale = \"2\"")),
            "f:2: 'scale' must be an integer from 1 to 1000");
  EXPECT_EQ(wrong("name = \"x\"\n"), "f:1: [cpu] is missing");
  EXPECT_EQ(wrong(replaced("name = \"small\"", "# no name")), "f:1: 'name' is missing");
  EXPECT_EQ(wrong(std::string(kSmall) + "burst_bytes = 8\nread_entries = 4\n"),
            "f:13: a packet of 64 bytes does not fit the queues: raise burst_bytes or the entries");
  EXPECT_EQ(wrong(std::string(kSmall) + "ports = \"single\"\n"),
            "f:13: the cores of a machine have a port each: leave out 'ports'");
  EXPECT_EQ(wrong(std::string(kSmall) + "bank_hash = 1\n"),
            "f:13: 'bank_hash' must be true or false");
  const std::string rdt = std::string(kSmall) + "[rdt]\n";
  EXPECT_EQ(wrong(rdt + "l3_closes = 4\ncbm_bits = 3\n"),
            "f:15: 'cbm_bits' must divide the 4 ways of [llc]");
  EXPECT_EQ(wrong(rdt + "rmids = 1\n"), "f:14: 'rmids' must be 0 or at least 2");
  EXPECT_EQ(wrong(rdt + "upscale = 100\n"), "f:14: 'upscale' must be a multiple of 64");
  EXPECT_EQ(wrong(rdt + "mba_closes = 2\nmba_step = 7\n"),
            "f:15: 'mba_step', 7 here, must divide 'mba_max_delay'");
  EXPECT_EQ(wrong(rdt + "colour = 1\n"), "f:14: unknown key 'colour'");
  EXPECT_EQ(wrong(std::string(kSmall) + "[pmu]\ncounters = 4\n"),
            "f:13: counters need 'version' 2");
}

TEST(MachineDescription, TheStepOfMbaFollowsFromTheLargestDelay) {
  const auto step = [](const std::string &more) {
    return small("[rdt]\nmba_closes = 2\n" + more).rdt.mba_step;
  };
  EXPECT_EQ(step(""), 10u);
  EXPECT_EQ(step("mba_max_delay = 80\n"), 20u);
  EXPECT_EQ(step("mba_max_delay = 80\nmba_step = 40\n"), 40u);
  EXPECT_EQ(wrong(std::string(kSmall) + "[rdt]\nmba_closes = 2\nmba_max_delay = 85\n"),
            "f:15: 'mba_step', 15 here, must divide 'mba_max_delay'");
}

TEST(MachineDescription, CountsThatLinuxWouldCorrectAreRefused) {
  const auto monitored = [](unsigned model, unsigned rmids) {
    return wrong(replaced("[cpu]\n", "[cpu]\nmodel = " + std::to_string(model) + "\n") +
                 "[rdt]\nrmids = " + std::to_string(rmids) + "\n");
  };
  for (const unsigned model : {79u, 85u}) {
    EXPECT_NE(monitored(model, 79).find("f:15: with 'model' " + std::to_string(model)),
              std::string::npos);
    for (const unsigned rmids : {0u, 2u, 23u, 64u}) EXPECT_EQ(monitored(model, rmids), "accepted");
    for (const unsigned rmids : {24u, 63u, 65u}) EXPECT_NE(monitored(model, rmids), "accepted");
  }
  EXPECT_EQ(monitored(60, 79), "accepted");
}

TEST(MachineDescription, FixedCountersThatLinuxTakesForGrantedMustExist) {
  const auto pmu = [](const std::string &more) {
    return wrong(std::string(kSmall) + "[pmu]\nversion = 2\n" + more);
  };
  for (const char *few : {"fixed = 0\n", "fixed = 1\n", "fixed = 2\n"})
    EXPECT_EQ(pmu(few).find("f:15: 'fixed' must be 3 with a PMU: Linux"), 0u) << pmu(few);
  EXPECT_EQ(pmu("fixed = 3\n"), "accepted");
  EXPECT_EQ(pmu(""), "accepted");
  EXPECT_EQ(wrong(std::string(kSmall) + "[pmu]\nfixed = 0\n"), "accepted") << "no PMU";
}

TEST(MachineDescription, KeysWithoutEffectAreRefused) {
  const std::string text = kSmall;
  EXPECT_EQ(wrong(replaced("[cpu]\n", "[cpu]\nwindow = 8\n")),
            "f:4: 'window' needs 'misses' above 1");
  EXPECT_EQ(wrong(replaced("[cpu]\n", "[cpu]\nwindow = 8\nmisses = 2\n")), "accepted");
  EXPECT_EQ(wrong(text + "cores = 4\n"), "f:13: [cpu] gives the cores: leave out 'cores'");
  for (const std::string key : {"degree", "streams", "outstanding"}) {
    EXPECT_EQ(wrong(text + "[prefetch]\n" + key + " = 2\n"), "f:14: '" + key + "' needs a 'kind'");
    EXPECT_EQ(wrong(text + "[prefetch]\nkind = \"stride\"\n" + key + " = 2\n"), "accepted");
  }
  for (const std::string line : {"mba_max_delay = 80", "mba_step = 5", "throttle = \"mt2\""}) {
    const std::string key = line.substr(0, line.find(' '));
    EXPECT_EQ(wrong(text + "[rdt]\n" + line + "\n"), "f:14: '" + key + "' needs 'mba_closes'");
    EXPECT_EQ(wrong(text + "[rdt]\nmba_closes = 2\n" + line + "\n"), "accepted");
  }
}

TEST(MachineDescription, TheMachinesOfThisRepositoryMatchTheirSources) {
  const MachineDescription t = shipped("thesis");
  EXPECT_EQ(t.scale, 15u);
  EXPECT_EQ(t.clock_hz * t.scale, 3'000'000'000u);
  EXPECT_EQ(t.memory.controller.aging, ControllerOptions{}.aging * t.scale);
  EXPECT_EQ(t.cores, 4u);
  EXPECT_EQ(t.l1.bytes, 64u << 10);
  EXPECT_EQ(t.l1.ways, 4u);
  EXPECT_EQ(t.llc.bytes, 2u << 20);
  EXPECT_EQ(t.llc.ways, 8u);
  EXPECT_EQ(t.memory.timing.name, "lpddr2-1066-x32");
  const MachineDescription x = shipped("xeon");
  EXPECT_EQ(x.rdt.l3_closes, 8u);
  EXPECT_EQ(x.rdt.mba_closes, 8u);
  EXPECT_EQ(x.rdt.mba_max_delay, 90u);
  EXPECT_EQ(x.rdt.mba_step, 10u);
  EXPECT_EQ(x.rdt.throttle, ThrottleCurve::linear);
  const MachineDescription s = shipped("scarce");
  EXPECT_EQ(s.rdt.rmids, 4u);
  EXPECT_EQ(s.rdt.l3_closes, 3u);
  EXPECT_EQ(s.rdt.mba_closes, 3u);
  EXPECT_EQ(s.rdt.upscale, 2048u);
  EXPECT_EQ(s.rdt.throttle, ThrottleCurve::plateau);
  EXPECT_EQ(s.memory.timing.name, t.memory.timing.name);
  const MachineDescription l = shipped("laptop");
  EXPECT_EQ(l.rdt.rmids + l.rdt.l3_closes + l.rdt.mba_closes, 0u);
  EXPECT_EQ(l.pmu.version, 2u);
}

}  // namespace
}  // namespace drfq::hardware
