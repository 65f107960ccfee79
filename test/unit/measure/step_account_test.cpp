// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include <tandem/measure/account/text.hpp>
#include <tandem/models/googlenet.hpp>
#include <tandem/plan/machine/machines.hpp>
#include <tandem/tandem.hpp>

namespace step_account_test {

using namespace tandem;

struct Google : models::GoogLeNet<10> {};

cuda::Launch sum_of(StepAccount const& account, std::string_view place, std::string_view pass) {
  cuda::Launch sum{.times = 0};
  for (AccountRow const& row : account.row) {
    if (row.place == place && row.pass == pass) {
      sum.times += row.launch.times;
      sum.read += row.launch.read;
      sum.written += row.launch.written;
      sum.operations += row.launch.operations;
    }
  }
  return sum;
}

TEST_CASE("the account of a convolution and of a batch norm by hand") {
  StepAccount const account = step_account<Google, SingleDevice<>, Bf16>({.batch = 128});
  constexpr double image = 128.0 * 32 * 32;
  // 192 channels from 3 by 3x3, in 16 bits; its bias is the batch norm's.
  cuda::Launch const forward = sum_of(account, "0.0 Conv2d", "forward");
  CHECK(forward.times == 1);
  CHECK(forward.read == 2 * (image * 3 + 192 * 27));
  CHECK(forward.written == 2 * image * 192);
  CHECK(forward.operations == 2 * image * 192 * 27);
  CHECK(sum_of(account, "0.0 Conv2d", "input gradient").times == 0);
  CHECK(sum_of(account, "0.0 Conv2d", "weight gradient").written == 2 * 192 * 27);
  // Two kernels each way; x is read twice, then x and dy twice.
  CHECK(sum_of(account, "0.1 BatchNorm2d", "forward").times == 2);
  CHECK(sum_of(account, "0.1 BatchNorm2d", "input gradient").times == 2);
  CHECK(sum_of(account, "0.1 BatchNorm2d", "forward").read > 2 * 2 * image * 192);
  CHECK(sum_of(account, "0.1 BatchNorm2d", "forward").read < 2.02 * 2 * image * 192);
  CHECK(account.unknown.empty());
}

// docs/cuda.md has these; test/cuda/models/googlenet_test.cu has the emulator capture as many.
TEST_CASE("GoogLeNet on 128 images in bf16: kernels and traffic") {
  StepAccount const account = step_account<Google, SingleDevice<>, Bf16>({.batch = 128});
  CHECK(account.kernels() == 441);
  CHECK(account.bytes() == doctest::Approx(12.8e9).epsilon(0.004));
  CHECK(account.total().operations > 1.16e12);
}

int collectives(StepAccount const& account) {
  int count = 0;
  for (AccountRow const& row : account.row) {
    count += row.communicates() ? 1 : 0;
  }
  return count;
}

TEST_CASE("replicas share the batch, and times are a roofline's") {
  StepAccount const half = step_account<Google, DataParallel<2>, Tf32>({.batch = 128});
  StepAccount const alone = step_account<Google, SingleDevice<>, Tf32>({.batch = 64});
  CHECK(half.samples == 64);
  CHECK(half.total().operations == alone.total().operations);
  // The losses are cleared, and their sums spread and added over the replicas, as the gradients'
  // buckets are.
  CHECK(half.kernels() == alone.kernels() + 2 + collectives(half));
  CHECK(collectives(half) == 3);
  CHECK(collectives(alone) == 0);
  Machine const machine = dgx_h100();
  cuda::Launch const copy{.kernel = "copy", .read = 3.35e6, .written = 3.35e6};
  CHECK(roofline_seconds(copy, machine, MathPrecision::tf32) == doctest::Approx(2e-6));
  cuda::Launch const product{.kernel = "product", .read = 1, .operations = 0.6 * 495e6};
  CHECK(roofline_seconds(product, machine, MathPrecision::tf32) == doctest::Approx(1e-6));
  std::string const text = account_text(half, "GoogLeNet", machine, MathPrecision::tf32);
  CHECK(text.find("GoogLeNet: a step of 64 samples on one GPU; us by the roofline of dgx-h100") !=
        std::string::npos);
  CHECK(text.find("0.0 Conv2d, forward ") != std::string::npos);
  CHECK(text.find("\ntotal ") != std::string::npos);
}

struct Joined : Network<Image<3, 8, 8>, Sequential<Conv2d<8>, SyncBatchNorm2d<>, ReLU, Conv2d<4>,
                                                   GlobalAvgPool, Linear<10>>> {};

TEST_CASE("the account of statistics that replicas join by hand") {
  StepAccount const account = step_account<Joined, DataParallel<2>, Tf32>({.batch = 8});
  cuda::Launch const forward = sum_of(account, "1 SyncBatchNorm2d", "forward");
  CHECK(forward.times == 5);  // moments, sums, their sum over the replicas, statistics, y
  int joined = 0;
  for (AccountRow const& row : account.row) {
    if (row.place == "1 SyncBatchNorm2d" && row.communicates()) {
      CHECK(row.launch.read == 8 * (2 * 8 + 1));  // of each channel two sums, and a count
      ++joined;
    }
  }
  CHECK(joined == 2);
  CHECK(account.unknown.empty());
  StepAccount const alone = step_account<Joined, SingleDevice<>, Tf32>({.batch = 4});
  CHECK(sum_of(alone, "1 SyncBatchNorm2d", "forward").times == 2);
}

struct Cut
    : Network<Image<3, 8, 8>, Sequential<Conv2d<8>, ReLU, Conv2d<4>, GlobalAvgPool, Linear<10>>> {};

TEST_CASE("the account of stages by hand: messages with their bytes, and what is done again") {
  using Two = Pipeline<OneFOneB, 4, Split<2>, Split<3>, Checkpoint<Boundaries>>;
  constexpr double tensor = 2.0 * 8 * 8 * 8 * 4;  // of a microbatch, in fp32
  StepAccount const first = step_account<Cut, Two, Tf32>({.batch = 8});
  StepAccount const second = step_account<Cut, Two, Tf32>({.batch = 8, .device = 1});
  CHECK(sum_of(first, "stage 0", "send forward").read == 4 * tensor);
  CHECK(sum_of(second, "stage 1", "receive forward").written == 4 * tensor);
  CHECK(sum_of(second, "stage 1", "send backward").read == 4 * tensor);
  CHECK(sum_of(first, "stage 0", "receive backward").times == 4);
  CHECK(sum_of(first, "0 Conv2d", "again").operations ==
        sum_of(first, "0 Conv2d", "forward").operations);
  CHECK(sum_of(second, "0 Conv2d", "forward").times == 0);
  CHECK(first.devices == 2);
  CHECK(second.device == 1);
}

struct Wide : Network<Image<3, 9, 8>,
                      Sequential<Conv2d<8, Kernel<3>, Padding<1>>, BatchNorm2d<>,
                                 Conv2d<4, Kernel<3>, Padding<1>>, GlobalAvgPool, Linear<10>>> {};

TEST_CASE("the account of tiles by hand: the first has one neighbour, the middle one two") {
  using Three = SpatialParallel<3, 1>;
  constexpr double row = 4.0 * 8 * 8 * 4;  // of four samples and 8 channels in fp32
  constexpr double tile = 3 * row;
  StepAccount const first = step_account<Wide, Three, Tf32>({.batch = 4});
  StepAccount const middle = step_account<Wide, Three, Tf32>({.batch = 4, .slice = 1});
  cuda::Launch const one = sum_of(first, "2 Halo", "forward");
  CHECK(one.times == 3);                      // packed, sent, placed
  CHECK(one.read == row + row + tile + row);  // a row of its own each, then its tile and theirs
  CHECK(one.written == row + row + 4.0 * 5 * 10 * 8 * 4);  // with padding on three sides
  CHECK(sum_of(middle, "2 Halo", "forward").read == 2 * row + 2 * row + tile + 2 * row);
  CHECK(sum_of(middle, "2 Halo", "input gradient").written == 2 * row + 2 * row + tile);
  CHECK(sum_of(first, "0 Cut", "forward").times == 1);  // all have the whole image
  CHECK(sum_of(first, "1 BatchNorm2d", "forward").times == 5);
  CHECK(sum_of(first, "gradients of tiles", "").times == 1);
  CHECK(first.unknown.empty());
  std::string const text = account_text(first, "Wide", dgx_h100(), MathPrecision::tf32);
  CHECK(text.find("on one GPU, whose images 3 share") != std::string::npos);
  CHECK_THROWS_WITH_AS(static_cast<void>(step_account<Wide, Three, Tf32>({.slice = 3})),
                       doctest::Contains("one of the GPUs that share layers"), ContractError);
}

}  // namespace step_account_test
