// SPDX-License-Identifier: Apache-2.0
// Layers that a program brings use the device's threads, and no bit of theirs depends on how many.
#include <tandem/ops/host/own_layer.hpp>
#include <tandem/ops/host/user_layer.hpp>

#include <stdexcept>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <own_parts.hpp>

#include "support.hpp"

namespace own_layer_test {

using namespace tandem;

/// y = a x², with a weight for each element, and b added to all.
struct Square {
  static constexpr std::string_view name = "Square";
  static constexpr Shape output(Shape in) { return in; }
  static constexpr Parameters parameters(Shape in) {
    return Parameters{Parameter{"a", vector_shape(in[0])}, Parameter{"b", vector_shape(1)}};
  }
  static void forward(auto const& c) {
    std::size_t const width = c.parameter(0).size();
    c.for_each_sample([&](std::size_t s) {
      for (std::size_t i = s * width; i < (s + 1) * width; ++i) {
        c.y[i] = c.parameter(0)[i - s * width] * c.x[i] * c.x[i] + c.parameter(1)[0];
      }
    });
  }
  static void input_gradient(auto const& c) {
    std::size_t const width = c.parameter(0).size();
    c.for_each(c.x.size(),
               [&](std::size_t i) { c.dx[i] = 2 * c.parameter(0)[i % width] * c.x[i] * c.dy[i]; });
  }
  static void weight_gradient(auto const& c) {
    std::size_t const width = c.parameter(0).size();
    c.for_each(width, [&](std::size_t i) {
      for (std::size_t at = i; at < c.x.size(); at += width) {
        c.gradient(0)[i] += c.x[at] * c.x[at] * c.dy[at];
      }
    });
    c.gradient(1)[0] +=
        static_cast<float>(c.sum(c.x.size(), [&](std::size_t i) { return c.dy[i]; }));
  }
};

/// y, dx and the gradients of the weights, one behind another.
template <class L>
std::vector<float> on_threads(int threads, Shape in, int batch) {
  host::Device device{threads};
  Op<L, BasicHost<Portable>> const op{
      OpSetup{.node = {.edges = 1, .in = in, .out = in}, .inputs = &in, .batch = batch}};
  std::vector<double> scratch(static_cast<std::size_t>(op.needs().scratch_bytes) / 8 + 1);
  device.scratch = reinterpret_cast<std::byte*>(scratch.data());
  auto const n = static_cast<std::size_t>(batch * in.elements());
  auto const x = test::random<float>(batch * in.elements(), 1);
  auto const dy = test::random<float>(batch * in.elements(), 2);
  Parameters const list = parameters_of<L>(in);
  std::vector<std::vector<float>> weights, gradients;
  for (int p = 0; p < list.count; ++p) {
    weights.push_back(test::random<float>(list.item[p].shape.elements(), 3));
    gradients.emplace_back(weights.back().size(), 7.0F);
  }
  float* weight[2] = {};
  float* gradient[2] = {};
  for (std::size_t p = 0; p < weights.size(); ++p) {
    weight[p] = weights[p].data();
    gradient[p] = gradients[p].data();
  }
  std::vector<float> all(2 * n);
  float const* const inputs[] = {x.data()};
  float* const dx[] = {all.data() + n};
  Operands<float> const o{.x = inputs,
                          .y = all.data(),
                          .dy = dy.data(),
                          .dx = dx,
                          .parameter = weight,
                          .gradient = gradient};
  Pass<host::Device> pass{.device = device, .batch = batch};
  op.forward(o, pass);
  op.input_gradient(o, pass);
  op.weight_gradient(o, pass);
  pass.accumulate = true;
  op.weight_gradient(o, pass);
  for (auto const& g : gradients) {
    all.insert(all.end(), g.begin(), g.end());
  }
  return all;
}

TEST_CASE_TEMPLATE("a program's own layer: its bits are those of one thread", L, Square,
                   test::OwnPrelu, test::OwnSwish) {
  for (Shape const& in : {vector_shape(5), vector_shape(1), vector_shape(3001)}) {
    for (int const batch : {1, 2, 37}) {
      auto const one = on_threads<L>(1, in, batch);
      CHECK(test::same_bits(on_threads<L>(2, in, batch), one));
      CHECK(test::same_bits(on_threads<L>(5, in, batch), one));
    }
  }
}

TEST_CASE("a program's own layer: for_each does each index once, sum adds all") {
  host::Team team{3};
  for (host::Team* const threads : {static_cast<host::Team*>(nullptr), &team}) {
    LayerCall<float> const call{.batch = 4, .team = threads};
    std::vector<int> seen(100);
    call.for_each(seen.size(), [&](std::size_t i) { ++seen[i]; });
    CHECK(seen == std::vector<int>(100, 1));
    call.for_each(0, [&](std::size_t) { CHECK(false); });
    CHECK(call.sum(0, [](std::size_t) { return 1.0; }) == 0.0);
    for (std::size_t const n :
         {std::size_t{1}, std::size_t{1024}, std::size_t{1025}, std::size_t{200001}}) {
      CHECK(call.sum(n, [](std::size_t i) { return i; }) ==
            static_cast<double>(n) * static_cast<double>(n - 1) / 2);
    }
  }
}

TEST_CASE("a program's own layer: each thread of the team has a part") {
  host::Team team{3};
  LayerCall<float> const call{.batch = 3, .team = &team};
  std::vector<std::thread::id> ids(3);
  call.for_each_sample([&](std::size_t s) { ids[s] = std::this_thread::get_id(); });
  CHECK((ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]));
}

TEST_CASE("a program's own layer: what a thread throws comes out of the pass") {
  host::Team team{3};
  LayerCall<float> const call{.batch = 30, .team = &team};
  for (std::size_t const at : {std::size_t{0}, std::size_t{29}}) {
    CHECK_THROWS_AS(call.for_each_sample([&](std::size_t s) {
      if (s == at) {
        throw std::runtime_error{"no"};
      }
    }),
                    std::runtime_error);
  }
  int done = 0;
  call.for_each(1, [&](std::size_t) { ++done; });  // and the team goes on
  CHECK(done == 1);
}

}  // namespace own_layer_test
