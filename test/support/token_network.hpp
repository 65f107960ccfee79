// SPDX-License-Identifier: Apache-2.0
// A network of tokens small enough to be checked by hand, of layers of its own: Lookup reads rows
// of a table, Guess gives the loss of each row from a table that it may share with it. What is
// tested with it is the engine's: indices, time, lengths, targets, shared parameters.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/tandem.hpp>

namespace tandem::test {

inline constexpr int words = 11;
inline constexpr int channels = 6;
inline constexpr int longest = 7;

struct Lookup {
  static constexpr std::string_view name = "Lookup";
  static constexpr bool takes_indices = true;
  static constexpr Fault fault(Shape in) {
    return in.rank == 1 && in.timed ? Fault::none : Fault::not_tokens;
  }
  static constexpr Shape output(Shape in) { return timed_shape(in[0], channels); }
  static constexpr Parameters parameters(Shape) {
    return Parameters{Parameter{"weight", {2, {words, channels}}, Init::uniform_fan_in(4)}};
  }
};

/// y = x + b; with a parameter a channel, so that each stage has one.
struct Shift {
  static constexpr std::string_view name = "Shift";
  static constexpr Shape output(Shape in) { return in; }
  static constexpr Parameters parameters(Shape in) {
    return Parameters{Parameter{"bias", vector_shape(in[1]), Init::uniform_fan_in(9)}};
  }
};

/// Loss of a row: -log softmax(weight x)[target].
template <class Owner>
struct Guess {
  using shares = Owner;
  using Divisor = PerToken;
  static constexpr std::string_view name = "Guess";
  static constexpr bool is_criterion = true;
  static constexpr int classes = words;
  static constexpr Shape output(Shape in) { return timed_shape(in[0], 3); }
  static constexpr Parameters parameters(Shape in) {
    return Parameters{Parameter{"weight", {2, {words, in[1]}}, Init::uniform_fan_in(4)}};
  }
};

struct Table : Lookup {};

template <class Owner, int Blocks = 4>
struct TokenNet
    : Network<Tokens<longest, words>, Sequential<Table, Repeat<Blocks, Shift>, Guess<Owner>>> {};
using TiedNet = TokenNet<Table>;
using FreeNet = TokenNet<void>;

/// A batch of sequences, and what a network should make of them.
struct TokenBatch {
  int time = longest;
  std::vector<std::int32_t> x{};
  std::vector<std::int32_t> targets{};
  std::vector<std::int32_t> lengths{};
};

/// Sequences of lengths 1 to @p time; behind the end 0 and -1.
inline TokenBatch token_batch(int samples, int time, int step, bool whole = false) {
  TokenBatch batch{.time = time};
  for (int s = 0; s < samples; ++s) {
    int const length = whole ? time : 1 + (s * 5 + step * 3) % time;
    batch.lengths.push_back(length);
    for (int t = 0; t < time; ++t) {
      bool const there = t < length;
      batch.x.push_back(there ? (s * 7 + t * 3 + step) % words : 0);
      batch.targets.push_back(there ? (s + t * 5 + step * 2) % words : -1);
    }
  }
  return batch;
}

}  // namespace tandem::test

namespace tandem {

template <class Precision>
class Op<test::Lookup, BasicHost<Portable, Precision>> {
  using T = typename Precision::Scalar;

 public:
  explicit Op(OpSetup const& setup) : in_{setup.node.in} {}
  [[nodiscard]] static OpNeeds needs() { return {.input = true}; }
  void forward(Operands<T> const& o, Pass<host::Device> const& p) const {
    auto const* const token = reinterpret_cast<std::int32_t const*>(o.x[0]);
    for (std::int64_t r = 0; r < p.rows(in_); ++r) {
      for (int c = 0; c < test::channels; ++c) {
        o.y[r * test::channels + c] = o.parameter[0][token[r] * test::channels + c];
      }
    }
  }
  void input_gradient(Operands<T> const&, Pass<host::Device> const&) const {}
  void weight_gradient(Operands<T> const& o, Pass<host::Device> const& p) const {
    auto const* const token = reinterpret_cast<std::int32_t const*>(o.x[0]);
    for (int i = 0; i < test::words * test::channels && !p.accumulate; ++i) {
      o.gradient[0][i] = T{0};
    }
    for (std::int64_t r = 0; r < p.rows(in_); ++r) {
      for (int c = 0; c < test::channels; ++c) {
        o.gradient[0][token[r] * test::channels + c] += o.dy[r * test::channels + c];
      }
    }
  }

 private:
  Shape in_;
};

template <class Precision>
class Op<test::Table, BasicHost<Portable, Precision>>
    : public Op<test::Lookup, BasicHost<Portable, Precision>> {
  using Op<test::Lookup, BasicHost<Portable, Precision>>::Op;
};

template <class Precision>
class Op<test::Shift, BasicHost<Portable, Precision>> {
  using T = typename Precision::Scalar;

 public:
  explicit Op(OpSetup const& setup) : in_{setup.node.in} {}
  [[nodiscard]] static OpNeeds needs() { return {}; }
  void forward(Operands<T> const& o, Pass<host::Device> const& p) const {
    for (std::int64_t i = 0; i < p.elements(in_); ++i) {
      o.y[i] = o.x[0][i] + o.parameter[0][i % in_[1]];
    }
  }
  void input_gradient(Operands<T> const& o, Pass<host::Device> const& p) const {
    for (std::int64_t i = 0; i < p.elements(in_); ++i) {
      o.dx[0][i] = o.dy[i];
    }
  }
  void weight_gradient(Operands<T> const& o, Pass<host::Device> const& p) const {
    for (int c = 0; c < in_[1] && !p.accumulate; ++c) {
      o.gradient[0][c] = T{0};
    }
    for (std::int64_t i = 0; i < p.elements(in_); ++i) {
      o.gradient[0][i % in_[1]] += o.dy[i];
    }
  }

 private:
  Shape in_;
};

template <class Owner, class Precision>
class Op<test::Guess<Owner>, BasicHost<Portable, Precision>> {
  using T = typename Precision::Scalar;

 public:
  explicit Op(OpSetup const& setup)
      : in_{setup.node.in},
        saved_{setup.batch * in_[0] * test::words * static_cast<std::int64_t>(sizeof(T))} {}
  [[nodiscard]] OpNeeds needs() const { return {.input = true, .saved_bytes = saved_}; }

  void forward(Operands<T> const& o, Pass<host::Device> const& p) const {
    T* const gradient = reinterpret_cast<T*>(o.saved);  // of the logits
    for (std::int64_t r = 0; r < p.rows(in_); ++r) {
      T* const own = gradient + r * test::words;
      T sum = 0;
      T most = static_cast<T>(-1e30);
      int best = 0;
      for (int v = 0; v < test::words; ++v) {
        own[v] = 0;
        for (int c = 0; c < in_[1]; ++c) {
          own[v] += o.parameter[0][v * in_[1] + c] * o.x[0][r * in_[1] + c];
        }
        best = own[v] > most ? v : best;
        most = own[v] > most ? own[v] : most;
      }
      for (int v = 0; v < test::words; ++v) {
        sum += own[v] = std::exp(own[v] - most);
      }
      std::int32_t const target = p.criterion.targets != nullptr ? p.criterion.targets[r] : -1;
      o.y[3 * r] = target < 0 ? T{0} : -std::log(own[target] / sum);
      o.y[3 * r + 1] = 0;
      o.y[3 * r + 2] = best == target ? T{1} : T{0};
      for (int v = 0; v < test::words; ++v) {
        own[v] = target < 0 ? T{0} : own[v] / sum - (v == target ? T{1} : T{0});
      }
    }
  }
  void input_gradient(Operands<T> const& o, Pass<host::Device> const& p) const {
    T const* const gradient = reinterpret_cast<T const*>(o.saved);
    for (std::int64_t r = 0; r < p.rows(in_); ++r) {
      for (int c = 0; c < in_[1]; ++c) {
        T sum = 0;
        for (int v = 0; v < test::words; ++v) {
          sum += gradient[r * test::words + v] * o.parameter[0][v * in_[1] + c];
        }
        o.dx[0][r * in_[1] + c] = sum * static_cast<T>(*p.criterion.row_scale);
      }
    }
  }
  void weight_gradient(Operands<T> const& o, Pass<host::Device> const& p) const {
    T const* const gradient = reinterpret_cast<T const*>(o.saved);
    for (int i = 0; i < test::words * in_[1] && !p.accumulate; ++i) {
      o.gradient[0][i] = T{0};
    }
    for (std::int64_t r = 0; r < p.rows(in_); ++r) {
      for (int v = 0; v < test::words; ++v) {
        for (int c = 0; c < in_[1]; ++c) {
          o.gradient[0][v * in_[1] + c] += gradient[r * test::words + v] * o.x[0][r * in_[1] + c] *
                                           static_cast<T>(*p.criterion.row_scale);
        }
      }
    }
  }

 private:
  Shape in_;
  std::int64_t saved_;
};

}  // namespace tandem
