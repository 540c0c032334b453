// SPDX-License-Identifier: GPL-2.0-only
// Everything that reads files: descriptions, experiments and traces.
#include "cli/report.hh"
#include "core/wire.hh"
#include "model/trace.hh"

#include <gtest/gtest.h>

#include <sstream>

namespace drfq {
namespace {

std::string error_of(const std::string &text) {
  try {
    load_checked_experiment("x.toml", text);
  } catch (const toml::Error &e) {
    return e.what();
  }
  return "";
}

const std::string kGood =
    "title = \"t\"\n[run]\nwarmup_ms = 1\nduration_ms = 1\nseeds = [1, 2]\n"
    "[[agent]]\nname = \"a\"\n[[agent]]\nname = \"b\"\n"
    "[[sweep]]\n\"agent.*.outstanding_lines\" = [1, 8]\n[[sweep]]\n\"memory.policy\" = [\"lvtf\", "
    "\"frfcfs\"]\n"
    "[report]\ncolumns = [\"a.bytes_per_ns\", \"total.bytes_per_ns/reference@min\"]\n"
    "reference_key = \"memory.policy\"\nreference_value = \"frfcfs\"\n"
    "[[expect]]\ncolumn = \"a.bytes_per_ns\"\nleast = 0.1\n";

TEST(Toml, ValuesOfEveryKindAreRead) {
  const toml::Document d = toml::parse(
      "x",
      "a = 1_000 # c\n\"b c\" = [1.5, \"x#y\", [true,\n false],]\n[t]\na = -2\n[[u]]\n[[u]]\n");
  EXPECT_EQ(d.tables[0].values.at("a").integer, 1000);
  EXPECT_EQ(d.tables[0].values.at("b c").show(), "1.5, x#y, true, false");
  EXPECT_EQ(d.find("t")->values.at("a").integer, -2);
  EXPECT_EQ(d.tables.size(), 4u);
}

TEST(Toml, ErrorsSayWhereAndWhy) {
  for (const char *bad : {"a",
                          "a =",
                          "a = 1 b = 2",
                          "a = \"x",
                          "a = [1",
                          "a = 1\na = 2",
                          "[t]\n[t]",
                          "[t",
                          "= 1",
                          "a = nan",
                          "a = 99999999999999999999",
                          "a = \"\\q\"",
                          "a = 1e999",
                          "[t]\na = {b = 1}",
                          "[t.u]",
                          "a = 2020-01-01",
                          "\u00e9 = 1",
                          "a = \u3042",
                          "\ufebf",
                          "[+"}) {
    try {
      toml::parse("x", bad);
      ADD_FAILURE() << bad;
    } catch (const toml::Error &e) {
      EXPECT_EQ(std::string(e.what()).substr(0, 2), "x:") << e.what();
    }
  }
}

TEST(Experiments, SweepsCombineAndReferencesDivide) {
  const Experiment e = load_checked_experiment("x", kGood);
  ASSERT_EQ(e.points.size(), 4u);
  EXPECT_EQ(e.points[3].scenario.agents[0].traffic.outstanding_lines, 8u);
  EXPECT_EQ(e.points[3].scenario.memory.controller.policy, Policy::frfcfs);
  std::size_t last = 0;
  const Results r = run_all(
      e, [](std::size_t, const Scenario &s) { return run(s); },
      [&last](std::size_t done, std::size_t) { last = done; });
  EXPECT_EQ(last, 8u);
  EXPECT_DOUBLE_EQ(value(e, r, 1, e.columns[1]), 1.0);
  EXPECT_NE(value(e, r, 0, e.columns[1]), 1.0);
  EXPECT_TRUE(held(e, r));
  EXPECT_NE(table(e, r).find("| 8 | frfcfs |"), std::string::npos);
  EXPECT_NE(svg(e, r).find("</svg>"), std::string::npos);
  EXPECT_EQ(table(e, r).find("MISS"), std::string::npos);
  Experiment none = e;
  none.expectations[0].when_key = "memory.policy";
  none.expectations[0].when_value = "typo";
  EXPECT_NE(table(none, r).find("MISS"), std::string::npos) << "no row is concerned";
}

TEST(Experiments, MistakesAreFoundBeforeTheRun) {
  EXPECT_EQ(error_of(kGood), "");
  const std::pair<const char *, const char *> cases[] = {
      {"name = \"b\"", "name = \"a\""},
      {"name = \"b\"", "name = \"total\""},
      {"[report]", "[[sweep]]\n\"agent.*.outstanding_lines\" = [2, 4]\n[report]"},
      {"[1, 8]", "[1, 8, \"x\"]"},
      {"[1, 8]", "[0]"},
      {"[1, 8]", "[]"},
      {"agent.*.outstanding_lines", "agent.z.outstanding_lines"},
      {"agent.*.outstanding_lines", "outstanding_lines"},
      {"agent.*.outstanding_lines", "agent.*.speed"},
      {"a.bytes_per_ns\", \"t", "a.speed\", \"t"},
      {"@min", "@least"},
      {"seeds = [1, 2]", "seeds = [-1]"},
      {"duration_ms = 1", "duration_ms = 0"},
      {"name = \"a\"", "name = \"a\"\nweight = 4096"},
      {"[run]", "[rum]"},
      {"\"frfcfs\"\n", "\"fcfs\"\n"},
      {"[[expect]]", "[expect]"},
      {"name = \"b\"", "name = \"b\"\ncore = 0"},
      {"name = \"a\"", "name = \"a\"\nkind = \"phase\"\nperiod_ms = 1e-10"},
      {"name = \"a\"", "name = \"a\"\ngap_ns = 0.0004"},
      {"name = \"a\"", "name = \"a\"\npause_us = 4e-7"},
      {"name = \"a\"", "name = \"a\"\nstart_us = 4e-7"},
      {"duration_ms = 1", "duration_ms = 1\nwindow_ms = 1e-300"},
      {"duration_ms = 1", "duration_ms = 5000\nwindow_ms = 1e-6"},
      {"[1, 8]\n[[sweep]]\n", "[1, 8]\n"},
      {"\"agent.*.outstanding_lines\" = [1, 8]", "\"run.seeds\" = [[1], [8]]"},
      {"duration_ms = 1", "duration_ms = 1\ndaemon_us = 1"},
      {"duration_ms = 1", "duration_ms = 1\ndaemon_percent = 1"},
      {"least = 0.1\n", ""},
      {"least = 0.1\n", "least = 0.1\nwhen_key = \"memory.policy\"\n"},
      {"least = 0.1\n", "least = 0.1\nwhen_value = \"lvtf\"\n"},
  };
  for (const auto &c : cases) {
    std::string text = kGood;
    text.replace(text.find(c.first), std::string(c.first).size(), c.second);
    EXPECT_NE(error_of(text), "") << c.first << " -> " << c.second;
  }
  EXPECT_NE(error_of("[report]\ncolumns = [\"x\"]\n"), "") << "no agent";
  EXPECT_NE(error_of(kGood + "[memory]\nbanks = 3\n"), "");
  EXPECT_NE(error_of(kGood + "[memory]\ncores = 1\n"), "");
  EXPECT_NE(error_of(kGood + "[memory]\nfrontend_ns = 0.0004\n"), "");
  EXPECT_EQ(error_of(kGood + "[memory]\nfrontend_ns = 0.001\n"), "");
  EXPECT_EQ(error_of(kGood + "[memory]\nread_entries = 5\nburst_bytes = 16\n"), "");
  EXPECT_NE(error_of(kGood + "[memory]\nread_entries = 4\nburst_bytes = 16\n").find("64 bytes"),
            std::string::npos);
  EXPECT_NE(error_of(kGood + "[loop]\nupdate_us = 1e-300\n"), "");
  EXPECT_NE(error_of(kGood + "[loop]\ncpus = 2.5\n"), "");
}

TEST(Traces, WhatIsWrittenIsRead) {
  std::stringstream s;
  TraceWriter w(s);
  Packet p;
  p.address = 0x1240;
  p.label = Label::of_core(3);
  p.port = 2;
  w.arrived(10, p, Admission::accepted);
  w.arrived(11, p, Admission::full);
  w.wrote(12, 64, 7);
  TraceReader r("x", s);
  TraceRecord t;
  ASSERT_TRUE(r.next(&t));
  EXPECT_EQ(t.packet.address, 0x1240u);
  EXPECT_EQ(t.packet.label.core, 3u);
  EXPECT_EQ(t.packet.port, 2u);
  ASSERT_TRUE(r.next(&t));
  EXPECT_EQ(t.what, TraceRecord::What::write);
  EXPECT_EQ(t.value, 7u);
  EXPECT_FALSE(r.next(&t));
}

TEST(Traces, AMalformedTraceIsRefused) {
  for (const char *bad :
       {"", "drfq-trace 2\n", "drfq-trace 1\nX 1\n", "drfq-trace 1\nP 1 R 0 64 0\n",
        "drfq-trace 1\nP 1 R 0 0 0 -\n", "drfq-trace 1\nP 1 Q 0 64 0 -\n",
        "drfq-trace 1\nW 2 0 0\nW 1 0 0\n", "drfq-trace 1\nW 1 0 0 0\n",
        "drfq-trace 1\nP 1 R 0 64 0 c\n", "drfq-trace 1\nW 1  0 0\n",
        "drfq-trace 1\nP 1 R 0 64 0 c 4294967296\n", "drfq-trace 1\nP 1 R 0 64 4294967296 -\n",
        "drfq-trace 1\nP 1 R 0xffffffffffffffff 64 0 -\n"}) {
    std::stringstream s(bad);
    EXPECT_THROW(
        {
          TraceReader r("x", s);
          for (TraceRecord t; r.next(&t);) {
          }
        },
        std::runtime_error)
        << bad;
  }
}

TEST(Wire, HeadersAndRecordsAreDecodedAsEncoded) {
  wire::Header h, back;
  h.length = 64;
  h.op = 0x8005;
  h.status = 9;
  h.tag = 0xdeadbeef;
  h.a = ~0ull;
  h.b = 1;
  h.time_ps = 1ull << 60;
  unsigned char bytes[64] = {};
  wire::encode(h, bytes);
  EXPECT_EQ(bytes[0], 64);
  EXPECT_EQ(wire::find_frame(bytes, 3, &back), wire::Parse::need_more);
  EXPECT_EQ(wire::find_frame(bytes, 63, &back), wire::Parse::need_more);
  EXPECT_EQ(wire::find_frame(bytes, 64, &back), wire::Parse::frame);
  EXPECT_EQ(back.tag, h.tag);
  EXPECT_EQ(back.a, h.a);
  EXPECT_EQ(back.time_ps, h.time_ps);
  bytes[12] = 1;
  EXPECT_EQ(wire::find_frame(bytes, 64, &back), wire::Parse::malformed);
  wire::DemandRecord d{1, 2, 3, 4, 5, 6};
  wire::encode(d, bytes);
  EXPECT_EQ(wire::decode<wire::DemandRecord>(bytes).seed, 6u);
  EXPECT_EQ(wire::decode<wire::DemandRecord>(bytes).write_percent, 5u);
}

}  // namespace
}  // namespace drfq
