// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A batch norm's op on Host: on a whole batch, or spread over replicas whose sums are added here,
/// as the engine would.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/layers/batch_norm2d.hpp>
#include <tandem/layers/sync_batch_norm2d.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem::test {

/// Samples of all replicas, one behind another, in the order of the backend's memory.
template <class Backend>
struct NormInput {
  using T = typename Backend::Scalar;
  using P = typename Backend::Master;
  int channels;
  int pixels;
  std::vector<T> x, dy;
  std::vector<std::vector<P>> parameter;  ///< gain, bias, running mean and variance
};

struct NormOptions {
  bool relu = false;
  bool input_gradient = true;
  bool accumulate = false;  ///< everything is computed twice, and the gradients are added
  int threads = 1;
};

/// y and dx of all samples; gradients are the sums over the replicas.
struct NormResult {
  std::vector<double> y, dx;
  std::vector<std::vector<double>> gradient;
};

template <class T>
double in_double(T x) {
  if constexpr (std::is_same_v<T, double>) {
    return x;
  } else {
    return static_cast<double>(static_cast<float>(x));
  }
}

/// An op with the memory for one microbatch; what it reads and should not is a NaN.
template <class L, class Backend>
class NormReplica {
 public:
  using T = typename Backend::Scalar;
  using P = typename Backend::Master;

  NormReplica(NormInput<Backend>& in, NormOptions const& options, std::size_t first, int batch,
              double share)
      : device_{options.threads},
        op_{setup(in, options, batch)},
        elements_{static_cast<std::size_t>(batch * in.channels * in.pixels)},
        y_(elements_),
        dx_(elements_),
        saved_{static_cast<std::size_t>(op_.needs().saved_bytes)},
        scratch_{static_cast<std::size_t>(op_.needs().scratch_bytes)},
        x_{in.x.data() + first},
        dy_{in.dy.data() + first},
        dx_data_{dx_.data()},
        gradient_(4, std::vector<P>(static_cast<std::size_t>(in.channels))),
        batch_{batch},
        share_{share} {
    poison(saved_);
    for (std::size_t i = 0; i < 4; ++i) {
      parameters_[i] = in.parameter[i].data();
      gradients_[i] = gradient_[i].data();
    }
  }

  [[nodiscard]] Operands<T, P> operands() {
    return {.x = &x_,
            .y = y_.data(),
            .dy = dy_,
            .dx = &dx_data_,
            .parameter = parameters_,
            .gradient = gradients_,
            .saved = saved_.data()};
  }
  /// @p add  add to the gradients
  [[nodiscard]] Pass<host::Device> pass(bool add = false) {
    poison(scratch_);  // other ops use it between the passes
    device_.scratch = scratch_.data();
    return {.device = device_, .batch = batch_, .share = share_, .accumulate = add};
  }
  [[nodiscard]] auto& op() { return op_; }
  [[nodiscard]] bool empty() const { return batch_ == 0; }

  void add_to(NormResult& result) const {
    for (std::size_t i = 0; i < elements_; ++i) {
      result.y.push_back(in_double(y_[i]));
      result.dx.push_back(in_double(dx_[i]));
    }
    result.gradient.resize(4, std::vector<double>(gradient_[0].size()));
    for (std::size_t i = 0; i < 4; ++i) {
      for (std::size_t c = 0; c < gradient_[i].size(); ++c) {
        result.gradient[i][c] += in_double(gradient_[i][c]);
      }
    }
  }

 private:
  static OpSetup setup(NormInput<Backend> const& in, NormOptions const& options, int batch) {
    OpSetup setup{
        .batch = batch, .threads = options.threads, .wants_input_gradient = options.input_gradient};
    setup.node.in = setup.node.out = image_shape(in.channels, in.pixels, 1);
    setup.node.fusion.relu = options.relu;
    return setup;
  }
  static void poison(host::Buffer const& memory) {
    std::fill(memory.data(), memory.data() + memory.bytes(), std::byte{0xFF});
  }

  host::Device device_;
  Op<L, Backend> op_;
  std::size_t elements_;
  std::vector<T> y_, dx_;
  host::Buffer saved_;
  host::Buffer scratch_;
  T const* x_;
  T const* dy_;
  T* dx_data_;
  std::vector<std::vector<P>> gradient_;
  P* parameters_[4];
  P* gradients_[4];
  int batch_;
  double share_;
};

/// BatchNorm2d on all samples.
template <class Backend>
NormResult on_whole(NormInput<Backend> in, int batch, NormOptions const& options) {
  NormReplica<BatchNorm2d<>, Backend> one{in, options, 0, batch, 1.0};
  NormResult result;
  for (bool const again : {false, true}) {
    if (!again || options.accumulate) {
      one.op().forward(one.operands(), one.pass());
      if (options.input_gradient) {
        one.op().input_gradient(one.operands(), one.pass());
      }
      one.op().weight_gradient(one.operands(), one.pass(again));
    }
  }
  one.add_to(result);
  return result;
}

/// SyncBatchNorm2d, replica i with shards[i] samples.
template <class Backend>
NormResult on_replicas(NormInput<Backend> in, std::vector<int> const& shards,
                       NormOptions const& options) {
  using Replica = NormReplica<SyncBatchNorm2d<>, Backend>;
  std::vector<std::unique_ptr<Replica>> replicas;
  int batch = 0;
  for (int const samples : shards) {
    batch += samples;
  }
  std::size_t first = 0;
  for (int const samples : shards) {
    replicas.push_back(std::make_unique<Replica>(in, options, first, samples,
                                                 static_cast<double>(samples) / batch));
    first += static_cast<std::size_t>(samples * in.channels * in.pixels);
  }
  auto const each = [&](auto const& f) {
    for (auto const& replica : replicas) {
      if (!replica->empty()) {
        f(*replica);
      }
    }
  };
  auto const add = [&] {
    std::vector<double> total(replicas[0]->op().sums(replicas[0]->operands()).size());
    each([&](Replica& r) {
      std::span<double> const own = r.op().sums(r.operands());
      std::transform(own.begin(), own.end(), total.begin(), total.begin(), std::plus<>{});
    });
    each([&](Replica& r) {
      std::copy(total.begin(), total.end(), r.op().sums(r.operands()).begin());
    });
  };
  for (bool const again : {false, true}) {
    if (again && !options.accumulate) {
      continue;
    }
    each([](Replica& r) { r.op().local_sums(r.operands(), r.pass()); });
    add();
    each([](Replica& r) { r.op().forward_synchronized(r.operands(), r.pass()); });
    if (options.input_gradient) {
      each([](Replica& r) { r.op().local_gradient_sums(r.operands(), r.pass()); });
      add();
      each([](Replica& r) { r.op().input_gradient_synchronized(r.operands(), r.pass()); });
    }
    each([&](Replica& r) { r.op().weight_gradient_synchronized(r.operands(), r.pass(again)); });
  }
  NormResult result;
  for (auto const& replica : replicas) {
    replica->add_to(result);
  }
  return result;
}

}  // namespace tandem::test
