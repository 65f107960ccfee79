// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Vocabulary with Sampled on Host: in training a Vocabulary of the drawn words and the row's own,
/// elsewhere one of all words, a few rows at a time.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <tandem/core/log_uniform_sample.hpp>
#include <tandem/kernels/host/sampled_vocabulary.hpp>
#include <tandem/layers/vocabulary.hpp>
#include <tandem/ops/host/convolution.hpp>
#include <tandem/ops/host/vocabulary.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host {

/// The logits of a step's sample, and behind them that of each row's target: a Linear<S + 1> whose
/// weight is gathered in each pass, for VocabularyOp.
/// @tparam Linear  the op of a Linear with a bias; of T, it takes its weight packed where P is not
///                 T
template <class T, class P, class Linear>
class SampledLinear {
 public:
  /// @param setup    of the Linear<S + 1>
  /// @param by_rows  the gradients of weight and bias are GradientRows
  SampledLinear(OpSetup const& setup, int vocabulary, bool bias, bool by_rows)
      : vocabulary_{vocabulary},
        channels_{setup.node.in[0]},
        sampled_{setup.node.out[0] - 1},
        layer_{static_cast<std::uint32_t>(setup.index)},
        bias_{bias},
        by_rows_{by_rows},
        linear_{setup},
        linear_scratch_{rounded(linear_.needs().scratch_bytes)},
        sample_{vocabulary, sampled_},
        columns_(static_cast<std::size_t>(std::max(setup.batch, 1))) {}

  [[nodiscard]] OpNeeds needs() const {
    return {.input = true,
            .scratch_bytes = linear_scratch_ + rows_bytes() + bias_bytes() + numbers_bytes()};
  }

  /// Of the rows of the last forward().
  [[nodiscard]] std::int32_t const* columns() const { return columns_.data(); }

  void forward(Operands<T, P> const& o, Pass<Device> const& p) {
    with_sample(o, p, [&](Operands<T, P> const& of_sample) { linear_.forward(of_sample, p); });
    target_logits(p.device.team, sample_, p.batch, channels_, o.x[0], o.parameter[0], bias(o),
                  p.criterion.targets, o.y, columns_.data());
  }

  void input_gradient(Operands<T, P> const& o, Pass<Device> const& p) {
    with_sample(o, p,
                [&](Operands<T, P> const& of_sample) { linear_.input_gradient(of_sample, p); });
    add_target_input_gradient(p.device.team, p.batch, sampled_, channels_, o.dy, o.parameter[0],
                              p.criterion.targets, o.dx[0]);
  }

  void weight_gradient(Operands<T, P> const& o, Pass<Device> const& p) {
    draw(p);
    P* const gradient[2] = {rows<P>(p.device), bias_of(p.device)};
    Operands<T, P> of_sample = o;
    of_sample.gradient = gradient;
    Pass<Device> overwriting = p;
    overwriting.accumulate = false;
    linear_.weight_gradient(of_sample, overwriting);
    if (by_rows_) {
      spread_sample_rows(p.device.team, sample_, vocabulary_, p.batch, channels_, gradient[0],
                         gradient[1], o.x[0], o.dy, p.criterion.targets, o.rows[0],
                         bias_ ? o.rows[1] : GradientRows<P>{}, p.accumulate, numbers(p.device));
    } else {
      spread_sample(p.device.team, sample_, vocabulary_, p.batch, channels_, gradient[0],
                    gradient[1], o.x[0], o.dy, p.criterion.targets, o.gradient[0],
                    bias_ ? o.gradient[1] : nullptr, p.accumulate);
    }
  }

 private:
  static constexpr std::int64_t rounded(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

  [[nodiscard]] std::int64_t rows_bytes() const {  // of the sample's weights, then their gradient
    return rounded(std::int64_t{sampled_ + 1} * channels_ * static_cast<std::int64_t>(sizeof(P)));
  }
  [[nodiscard]] std::int64_t bias_bytes() const {
    return rounded((std::int64_t{sampled_} + 1) * static_cast<std::int64_t>(sizeof(P)));
  }
  [[nodiscard]] std::int64_t numbers_bytes() const {
    return by_rows_ ? sample_rows_scratch(sampled_, static_cast<std::int64_t>(columns_.size())) *
                          static_cast<std::int64_t>(sizeof(std::int32_t))
                    : 0;
  }
  template <class E>
  [[nodiscard]] E* rows(Device& device) const {
    return reinterpret_cast<E*>(device.scratch + linear_scratch_);
  }
  [[nodiscard]] P* bias_of(Device& device) const {
    return reinterpret_cast<P*>(device.scratch + linear_scratch_ + rows_bytes());
  }
  [[nodiscard]] std::int32_t* numbers(Device& device) const {
    return reinterpret_cast<std::int32_t*>(device.scratch + linear_scratch_ + rows_bytes() +
                                           bias_bytes());
  }
  [[nodiscard]] P const* bias(Operands<T, P> const& o) const {
    return bias_ ? o.parameter[1] : nullptr;
  }

  void draw(Pass<Device> const& p) {
    sample_.draw(p.state->seed, static_cast<std::uint32_t>(p.state->step), layer_);
  }

  /// f(operands), the weights of which are the sample's.
  template <class F>
  void with_sample(Operands<T, P> const& o, Pass<Device> const& p, F const& f) {
    draw(p);
    gather_sample(p.device.team, sample_, channels_, o.parameter[0], bias(o), rows<T>(p.device),
                  bias_of(p.device));
    P* const parameter[2] = {rows<P>(p.device), bias_of(p.device)};
    Operands<T, P> of_sample = o;
    of_sample.parameter = parameter;
    of_sample.packed = device_bytes(p.device);
    f(of_sample);
  }
  [[nodiscard]] std::byte* device_bytes(Device& device) const {
    return device.scratch + linear_scratch_;
  }

  int vocabulary_;
  int channels_;
  int sampled_;
  std::uint32_t layer_;
  bool bias_;
  bool by_rows_;
  Linear linear_;
  std::int64_t linear_scratch_;
  LogUniformSample sample_;
  std::vector<std::int32_t> columns_;
};

/// Any Vocabulary with Sampled.
///
/// The weights of all words are packed where a pass wants them all, and only once between updates.
/// @tparam Linear  the op of a Linear with a bias
/// @tparam Whole   VocabularyOp of all words
template <class T, class P, class Linear, class Whole, class Rows>
class SampledVocabularyOp {
 public:
  SampledVocabularyOp(OpSetup const& setup, int words, int sampled, bool bias, bool by_rows,
                      int chunk_rows)
      : sampled_{setup, sampled + 1, 0.0, chunk_rows, words, bias, by_rows},
        whole_{setup, words, 0.0, chunk_rows > 0 ? chunk_rows : rows_of(setup, words, sampled)} {}

  [[nodiscard]] OpNeeds needs() const {
    OpNeeds all = sampled_.needs();
    all.scratch_bytes = std::max(all.scratch_bytes, whole_.needs().scratch_bytes);
    std::int64_t const packed = whole_.needs().packed_bytes;
    all.packed_bytes = packed > 0 ? packed + flag_bytes : 0;
    return all;
  }

  void pack(Operands<T, P> const& o, Device&) requires requires(Whole& whole, Device& device) {
    whole.pack(o, device);
  }
  {
    if (whole_.needs().packed_bytes > 0) {
      *o.packed = std::byte{0};
    }
  }

  void forward(Operands<T, P> const& o, Pass<Device> const& p) {
    if (p.training && p.criterion.scores == nullptr) {
      sampled_.forward(o, p);
    } else {
      whole_.forward(packed(o, p.device), p);
    }
  }
  void input_gradient(Operands<T, P> const& o, Pass<Device> const& p) {
    sampled_.input_gradient(o, p);
  }
  void weight_gradient(Operands<T, P> const& o, Pass<Device> const& p) {
    sampled_.weight_gradient(o, p);
  }

 private:
  static constexpr std::int64_t flag_bytes = 64;  // before packed weights: whether they are

  /// As many rows of all words' logits as have the memory of the sampled ones, but no fewer than
  /// 64: these cost the more, as each chunk reads all weights.
  static int rows_of(OpSetup const& setup, int words, int sampled) {
    std::int64_t const rows = setup.node.in.rows(setup.batch, setup.node.in[0]);
    return static_cast<int>(std::max<std::int64_t>(64, rows * (sampled + 1) / words));
  }

  Operands<T, P> packed(Operands<T, P> o, Device& device) {
    if constexpr (requires { whole_.pack(o, device); }) {
      if (whole_.needs().packed_bytes > 0) {
        std::byte* const flag = o.packed;
        o.packed += flag_bytes;
        if (*flag == std::byte{0}) {
          whole_.pack(o, device);
          *flag = std::byte{1};
        }
      }
    }
    return o;
  }

  VocabularyOp<T, P, SampledLinear<T, P, Linear>, Rows> sampled_;
  Whole whole_;
};

}  // namespace host

template <int V, class... Options, class Precision>
  requires(Vocabulary<V, Options...>::options.sampled > 0)
struct Op<Vocabulary<V, Options...>, BasicHost<Portable, Precision>>
    : host::SampledVocabularyOp<
          typename Precision::Scalar, typename Precision::Master,
          host::LinearOp<typename Precision::Scalar, true>,
          host::VocabularyOp<
              typename Precision::Scalar, typename Precision::Master,
              host::LinearOp<typename Precision::Scalar, Vocabulary<V, Options...>::bias>,
              host::VocabularyByRow>,
          host::VocabularyByRow> {
  using L = Vocabulary<V, Options...>;
  explicit Op(OpSetup const& setup)
      : Op::SampledVocabularyOp{setup,   V,          L::options.sampled,
                                L::bias, L::by_rows, L::options.chunk_rows} {}
};

}  // namespace tandem
