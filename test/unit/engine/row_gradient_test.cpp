// SPDX-License-Identifier: Apache-2.0
// Gradients of rows have the bits of dense ones, whatever the strategy.

#include <row_network.hpp>
#include <support/temporary_folder.hpp>

namespace tandem {
namespace row_gradient_test {

using Portables = BasicHost<Portable>;
using R = Reproducible<4>;

TEST_CASE("gradients of rows: the bits of dense ones, in the order of a strategy's own") {
  test::check_rows_as_dense<DataParallel<2, Microbatches<2>>, Portables>();
  test::check_rows_as_dense<DataParallel<4, Weighted<2, 0, 1, 3>>, Portables>();
}

TEST_CASE("gradients of rows: reproducible, the bits of one device with a dense one") {
  test::check_rows_as_dense_one<
      Portables, SingleDevice<Microbatches<4>, R>, SingleDevice<Microbatches<4>, R>,
      DataParallel<2, Microbatches<2>, R>, DataParallel<4, R>,
      Pipeline<OneFOneB, 4, Split<2>, Split<3>, R>,
      Hybrid<DataParallel<2, R>, Pipeline<OneFOneB, 2, Split<2>, Split<3>>>>();
}

TEST_CASE("gradients of rows: checkpoints are those of dense ones") {
  test::TemporaryFolder const folder;
  using S = DataParallel<2, Microbatches<2>>;
  TrainerOptions const options = test::row_options<Portables>()[1];
  test::TrainedRows<test::RowNet<RowGradient>, S, Portables> rows{options};
  rows.trainer.save(folder.file("rows"));
  Trainer<test::RowNet<>, S, Portables> dense{options};
  dense.load(folder.file("rows"));
  Trainer<test::RowNet<RowGradient>, S, Portables> again{options};
  dense.save(folder.file("dense"));
  again.load(folder.file("dense"));
  std::vector<std::int32_t> const x(72, 7);
  StepResult const a = rows.trainer.step(x, x);
  CHECK(a.loss == dense.step(x, x).loss);
  CHECK(a.loss == again.step(x, x).loss);
  CHECK(test::first_difference(rows.trainer.parameters(), dense.parameters()) == "");
  CHECK(test::first_difference(again.parameters(), dense.parameters()) == "");
}

}  // namespace row_gradient_test
}  // namespace tandem
