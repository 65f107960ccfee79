// SPDX-License-Identifier: Apache-2.0
#include <tandem/ops/host/join.hpp>

#include <concat_rows.hpp>

namespace join_op_test {

using namespace tandem;

TEST_CASE("Concat joins sequences row by row") {
  test::check_concat_of_rows<BasicHost<Portable, Fp64>>();
  test::check_concat_of_rows<BasicHost<Portable>>();
}

}  // namespace join_op_test
