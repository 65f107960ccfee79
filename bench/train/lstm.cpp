// SPDX-License-Identifier: Apache-2.0

/// @file
/// Steps of one Lstm on Host (its weights' copies, forward, and all gradients), a round at a time,
/// for run.py to compare.
///
///   bench_lstm [--size lstm|lstm_projected] [--kernels onednn|portable] [--precision fp32|bf16]
///              [--batch 32] [--threads 1]
///
/// Sizes: lstm is 1024 numbers to 1024, 25 rows of time; lstm_projected 512 to 512 by way of 2048,
/// 20 rows. Prints a line of JSON about itself; then, for each line "round N" that it reads, makes
/// N steps and prints {"step_s": ..., "cpu_s": ...}.

#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include "flags.hpp"
#include "rounds.hpp"

namespace td = tandem;

namespace {

struct Plain {
  using Layer = td::Lstm<1024>;
  static constexpr td::Shape in = td::timed_shape(25, 1024);
};
struct Projected {
  using Layer = td::Lstm<2048, td::Projection<512>>;
  static constexpr td::Shape in = td::timed_shape(20, 512);
};

/// One layer with its memory.
template <class Size, class Backend>
class Step {
  using L = typename Size::Layer;
  using T = typename Backend::Scalar;
  static constexpr td::Shape in = Size::in;

 public:
  Step(int batch, int threads)
      : batch_{batch},
        device_{threads},
        op_{td::OpSetup{node_, 0, &node_.in, batch, threads}},
        scratch_{bytes(op_.needs().scratch_bytes)},
        saved_{bytes(op_.needs().saved_bytes)},
        packed_{bytes(op_.needs().packed_bytes)},
        x_{random<T>(batch * in.elements(), 1)},
        y_{zeros<T>(batch * node_.out.elements())},
        dy_{random<T>(batch * node_.out.elements(), 2)},
        dx_{zeros<T>(batch * in.elements())} {
    device_.scratch = scratch_.data();
    td::Parameters const list = L::parameters(in);
    for (int p = 0; p < list.count; ++p) {
      std::int64_t const count = list.item[p].shape.elements();
      count_ += count;
      parameters_.push_back(random<float>(count, 3));
      gradients_.push_back(zeros<float>(count));
      parameter_.push_back(parameters_.back().as<float>());
      gradient_.push_back(gradients_.back().as<float>());
    }
  }

  void run() {
    T const* const x = x_.as<T>();
    T* const dx = dx_.as<T>();
    td::Operands<T, float> const o{.x = &x,
                                   .y = y_.as<T>(),
                                   .dy = dy_.as<T>(),
                                   .dx = &dx,
                                   .parameter = parameter_.data(),
                                   .gradient = gradient_.data(),
                                   .saved = saved_.data(),
                                   .packed = packed_.data()};
    td::Pass<td::host::Device> const pass{
        .device = device_, .batch = batch_, .state = &state_, .time = in[0]};
    if constexpr (Backend::packs_weights) {
      op_.pack(o, device_);
    }
    op_.forward(o, pass);
    op_.input_gradient(o, pass);
    op_.weight_gradient(o, pass);
  }

  [[nodiscard]] std::int64_t parameters() const { return count_; }
  /// Of the products: 2 a multiply-accumulate, three times.
  [[nodiscard]] double flops() const { return 6.0 * batch_ * static_cast<double>(L::macs(in)); }

 private:
  static std::size_t bytes(std::int64_t n) { return static_cast<std::size_t>(n); }

  template <class E>
  static td::host::Buffer zeros(std::int64_t n) {
    return td::host::Buffer{bytes(n) * sizeof(E)};
  }
  /// Uniform in ±1/32.
  template <class E>
  static td::host::Buffer random(std::int64_t n, std::uint64_t seed) {
    td::host::Buffer list = zeros<E>(n);
    for (std::int64_t i = 0; i < n; ++i) {
      auto const word =
          td::philox(seed, td::RandomUse::user, static_cast<std::uint64_t>(i), 0).word[0];
      list.as<E>()[i] = E{(2 * td::uniform(word) - 1) / 32};
    }
    return list;
  }

  int batch_;
  td::Node node_{.kind = td::NodeKind::layer,
                 .needs_gradient = true,
                 .edges = 1,
                 .in = in,
                 .out = L::output(in)};
  td::host::Device device_;
  td::Op<L, Backend> op_;
  td::StepState state_{};
  td::host::Buffer scratch_;
  td::host::Buffer saved_;
  td::host::Buffer packed_;
  td::host::Buffer x_;  // as a rank's memory
  td::host::Buffer y_;
  td::host::Buffer dy_;
  td::host::Buffer dx_;
  std::int64_t count_ = 0;  // of parameters
  std::vector<td::host::Buffer> parameters_;
  std::vector<td::host::Buffer> gradients_;
  std::vector<float*> parameter_;
  std::vector<float*> gradient_;
};

struct Settings {
  std::string size;
  std::string kernels;
  std::string precision;
  int batch;
  int threads;
};

template <class Size, class Kernels, class Precision>
bool served(Settings const& settings, char const* size) {
  if (settings.size != size || settings.kernels != Kernels::name ||
      settings.precision != Precision::name) {
    return false;
  }
  Step<Size, td::BasicHost<Kernels, Precision>> step{settings.batch, settings.threads};
  step.run();
  std::printf(
      "{\"kernels\": \"%s\", \"precision\": \"%s\", \"threads\": %d, \"parameters\": %lld, "
      "\"flops\": %.6e}\n",
      settings.kernels.c_str(), settings.precision.c_str(), settings.threads,
      static_cast<long long>(step.parameters()), step.flops());
  td::bench::serve_rounds([&] { step.run(); });
  return true;
}

template <class Kernels, class Precision>
bool served(Settings const& settings) {
  return served<Plain, Kernels, Precision>(settings, "lstm") ||
         served<Projected, Kernels, Precision>(settings, "lstm_projected");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    td::bench::Flags const flags{argc, argv, {"size", "kernels", "precision", "batch", "threads"}};
    Settings const settings{.size = flags.text("size", "lstm"),
                            .kernels = flags.text("kernels", td::DefaultHostKernels::name),
                            .precision = flags.text("precision", "fp32"),
                            .batch = flags.number("batch", 32),
                            .threads = flags.number("threads", 1)};
#if defined(TANDEM_ONEDNN)
    bool const done =
        served<td::OneDnn, td::Fp32>(settings) || served<td::OneDnn, td::Bf16>(settings);
#else
    bool const done = served<td::Portable, td::Fp32>(settings);
#endif
    td::expects(done,
                "--size is lstm or lstm_projected; compiled with oneDNN it has --kernels onednn in "
                "fp32 and bf16 only, without --kernels portable in fp32 only");
  } catch (std::exception const& error) {
    std::fprintf(stderr, "bench_lstm: %s\n", error.what());
    return 1;
  }
  return 0;
}
