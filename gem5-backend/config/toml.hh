// SPDX-License-Identifier: GPL-2.0-only
// A description file: TOML, with tables that hold no further tables. toml.cc
// parses it by toml++.
#ifndef DRFQ_TOML_HH
#define DRFQ_TOML_HH

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace drfq {
namespace toml {

/// what() says file, line and reason.
class Error : public std::runtime_error {
 public:
  Error(const std::string &file, unsigned line, const std::string &why)
      : std::runtime_error(file + ":" + std::to_string(line) + ": " + why) {}
};

struct Value {
  enum class Type { string, integer, decimal, boolean, array };
  Type type = Type::integer;
  std::string text;
  long long integer = 0;
  double decimal = 0;
  bool boolean = false;
  std::vector<Value> items;
  unsigned line = 0;

  /// As it would be printed in a table.
  std::string show() const;
};

struct Table {
  std::string name;      ///< empty: the top of the file
  bool element = false;  ///< of an array of tables
  unsigned line = 0;
  std::map<std::string, Value> values;
};

struct Document {
  std::string file;
  std::vector<Table> tables;  ///< in the order of the file; the first is the top

  const Table *find(const std::string &name) const;
  Table *find(const std::string &name);
};

/// Parses text; file is for messages. Throws Error.
Document parse(const std::string &file, const std::string &text);

}  // namespace toml

/// The whole of a file. Throws std::runtime_error.
std::string read_file(const std::string &path);

}  // namespace drfq

#endif
