// SPDX-License-Identifier: Apache-2.0

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include <support/temporary_folder.hpp>
#include <unit/golden/golden.hpp>
#include <unit/golden/networks.hpp>

namespace tandem {
namespace checkpoint_test {

using TestTrainer = Trainer<test::ResidualNet, SingleDevice<>, BasicHost<Portable, Fp64>>;

// TANDEM_WRITE_CHECKPOINT=<file> writes a new golden checkpoint; then
// test/golden/read_checkpoint.py must accept it, which is where PyTorch reads what this library
// saves.
std::string checkpoint_path(test::TemporaryFolder const& folder) {
  char const* const path = std::getenv("TANDEM_WRITE_CHECKPOINT");
  return path != nullptr ? path : folder.file("own.safetensors");
}

TEST_CASE("a checkpoint has the tensors of the golden one, which PyTorch has gone on from") {
  test::Golden const golden{"residual"};
  TestTrainer trainer{test::golden_options<TestTrainer>(golden, test::golden_sgd())};
  trainer.load_weights(golden.path());
  for (int step = 0; step < 3; ++step) {
    test::golden_step(trainer, golden);
  }
  test::TemporaryFolder const folder;
  std::string const path = checkpoint_path(folder);
  trainer.save(path);

  Safetensors const own = Safetensors::read(path);
  Safetensors const committed = Safetensors::read(test::golden_path("residual_checkpoint"));
  SafetensorsMetadata metadata = own.metadata();
  // The golden one is of before there were checksums.
  std::erase_if(metadata, [](auto const& entry) { return entry.first.starts_with("xxh64"); });
  CHECK(metadata == committed.metadata());
  CHECK(own.metadata().size() == metadata.size() + own.tensors().size() + 1);
  REQUIRE(own.tensors().size() == committed.tensors().size());
  test::Golden const values{"residual_checkpoint"};
  for (TensorView const& tensor : own.tensors()) {
    CAPTURE(tensor.name);
    TensorView const& other = committed.at(tensor.name);
    CHECK(tensor.dtype == other.dtype);
    CHECK(tensor.shape == other.shape);
    if (tensor.dtype == Dtype::F64) {
      std::vector<double> numbers(tensor.data.size() / sizeof(double));
      std::memcpy(numbers.data(), tensor.data.data(), tensor.data.size());
      test::check_close<double>(tensor.name, numbers, values.values(tensor.name), 1.0, 1e-12);
    }
  }
}

TEST_CASE("training goes on from the golden checkpoint as PyTorch does") {
  test::Golden const golden{"residual"};
  TestTrainer trainer{test::golden_options<TestTrainer>(golden, test::golden_sgd())};
  trainer.load(test::golden_path("residual_checkpoint"));
  CHECK(trainer.position().step == 3);
  std::vector<double> const losses = golden.values("losses.sgd");
  for (std::size_t step = 3; step < 5; ++step) {
    double const loss = test::golden_step(trainer, golden).loss;
    test::check_close<double>("loss", {&loss, 1}, {losses[step]}, 1.0, 1e-12);
  }
  for (NamedParameter<double> const& p : trainer.parameters()) {
    test::check_close<double>(p.name, p.value, golden.values("sgd." + p.name), 1.0, 1e-12);
  }
}

TEST_CASE("a new trainer has PyTorch's initial bounds and constants, drawn for each parameter") {
  TestTrainer const trainer{{.batch = 1, .seed = 5, .threads_per_device = 1}};
  std::set<double> firsts;
  std::size_t drawn = 0;
  std::vector<NamedParameter<double>> const parameters = trainer.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    NamedParameter<double> const& p = parameters[i];
    CAPTURE(p.name);
    bool const norm = std::ranges::any_of(
        parameters, [&](auto const& other) {  // batch norms have the only weights of rank 1
          return other.shape.rank == 1 && other.name.ends_with("weight") &&
                 p.name.starts_with(other.name.substr(0, other.name.size() - 6));
        });
    if (norm) {
      bool const one = p.name.ends_with("weight") || p.name.ends_with("running_var");
      CHECK(std::ranges::all_of(p.value, [&](double v) { return v == (one ? 1.0 : 0.0); }));
      continue;
    }
    Shape const shape = p.name.ends_with("weight") ? p.shape : parameters[i - 1].shape;
    double const bound = 1.0 / std::sqrt(static_cast<double>(shape.elements() / shape[0]));
    double const most = test::largest({p.value.begin(), p.value.end()});
    CHECK(most <= bound * (1.0 + 1e-7));
    CHECK(most >= bound * (p.value.size() >= 24 ? 0.8 : 0.1));
    firsts.insert(p.value[0] / bound);
    ++drawn;
  }
  CHECK(drawn == 11);
  CHECK(firsts.size() == drawn);
}

}  // namespace checkpoint_test
}  // namespace tandem
