// SPDX-License-Identifier: Apache-2.0
#include <tandem/mpi.hpp>

#include <vector>

namespace td = tandem;

struct Net : td::Network<td::Vector<4>, td::Sequential<td::Linear<3>>> {};

int main() {
  td::Trainer<Net, td::DataParallel<2>, td::OverMpi<td::Host>> trainer{
      {.batch = 2, .world = td::mpi_world()}};
  std::vector<float> const x(8, 1.0F);
  std::vector<std::int32_t> const y{0, 2};
  return trainer.step(x, y).loss > 0.0 ? 0 : 1;
}
