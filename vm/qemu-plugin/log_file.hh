// SPDX-License-Identifier: GPL-2.0-only
// Files that the plugin writes for the user: ground truth and logs. The harness learns when one of
// them cannot be written, because a run with a log that is not whole must not look like a success.
#ifndef DRFQ_PLUGIN_LOG_FILE_HH
#define DRFQ_PLUGIN_LOG_FILE_HH

#include <atomic>
#include <fstream>
#include <ostream>
#include <string>

namespace drfq::plugin {

/// Reports the first failure of any log. Threads may share it.
class LogFailures {
 public:
  /// file: gets the report. It must exist and hold as many bytes as the report: a full disk then
  /// has room for it. Empty: the report goes to standard error alone.
  explicit LogFailures(std::string file) : file_(std::move(file)) {}
  void report(const std::string &log, int error);

 private:
  const std::string file_;
  std::atomic_flag reported_ = ATOMIC_FLAG_INIT;
};

class LogFile final : public std::ostream {
 public:
  /// Creates or empties the file. Throws std::runtime_error.
  LogFile(const std::string &path, LogFailures *);

 private:
  class Buffer final : public std::filebuf {
   public:
    Buffer(const std::string &path, LogFailures *failures) : path_(path), failures_(failures) {}

   protected:
    int_type overflow(int_type) override;
    int sync() override;
    std::streamsize xsputn(const char *, std::streamsize) override;

   private:
    const std::string path_;
    LogFailures *failures_;
  };

  Buffer buffer_;
};

}  // namespace drfq::plugin

#endif
