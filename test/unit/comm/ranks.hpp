// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// on_ranks: a thread and a stream for each rank of a group, for the tests of the communicators.

#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <tandem/comm/threads/communicator.hpp>

namespace tandem::test {

/// What each rank threw, null where it threw nothing.
using Errors = std::vector<std::exception_ptr>;

/// f(communicator, stream) on a thread for each rank; waits for the streams too, but buffers
/// that f owns must not leave it earlier. Aborts nothing.
template <class F>
Errors on_ranks(ThreadsGroup& group, F const& f) {
  auto const ranks = static_cast<std::size_t>(group.size());
  Errors errors(ranks);
  auto const streams = std::make_unique<host::Queue[]>(ranks);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        ThreadsCommunicator communicator = group.communicator(static_cast<int>(rank));
        f(communicator, streams[rank]);
        streams[rank].synchronize();
      } catch (...) {
        errors[rank] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return errors;
}

/// The message of an exception of type Expected; "(nothing)" or "(other): …" if it is none.
template <class Expected>
std::string message_of(std::exception_ptr const& error) {
  if (error == nullptr) {
    return "(nothing)";
  }
  try {
    std::rethrow_exception(error);
  } catch (Expected const& expected) {
    return expected.what();
  } catch (std::exception const& other) {
    return std::string{"(other): "} + other.what();
  }
}

/// Whether no rank threw.
inline bool all_well(Errors const& errors) {
  for (std::exception_ptr const& error : errors) {
    if (error != nullptr) {
      return false;
    }
  }
  return true;
}

}  // namespace tandem::test
