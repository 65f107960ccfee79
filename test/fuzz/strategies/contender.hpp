// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Contender: a trainer whose network and strategy are forgotten, so that what compares two of them
/// is compiled once; and Entry, which makes them.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <tandem/tandem.hpp>
#if defined(TANDEM_CUDA_EMULATED)
#include <tandem/cuda.cuh>
#endif

#include <asynchronous_reference.hpp>
#include <stage_model.hpp>

#include "kernels.hpp"
#include "tardy_transport.hpp"

namespace tandem::fuzz {

using Data = TensorDataset<std::int32_t>;

/// What is compared of a trainer.
template <class T>
class Contender {
 public:
  Contender() = default;
  Contender(Contender const&) = delete;
  Contender& operator=(Contender const&) = delete;
  virtual ~Contender() = default;

  virtual StepResult step(std::span<T const> x, std::span<std::int32_t const> y) = 0;
  virtual std::vector<NamedParameter<T>> parameters(int replica, int copy) = 0;
  virtual Evaluation evaluate(Data const& data) = 0;
  virtual std::vector<float> predict(Data const& data) = 0;
  virtual void save(std::string const& path) = 0;
  virtual void load(std::string const& path) = 0;
  [[nodiscard]] virtual MemoryReport memory(int rank) = 0;
};

/// Tardy threads; of emulated GPUs, ranks on one of them.
template <class Backend>
struct TransportOf {
  template <int Ranks>
  using type = TardyTransport<Ranks>;
};
#if defined(TANDEM_CUDA_EMULATED)
template <class Kernels, class Precision>
struct TransportOf<BasicCuda<Kernels, Precision>> {
  template <int Ranks>
  using type = VirtualTransport<Ranks>;
};
#endif

template <class Net, class S, class Backend>
class TrainerContender final : public Contender<typename Backend::Master> {
 public:
  using T = typename Backend::Master;
  explicit TrainerContender(TrainerOptions const& options) : trainer_{options} {}

  StepResult step(std::span<T const> x, std::span<std::int32_t const> y) override {
    return trainer_.step(x, y);
  }
  std::vector<NamedParameter<T>> parameters(int replica, int copy) override {
    return trainer_.parameters(replica, copy);
  }
  Evaluation evaluate(Data const& data) override { return trainer_.evaluate(data); }
  std::vector<float> predict(Data const& data) override { return trainer_.predict(data); }
  void save(std::string const& path) override { trainer_.save(path); }
  void load(std::string const& path) override { trainer_.load(path); }
  [[nodiscard]] MemoryReport memory(int rank) override { return trainer_.memory(rank); }

 private:
  Trainer<Net, S, Backend, SoftmaxCrossEntropy<>, Accuracy, TransportOf<Backend>::template type>
      trainer_;
};

/// The equation of an asynchronous pipeline, computed by one thread; it only trains.
template <class Net, class Cut, class Backend, class Equation>
class EquationContender final : public Contender<typename Backend::Master> {
 public:
  using T = typename Backend::Master;
  explicit EquationContender(TrainerOptions const& options, int microbatches)
      : reference_{test::stages_of<Net, Cut, Backend>(options.batch, options.seed),
                   graph<Net>.parameters, options, microbatches} {}

  StepResult step(std::span<T const> x, std::span<std::int32_t const> y) override {
    return {.loss = reference_.step({x.begin(), x.end()}, {y.begin(), y.end()})};
  }
  std::vector<NamedParameter<T>> parameters(int /*replica*/, int /*copy*/) override {
    return reference_.parameters();
  }
  Evaluation evaluate(Data const& /*data*/) override { return {}; }
  std::vector<float> predict(Data const& /*data*/) override { return {}; }
  void save(std::string const& /*path*/) override {}
  void load(std::string const& /*path*/) override {}
  [[nodiscard]] MemoryReport memory(int /*rank*/) override { return {}; }

 private:
  test::AsynchronousReference<T, Equation> reference_;
};

/// A strategy of a network, by its name.
template <class T>
struct Entry {
  std::string name;
  std::unique_ptr<Contender<T>> (*make)(TrainerOptions const&, int microbatches) = nullptr;
  int replicas = 1;
  int devices = 1;
  int copies = 1;
  bool is_equation = false;
  bool is_late = false;  ///< an asynchronous pipeline
  DeviceMemory (*bound)(TrainerOptions const&, int device) = nullptr;
};

namespace detail {

template <class Net, class S, class Precision>
DeviceMemory bound(TrainerOptions const& options, int device) {
  return std::holds_alternative<Sgd>(options.optimizer)
             ? device_memory<Net, S, Sgd, Precision>(options.batch, device)
             : device_memory<Net, S, Adam, Precision>(options.batch, device);
}

template <class Backend>
using PrecisionOf =
    std::conditional_t<std::is_same_v<typename Backend::Master, double>, Fp64, Fp32>;

}  // namespace detail

template <class Net, class S, class Backend>
Entry<typename Backend::Master> entry(std::string name) {
  using T = typename Backend::Master;
  using P = Program<Net, S, static_cast<int>(sizeof(T))>;
  return {.name = std::move(name),
          .make = [](TrainerOptions const& options, int) -> std::unique_ptr<Contender<T>> {
            return std::make_unique<TrainerContender<Net, S, Backend>>(options);
          },
          .replicas = S::mesh.extent(Axis::data),
          .devices = S::devices,
          .copies = P::map.copies,
          .is_late = P::asynchrony.on(),
          .bound = detail::bound<Net, S, detail::PrecisionOf<Backend>>};
}

/// @tparam Cut  a synchronous pipeline that is cut as the asynchronous one is
template <class Net, class Cut, class Backend, class Equation>
Entry<typename Backend::Master> equation(std::string name) {
  using T = typename Backend::Master;
  return {
      .name = std::move(name),
      .make = [](TrainerOptions const& options, int microbatches) -> std::unique_ptr<Contender<T>> {
        return std::make_unique<EquationContender<Net, Cut, Backend, Equation>>(options,
                                                                                microbatches);
      },
      .is_equation = true};
}

}  // namespace tandem::fuzz
