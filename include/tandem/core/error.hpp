// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The exceptions that tandem throws; all derive from Error.
///
/// A broken contract (the program is wrong) is a ContractError; a broken world (files, ranks,
/// numbers that overflow) has a type of its own. Every message is one sentence that says what to
/// do.

#include <stdexcept>
#include <string>

#include <tandem/core/config.hpp>

namespace tandem {

/// Base of every exception that tandem throws.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The caller broke a stated precondition.
class ContractError : public Error {
 public:
  using Error::Error;
};

/// A file is missing, unreadable, truncated or not what it claims to be.
class FileError : public Error {
 public:
  TANDEM_COLD FileError(std::string const& path, std::string const& what)
      : Error{"'" + path + "': " + what}, path_{path} {}

  [[nodiscard]] std::string const& path() const noexcept { return path_; }

 private:
  std::string path_;
};

/// The loss of a step, or its gradient, is not finite; the parameters are those of before the step.
class NonFiniteLoss : public Error {
 public:
  using Error::Error;
};

/// Some rank did not reach a collective in time.
class TimeoutError : public Error {
 public:
  using Error::Error;
};

/// Another rank of the group failed first; its error is the one worth reading.
class AbortedError : public Error {
 public:
  using Error::Error;
};

/// The first error of a group of ranks, with the rank that threw it and the action that it was at.
/// The original is nested in it.
class RankError : public Error {
 public:
  /// @param at  ", at 1F2 (microbatch 2)", or "" outside of all actions
  TANDEM_COLD RankError(int rank, std::string const& what, std::string const& at = {})
      : Error{"rank " + std::to_string(rank) + at + ": " + what}, rank_{rank} {}

  [[nodiscard]] int rank() const noexcept { return rank_; }

 private:
  int rank_;
};

}  // namespace tandem
