// SPDX-License-Identifier: Apache-2.0

#include <tandem/comm/self.hpp>

#include <doctest/doctest.h>

#include <span>
#include <vector>

#include <tandem/core/error.hpp>

namespace tandem {
namespace self_test {

TEST_CASE("a group of one copies, and in place does nothing at all") {
  SelfCommunicator self;
  host::Queue stream;
  std::vector<float> in{1, 2, 3};
  std::vector<float> out(3);
  CHECK(self.rank() == 0);
  CHECK(self.size() == 1);

  self.all_reduce(in, std::span{in}, Sum{}, stream);
  self.broadcast(std::span{in}, 0, stream);
  self.barrier(stream);
  CHECK(stream.last() == 0);
  CHECK(in == std::vector<float>{1, 2, 3});

  self.all_reduce(in, std::span{out}, Sum{}, stream);
  stream.synchronize();
  CHECK(out == in);
}

TEST_CASE("a group of one checks its arguments as a larger one does") {
  SelfCommunicator self;
  host::Queue stream;
  std::vector<float> three(3);
  std::vector<float> two(2);
  CHECK_THROWS_WITH_AS(self.all_reduce(three, std::span{two}, Sum{}, stream),
                       doctest::Contains("the same number of elements"), ContractError);
  CHECK_THROWS_WITH_AS(self.broadcast(std::span{two}, 1, stream),
                       doctest::Contains("the root must be a rank"), ContractError);
}

}  // namespace self_test
}  // namespace tandem
