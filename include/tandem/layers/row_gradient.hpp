// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RowGradient: the option of a layer whose weight's gradient has few rows that are not 0.

#include <concepts>
#include <cstdint>

namespace tandem {

/// Embedding<V, C, RowGradient>: the weight's gradient is the rows that the step's indices name, at
/// most batch times T of V, in place of V rows; Vocabulary<V, Sampled<S>, RowGradient>: weight's
/// and bias's are those of the words that are drawn and of the targets, S and as many more. No
/// memory of the size of the weight, and of the update nothing but these rows. Replicas gather each
/// other's rows and add them in the order of a dense gradient, so that the numbers are the same,
/// bit for bit.
///
/// For optimizers that leave alone what has the gradient 0: Sgd without momentum, Adagrad, and own
/// ones that say so, all without weight decay.
struct RowGradient {
  static constexpr bool row_gradient = true;
};

/// Of a layer's options.
template <class... Options>
constexpr bool has_row_gradient() {
  return (std::same_as<Options, RowGradient> || ...);
}

/// Whether RowGradient is the cheaper one, for a weight of @p rows rows of which a replica's share
/// of a batch touches @p touched at most, on @p replicas replicas.
///
/// Replicas receive replicas x touched rows instead of 2 rows (replicas - 1) / replicas; one device
/// alone writes, reads and clears the rows of a dense gradient, and of rows sorts the numbers too.
constexpr bool row_gradient_is_cheaper(std::int64_t rows, std::int64_t touched, int replicas) {
  return replicas > 1 ? replicas * replicas * touched < 2 * rows * (replicas - 1)
                      : 2 * touched < rows;
}

}  // namespace tandem
