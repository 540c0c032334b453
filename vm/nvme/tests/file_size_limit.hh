// SPDX-License-Identifier: GPL-2.0-only
// A limit on the size of files, which stands for a host without storage left.
#ifndef DRFQ_NVME_TEST_FILE_SIZE_LIMIT_HH
#define DRFQ_NVME_TEST_FILE_SIZE_LIMIT_HH

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

namespace drfq::nvme {

/// While it exists, the process can write no file beyond so many bytes.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    set({bytes, before_.rlim_max});
  }
  ~FileSizeLimit() {
    set(before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit &) = delete;
  FileSizeLimit &operator=(const FileSizeLimit &) = delete;

 private:
  static void set(const rlimit &limit) { EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0); }

  void (*const handler_)(int);
  rlimit before_{};
};

}  // namespace drfq::nvme

#endif
