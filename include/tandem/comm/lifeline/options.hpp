// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LifelineOptions and LifelineCalls: how long a lifeline waits, and what it asks its process.

#include <functional>
#include <string>
#include <vector>

#include <tandem/comm/lifeline/inquiry.hpp>
#include <tandem/comm/lifeline/tree.hpp>
#include <tandem/comm/lifeline/verdict.hpp>
#include <tandem/comm/threads/chain.hpp>
#include <tandem/core/clock.hpp>

namespace tandem {

/// How long a lifeline waits.
struct LifelineOptions {
  /// For a process to come, at the start.
  std::chrono::milliseconds timeout = std::chrono::minutes{5};
  /// Between two signs of life.
  std::chrono::milliseconds beat = std::chrono::seconds{1};
  /// Without a sign of life until a process is given up: stopped, frozen or cut off.
  std::chrono::milliseconds silence = std::chrono::seconds{30};
  /// Until what process 0 has been asked is answered: for a rank that has waited too long.
  std::chrono::milliseconds answer = std::chrono::seconds{1};
  int local_ranks = 1;  ///< of each process
  /// Children of process 0 before there is a tree, and of each process then; for tests.
  int few = detail::LifelineTree::few;
  int width = 64;
};

/// What a lifeline asks its process. Called on the lifeline's thread, also while this waits to be
/// connected; they neither throw nor wait for others.
struct LifelineCalls {
  /// Once, with what went wrong first.
  std::function<void(LifelineVerdict const&)> on_verdict;
  /// From then on, four times a second. May be empty, and so may the next two.
  std::function<void()> after_verdict{};
  /// What this process is at: "in step 5, rank 2 at 0F1 (microbatch 1)"
  std::function<std::string()> board{};
  /// Its ranks that wait for others.
  std::function<std::vector<detail::WaitingRank>()> waits{};
  /// How far its ranks have come, where they do not know whom they wait for; may be empty, too.
  std::function<std::vector<detail::ReachedCall>()> reached{};
  /// Of process 0: the ranks of a group that ReachedCall names. @pre there is `reached`
  std::function<std::vector<int>(int group)> members{};
};

}  // namespace tandem
