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
    agents_.push_back({kNever, 0});
    while (leaves_ < agents_.size()) leaves_ *= 2;
    winner_.assign(2 * leaves_, kNobody);
    for (std::size_t i = 0; i < agents_.size(); i++) winner_[leaves_ + i] = i;
    for (std::size_t node = leaves_ - 1; node > 0; node--) play(node);
  }

  /// When an agent sends.
  Ps at(std::size_t agent) const { return agents_[agent].at; }

  void set_at(std::size_t agent, Ps at) {
    agents_[agent].at = at;
    replay(agent);
  }

  /// turn: decides among those that send at the same time; the lowest goes first.
  void set_turn(std::size_t agent, std::uint64_t turn) {
    agents_[agent].turn = turn;
    replay(agent);
  }

  /// The agent that sends first; the one added first where nothing else decides. There is one.
  std::size_t first() const { return winner_[1]; }

  /// When it sends; kNever without agents.
  Ps next() const { return agents_.empty() ? kNever : agents_[first()].at; }

 private:
  static constexpr std::size_t kNobody = ~std::size_t{0};

  struct Agent {
    Ps at;
    std::uint64_t turn;
  };

  void play(std::size_t node) {
    const std::size_t left = winner_[2 * node], right = winner_[2 * node + 1];
    winner_[node] = right != kNobody && before(right, left) ? right : left;
  }

  bool before(std::size_t right, std::size_t left) const {
    const Agent &a = agents_[right], &b = agents_[left];
    return a.at != b.at ? a.at < b.at : a.turn < b.turn;
  }

  void replay(std::size_t agent) {
    for (std::size_t node = (leaves_ + agent) / 2; node > 0; node /= 2) play(node);
  }

  std::vector<Agent> agents_;
  std::size_t leaves_ = 2;  // a power of two, so that agents keep their order
  std::vector<std::size_t> winner_ = {kNobody, kNobody, kNobody,
                                      kNobody};  // by node; 1 is the root
};

}  // namespace drfq

#endif
