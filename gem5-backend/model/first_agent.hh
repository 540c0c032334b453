// SPDX-License-Identifier: GPL-2.0-only
// Which agent sends next: a tournament, so that a change costs the logarithm of their number.
#ifndef DRFQ_FIRST_AGENT_HH
#define DRFQ_FIRST_AGENT_HH

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/units.hh"

namespace drfq {

class FirstAgent {
 public:
  /// Adds an agent that sends nothing.
  void add() {
    const std::size_t agent = agents_++;
    while (leaves_ < agents_) leaves_ *= 2;
    turns_.resize(leaves_, {kNever, kLast, 0});
    turns_[agent].turn = 0;
    for (std::size_t i = 0; i < leaves_; i++) turns_[i].agent = i;
    winner_.resize(2 * leaves_);
    for (std::size_t i = 0; i < leaves_; i++) winner_[leaves_ + i] = i;
    for (std::size_t node = leaves_ - 1; node > 0; node--) {
      const std::size_t left = winner_[2 * node], right = winner_[2 * node + 1];
      winner_[node] = before(turns_[right], turns_[left]) ? right : left;
    }
    next_ = turns_[first()].at;
  }

  /// When an agent sends.
  Ps at(std::size_t agent) const { return turns_[agent].at; }

  void set_at(std::size_t agent, Ps at) {
    turns_[agent].at = at;
    replay(agent);
  }

  /// turn: decides among those that send at the same time; the lowest goes first.
  void set_turn(std::size_t agent, std::uint64_t turn) {
    turns_[agent].turn = turn;
    replay(agent);
  }

  /// The agent that sends first; the one added first where nothing else decides. There is one.
  std::size_t first() const { return winner_[1]; }

  /// When it sends; kNever without agents.
  Ps next() const { return next_; }

 private:
  static constexpr std::uint64_t kLast = ~std::uint64_t{0};

  struct Turn {
    Ps at;
    std::uint64_t turn;
    std::size_t agent;
  };

  static bool before(const Turn &a, const Turn &b) {
    if (a.at != b.at) return a.at < b.at;
    return a.turn != b.turn ? a.turn < b.turn : a.agent < b.agent;
  }

  /// An agent's turn changed: plays its matches up to the root.
  void replay(std::size_t agent) {
    const Turn *best = &turns_[agent];
    for (std::size_t node = leaves_ + agent; node > 1; node /= 2) {
      const Turn *rival = &turns_[winner_[node ^ 1]];
      if (before(*rival, *best)) best = rival;
      winner_[node / 2] = best->agent;
    }
    next_ = best->at;
  }

  std::size_t agents_ = 0;
  std::size_t leaves_ = 2;           // a power of two, so that agents keep their order
  std::vector<Turn> turns_;          // by leaf; leaves without an agent never send
  std::vector<std::size_t> winner_;  // by node; 1 is the root
  Ps next_ = kNever;
};

}  // namespace drfq

#endif
