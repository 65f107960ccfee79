// SPDX-License-Identifier: Apache-2.0
// A message for which there is no memory: nobody waits for it until time is up, not its sender
// either, which may be waiting for the answer.

#include <doctest/doctest.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <tandem/comm/threads/communicator.hpp>
#include <tandem/core/error.hpp>

#include <sanitizers.hpp>

#include "ranks.hpp"
#include "watchdog.hpp"

namespace tandem {
namespace threads_message_memory_test {

TEST_CASE("a message without memory ends the waiting of both ends, with the reason") {
  if (TANDEM_TEST_SANITIZED != 0) {
    return;  // these end the program where so much is asked for
  }
  test::Watchdog const watchdog{"a message without memory"};
  ThreadsGroup group{2};
  auto const errors = test::on_ranks(group, [](ThreadsCommunicator& end, host::Queue& stream) {
    std::vector<double> data(1);
    if (end.rank() == 1) {
      end.receive(std::span{data}, 0, stream);
      end.send(std::span{data}, 0, stream);
      stream.synchronize();
      return;
    }
    host::Queue answers;
    end.send(std::span{data.data(), std::size_t{1} << 58}, 1, stream);  // of 2^61 bytes
    end.receive(std::span{data}, 1, answers);
    answers.synchronize();
  });
  for (auto const& error : errors) {
    std::string const text = test::message_of<AbortedError>(error);
    CHECK(text.find("rank 0 failed: out of memory: a message asks for 2305843009213693952 bytes; "
                    "use a smaller batch or more microbatches") != std::string::npos);
  }
}

}  // namespace threads_message_memory_test
}  // namespace tandem
