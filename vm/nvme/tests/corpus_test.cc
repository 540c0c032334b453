// SPDX-License-Identifier: GPL-2.0-only
// The kept inputs of the fuzzer vm-nvme_driver.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "nvme/fuzz/hostile_driver.hh"

namespace drfq::nvme {
namespace {

TEST(NvmeCorpus, TheDeviceKeepsItsRulesWithEveryInput) {
  std::vector<std::filesystem::path> inputs;
  for (const auto &entry : std::filesystem::directory_iterator(CORPUS))
    inputs.push_back(entry.path());
  ASSERT_FALSE(inputs.empty());
  std::sort(inputs.begin(), inputs.end());
  for (const std::filesystem::path &path : inputs) {
    std::ifstream in(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    EXPECT_NO_THROW(drive(reinterpret_cast<const unsigned char *>(bytes.data()), bytes.size()))
        << path;
  }
}

}  // namespace
}  // namespace drfq::nvme
