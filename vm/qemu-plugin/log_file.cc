// SPDX-License-Identifier: GPL-2.0-only
#include "log_file.hh"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <stdexcept>

namespace drfq::plugin {

void LogFailures::report(const std::string &log, int error) {
  if (reported_.test_and_set()) return;
  const std::string text = log + " cannot be written, so it is not whole: " + std::strerror(error);
  std::cerr << "QEMU plugin: " << text << std::endl;
  const int fd = file_.empty() ? -1 : open(file_.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  if (pwrite(fd, text.data(), text.size(), 0) < 0)
    std::cerr << "QEMU plugin: " << file_ << ": " << std::strerror(errno) << std::endl;
  close(fd);
}

LogFile::LogFile(const std::string &path, LogFailures *failures)
    : std::ostream(nullptr), buffer_(path, failures) {
  if (buffer_.open(path, std::ios::out | std::ios::binary) == nullptr)
    throw std::runtime_error(path + ": " + std::strerror(errno));
  rdbuf(&buffer_);
}

LogFile::Buffer::int_type LogFile::Buffer::overflow(int_type c) {
  const int_type r = std::filebuf::overflow(c);
  if (traits_type::eq_int_type(r, traits_type::eof())) failures_->report(path_, errno);
  return r;
}

int LogFile::Buffer::sync() {
  const int r = std::filebuf::sync();
  if (r < 0) failures_->report(path_, errno);
  return r;
}

std::streamsize LogFile::Buffer::xsputn(const char *from, std::streamsize n) {
  const std::streamsize r = std::filebuf::xsputn(from, n);
  if (r < n) failures_->report(path_, errno);
  return r;
}

}  // namespace drfq::plugin
