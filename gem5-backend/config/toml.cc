// SPDX-License-Identifier: GPL-2.0-only
// The only file that includes toml++, which takes long to compile.
#include "config/toml.hh"

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 1
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>

namespace drfq {
namespace toml {

std::string Value::show() const {
  switch (type) {
    case Type::string:
      return text;
    case Type::integer:
      return std::to_string(integer);
    case Type::boolean:
      return boolean ? "true" : "false";
    case Type::decimal: {
      char out[32];
      std::snprintf(out, sizeof out, "%g", decimal);
      return out;
    }
    case Type::array:
      break;
  }
  std::string all;
  for (const Value &v : items) all += (all.empty() ? "" : ", ") + v.show();
  return all;
}

const Table *Document::find(const std::string &name) const {
  for (const Table &t : tables)
    if (t.name == name) return &t;
  return nullptr;
}

Table *Document::find(const std::string &name) {
  for (Table &t : tables)
    if (t.name == name) return &t;
  return nullptr;
}

namespace {

/// Turns toml++'s tree into a Document.
class Converter {
 public:
  explicit Converter(const std::string &file) {
    doc_.file = file;
    doc_.tables.emplace_back();
  }

  Document run(const ::toml::table &root) {
    for (const auto &[key, node] : root) {
      const std::string name(key.str());
      const ::toml::array *array = node.as_array();
      if (const ::toml::table *t = node.as_table()) {
        add(name, *t, false);
      } else if (array != nullptr && array->is_array_of_tables()) {
        for (const ::toml::node &element : *array) add(name, *element.as_table(), true);
      } else {
        doc_.tables[0].values.emplace(name, value(name, node));
      }
    }
    // toml++ sorts by name; the file's order is that of the lines.
    std::stable_sort(doc_.tables.begin() + 1, doc_.tables.end(),
                     [](const Table &a, const Table &b) { return a.line < b.line; });
    return doc_;
  }

 private:
  static unsigned line(const ::toml::node &n) { return n.source().begin.line; }

  [[noreturn]] void fail(const ::toml::node &n, const std::string &why) const {
    throw Error(doc_.file, line(n), why);
  }

  void add(const std::string &name, const ::toml::table &from, bool element) {
    Table t;
    t.name = name;
    t.element = element;
    t.line = line(from);
    for (const auto &[key, node] : from) {
      const std::string k(key.str());
      t.values.emplace(k, value(k, node));
    }
    doc_.tables.push_back(std::move(t));
  }

  Value value(const std::string &key, const ::toml::node &n) const {
    Value v;
    v.line = line(n);
    if (n.is_string()) {
      v.type = Value::Type::string;
      v.text = n.as_string()->get();
    } else if (n.is_boolean()) {
      v.type = Value::Type::boolean;
      v.boolean = n.as_boolean()->get();
    } else if (n.is_integer()) {
      v.type = Value::Type::integer;
      v.integer = n.as_integer()->get();
      v.decimal = static_cast<double>(v.integer);
    } else if (n.is_floating_point()) {
      v.type = Value::Type::decimal;
      v.decimal = n.as_floating_point()->get();
      if (!std::isfinite(v.decimal)) fail(n, "'" + key + "' must be a finite number");
    } else if (const ::toml::array *items = n.as_array()) {
      v.type = Value::Type::array;
      for (const ::toml::node &item : *items) v.items.push_back(value(key, item));
    } else {
      fail(n, "'" + key + "' must be a string, a number, true, false or an array");
    }
    return v;
  }

  Document doc_;
};

}  // namespace

Document parse(const std::string &file, const std::string &text) {
  try {
    return Converter(file).run(::toml::parse(text, file));
  } catch (const ::toml::parse_error &e) {
    throw Error(file, e.source().begin.line, std::string(e.description()));
  }
}

}  // namespace toml

std::string read_file(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  if (in) text << in.rdbuf();
  if (!in || in.bad() || text.bad()) throw std::runtime_error("cannot read " + path);
  return text.str();
}

}  // namespace drfq
