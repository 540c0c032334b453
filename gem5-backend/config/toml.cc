// SPDX-License-Identifier: GPL-2.0-only
#include "toml.hh"

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
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

constexpr unsigned kDepthMax = 8;

class Parser {
 public:
  Parser(const std::string &file, const std::string &text) : text_(text) {
    doc_.file = file;
    doc_.tables.emplace_back();
  }

  Document run() {
    for (skip_blank(true); !at_end(); skip_blank(true)) {
      if (peek() == '[')
        header();
      else
        pair();
      end_of_line();
    }
    return doc_;
  }

 private:
  [[noreturn]] void fail(const std::string &why) const { throw Error(doc_.file, line_, why); }
  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }

  char take() {
    const char c = peek();
    at_++;
    if (c == '\n') line_++;
    return c;
  }

  void skip_blank(bool lines) {
    while (!at_end()) {
      if (peek() == '#')
        while (!at_end() && peek() != '\n') take();
      else if (peek() == ' ' || peek() == '\t' || peek() == '\r' || (lines && peek() == '\n'))
        take();
      else
        return;
    }
  }

  void end_of_line() {
    skip_blank(false);
    if (!at_end() && peek() != '\n') fail("one statement a line");
  }

  static bool bare(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
  }

  std::string key() {
    if (peek() == '"') return quoted();
    std::string out;
    while (bare(peek())) out += take();
    if (out.empty()) fail("a key was expected");
    return out;
  }

  std::string quoted() {
    std::string out;
    take();
    while (peek() != '"') {
      if (at_end() || peek() == '\n') fail("the string is not closed");
      if (peek() == '\\') fail("strings have no escapes here");
      out += take();
    }
    take();
    return out;
  }

  void header() {
    Table t;
    t.line = line_;
    take();
    t.element = peek() == '[';
    if (t.element) take();
    t.name = key();
    for (int i = t.element ? 2 : 1; i > 0; i--)
      if (take() != ']') fail("']' was expected");
    const Table *old = doc_.find(t.name);
    if (old != nullptr && (!t.element || !old->element))
      fail("[" + t.name + "] was given on line " + std::to_string(old->line) + " already");
    doc_.tables.push_back(t);
  }

  void pair() {
    const std::string k = key();
    skip_blank(false);
    if (take() != '=') fail("'=' was expected after '" + k + "'");
    skip_blank(false);
    Value v = value(0);
    if (!doc_.tables.back().values.emplace(k, std::move(v)).second)
      fail("'" + k + "' was given already");
  }

  Value value(unsigned depth) {
    Value v;
    v.line = line_;
    if (peek() == '"') {
      v.type = Value::Type::string;
      v.text = quoted();
    } else if (peek() == '[') {
      if (depth == kDepthMax) fail("arrays are nested too deeply");
      array(&v, depth);
    } else {
      scalar(&v);
    }
    return v;
  }

  void array(Value *v, unsigned depth) {
    v->type = Value::Type::array;
    take();
    for (skip_blank(true); peek() != ']'; skip_blank(true)) {
      if (at_end()) fail("the array is not closed");
      v->items.push_back(value(depth + 1));
      skip_blank(true);
      if (peek() == ',')
        take();
      else if (peek() != ']')
        fail("',' or ']' was expected");
    }
    take();
  }

  void scalar(Value *v) {
    std::string word;
    while (bare(peek()) || peek() == '.' || peek() == '+') {
      const char c = take();
      if (c != '_') word += c;
    }
    if (word == "true" || word == "false") {
      v->type = Value::Type::boolean;
      v->boolean = word == "true";
      return;
    }
    char *end = nullptr;
    errno = 0;
    v->integer = std::strtoll(word.c_str(), &end, 10);
    if (!word.empty() && *end == '\0') {
      if (errno == ERANGE) fail("the number is too large");
      v->type = Value::Type::integer;
      v->decimal = static_cast<double>(v->integer);
      return;
    }
    v->type = Value::Type::decimal;
    v->decimal = std::strtod(word.c_str(), &end);
    const bool number = !word.empty() && (std::isdigit(static_cast<unsigned char>(word[0])) ||
                                          word[0] == '-' || word[0] == '+');
    if (!number || *end != '\0' || !(v->decimal - v->decimal == 0))
      fail("a string, number, boolean or array was expected");
  }

  Document doc_;
  const std::string &text_;
  std::size_t at_ = 0;
  unsigned line_ = 1;
};

}  // namespace

Document parse(const std::string &file, const std::string &text) {
  return Parser(file, text).run();
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
