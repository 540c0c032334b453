// SPDX-License-Identifier: GPL-2.0-only
// Logs that the host refuses to write.
#include "qemu-plugin/log_file.hh"

#include <gtest/gtest.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

#include "hardware/tests/program_runner.hh"

namespace drfq::plugin {
namespace {

class LogFileTest : public testing::Test {
 protected:
  LogFileTest() { std::ofstream(report_) << std::string(100, '\n'); }
  ~LogFileTest() override { unlink(report_.c_str()); }

  const std::string report_ = testing::TempDir() + "log_file_test." + std::to_string(getpid());
  LogFailures failures_{report_};
};

TEST_F(LogFileTest, TheFirstFailureIsReportedInPlace) {
  const std::string expected = "/dev/full cannot be written, so it is not whole: No space left";
  for (const std::size_t bytes : {std::size_t{10}, std::size_t{1} << 20}) {
    std::ofstream(report_) << std::string(100, '\n');
    LogFailures failures(report_);
    LogFile log("/dev/full", &failures);
    log << std::string(bytes, 'x') << std::flush;
    EXPECT_FALSE(log.good()) << bytes;
    failures.report("another", 0);
    const std::string text = hardware::read_file(report_);
    EXPECT_EQ(text.size(), 100u) << bytes;
    EXPECT_EQ(text.substr(0, expected.size()), expected) << bytes;
  }
}

TEST_F(LogFileTest, ALogThatIsWholeIsNotReported) {
  const std::string path = report_ + ".log";
  {
    LogFile log(path, &failures_);
    log << std::string(1 << 20, 'x') << "end" << std::endl;
  }
  EXPECT_EQ(hardware::read_file(path).size(), (1u << 20) + 4);
  EXPECT_EQ(hardware::read_file(report_), std::string(100, '\n'));
  unlink(path.c_str());
}

TEST_F(LogFileTest, AFileThatCannotBeMadeIsRefused) {
  EXPECT_THROW(LogFile("/nothing/log", &failures_), std::runtime_error);
}

}  // namespace
}  // namespace drfq::plugin
