// SPDX-License-Identifier: GPL-2.0-only
// The state of an object as words, for a simulator's checkpoint. A class lists the parts of its
// state once, for both ways:
//
//   template <class Self, class F>
//   static void parts(Self &self, F &f) { f.same(self.cores_, "cores"); f(self.dir_, self.run_); }
//
// A part is a number, an enumerator, a sequence of parts, or an object with parts. What the
// options of an object decide is no part; same() compares it.
#ifndef DRFQ_STATE_HH
#define DRFQ_STATE_HH

#include <cstdint>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace drfq {

using StateWords = std::vector<std::uint64_t>;

namespace detail {

template <class T, class = void>
struct IsSequence : std::false_type {};
template <class T>
struct IsSequence<T, std::void_t<decltype(std::begin(std::declval<T &>()))>> : std::true_type {};

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

}  // namespace detail

class StateWriter {
 public:
  static constexpr bool kReads = false;

  template <class... Parts>
  void operator()(const Parts &...parts) {
    (put(parts), ...);
  }

  void same(std::uint64_t value, const char * /*name*/) { words_.push_back(value); }

  const StateWords &words() const { return words_; }

 private:
  template <class Part>
  void put(const Part &part) {
    if constexpr (std::is_same_v<Part, double>) {
      std::uint64_t bits;
      std::memcpy(&bits, &part, sizeof bits);
      words_.push_back(bits);
    } else if constexpr (std::is_arithmetic_v<Part> || std::is_enum_v<Part>) {
      words_.push_back(static_cast<std::uint64_t>(part));
    } else if constexpr (detail::IsSequence<const Part>::value) {
      words_.push_back(std::size(part));
      for (const auto &element : part) put(element);
    } else {
      Part::parts(part, *this);
    }
  }

  StateWords words_;
};

/// Throws std::runtime_error when the words are not those of such an object.
class StateReader {
 public:
  static constexpr bool kReads = true;

  /// The words outlive the reader.
  explicit StateReader(const StateWords &words) : words_(words) {}

  template <class... Parts>
  void operator()(Parts &...parts) {
    (get(parts), ...);
  }

  /// An option of the object that the state must have been made with.
  void same(std::uint64_t value, const char *name) {
    const std::uint64_t saved = next();
    if (saved != value)
      throw std::runtime_error("the saved state has " + std::to_string(saved) + " as its " + name +
                               ", not " + std::to_string(value) +
                               "; restore it with the options that it was made with");
  }

  /// Every object has been read.
  void end() const {
    if (at_ != words_.size()) throw std::runtime_error("the saved state is too long");
  }

 private:
  std::uint64_t next() {
    if (at_ == words_.size()) throw std::runtime_error("the saved state is too short");
    return words_[at_++];
  }

  template <class Part>
  void get(Part &part) {
    if constexpr (std::is_same_v<Part, double>) {
      const std::uint64_t bits = next();
      std::memcpy(&part, &bits, sizeof bits);
    } else if constexpr (std::is_arithmetic_v<Part> || std::is_enum_v<Part>) {
      part = static_cast<Part>(next());
    } else if constexpr (detail::IsSequence<Part>::value) {
      size(&part, next());
      for (auto &element : part) get(element);
    } else {
      Part::parts(part, *this);
    }
  }

  template <class Sequence>
  void size(Sequence *s, std::uint64_t n) const {
    // An element has a word at least.
    if (n > words_.size() - at_) throw std::runtime_error("the saved state is too short");
    if constexpr (detail::IsVector<Sequence>::value)
      s->resize(n);
    else if (n != std::size(*s))
      throw std::runtime_error("the saved state has a sequence of another length");
  }

  const StateWords &words_;
  std::size_t at_ = 0;
};

/// The state of an object as words.
template <class T>
StateWords save_state(const T &object) {
  StateWriter writer;
  writer(object);
  return writer.words();
}

/// Gives an object that was built with the same options a saved state.
template <class T>
void load_state(T *object, const StateWords &words) {
  StateReader reader(words);
  reader(*object);
  reader.end();
}

}  // namespace drfq

#endif
