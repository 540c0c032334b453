// SPDX-License-Identifier: GPL-2.0-only
// Takes typed values out of a table, checks their ranges, and reports keys that
// are unknown.
#ifndef DRFQ_READER_HH
#define DRFQ_READER_HH

#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "config/toml.hh"

namespace drfq {

class Reader {
 public:
  /// table may be null: every value is then its default.
  Reader(const std::string &file, const toml::Table *table) : file_(file), table_(table) {}

  bool has(const std::string &key) const { return table_ != nullptr && table_->values.count(key); }

  std::string text(const std::string &key, const std::string &otherwise) {
    const toml::Value *v = find(key);
    if (v == nullptr) return otherwise;
    if (v->type != toml::Value::Type::string) fail(v->line, "'" + key + "' must be a string");
    return v->text;
  }

  bool flag(const std::string &key, bool otherwise) {
    const toml::Value *v = find(key);
    if (v == nullptr) return otherwise;
    if (v->type != toml::Value::Type::boolean) fail(v->line, "'" + key + "' must be true or false");
    return v->boolean;
  }

  /// An integer from least to most.
  std::uint64_t whole(const std::string &key, std::uint64_t otherwise, std::uint64_t least,
                      std::uint64_t most) {
    const toml::Value *v = find(key);
    if (v == nullptr) return otherwise;
    if (v->type != toml::Value::Type::integer || v->integer < 0 ||
        static_cast<std::uint64_t>(v->integer) < least ||
        static_cast<std::uint64_t>(v->integer) > most)
      fail(v->line, "'" + key + "' must be an integer from " + std::to_string(least) + " to " +
                        std::to_string(most));
    return static_cast<std::uint64_t>(v->integer);
  }

  /// A number above 0, at least least and at most most.
  double positive(const std::string &key, double otherwise, double most, double least = 0) {
    const toml::Value *v = find(key);
    if (v == nullptr) return otherwise;
    const bool number =
        v->type == toml::Value::Type::integer || v->type == toml::Value::Type::decimal;
    if (!number || !(v->decimal > 0) || v->decimal < least || v->decimal > most)
      fail(v->line, "'" + key + "' must be a number above 0, " +
                        (least > 0 ? "at least " + show(least) + " and " : "") + "at most " +
                        show(most));
    return v->decimal;
  }

  /// One of the names; returns its place.
  template <std::size_t N>
  std::size_t choice(const std::string &key, const char *const (&names)[N], std::size_t otherwise) {
    const std::string got = text(key, names[otherwise]);
    std::string all;
    for (std::size_t i = 0; i < N; i++) {
      if (got == names[i]) return i;
      all += std::string(i ? ", " : "") + names[i];
    }
    fail(line(key), "'" + key + "' must be one of " + all);
  }

  /// Null when the key is absent.
  const toml::Value *find(const std::string &key) {
    asked_.insert(key);
    return has(key) ? &table_->values.at(key) : nullptr;
  }

  const toml::Value *array(const std::string &key) {
    const toml::Value *v = find(key);
    if (v != nullptr && v->type != toml::Value::Type::array)
      fail(v->line, "'" + key + "' must be an array");
    return v;
  }

  [[noreturn]] void fail(unsigned line, const std::string &why) const {
    throw toml::Error(file_, line, why);
  }

  unsigned line(const std::string &key) const {
    if (has(key)) return table_->values.at(key).line;
    return table_ != nullptr ? table_->line : 0;
  }

  /// Fails when the table has a key that was not read. Call it last.
  void done() const {
    if (table_ == nullptr) return;
    for (const auto &kv : table_->values)
      if (!asked_.count(kv.first)) fail(kv.second.line, "unknown key '" + kv.first + "'");
  }

 private:
  static std::string show(double limit) {
    std::ostringstream out;
    out << limit;
    return out.str();
  }

  std::string file_;
  const toml::Table *table_;
  std::set<std::string> asked_;
};

}  // namespace drfq

#endif
