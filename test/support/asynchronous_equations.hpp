// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The asynchronous strategies as equations: which weights each stage reads for the batch of a
/// step.
///
/// w_k(t) are the weights of stage k = 0, ..., p - 1 after t updates; for t < 0 they are w_k(0).
/// Each update is w_k(t+1) = w_k(t) - lr(t) m_k(t), where the momentum m_k(t) has taken in g_k(t),
/// the gradient of f, the loss on batch t, as the equation says.

namespace tandem::test {

/// Which weights stage k reads for batch t, each as its number of updates.
struct Reads {
  int forward = 0;      ///< what it sends on is computed with these …
  int predicted = 0;    ///< … moved on by so many updates with the momentum of then
  int activations = 0;  ///< what its backward pass reads is computed with these, and `predicted`
  int backward = 0;     ///< weights that its backward pass reads itself
};

/// PipeDream, g_k(t) = grad_k f(w_0(t-p+1), w_1(t-p+2), ..., w_{p-1}(t)); and DDG, where module k
/// applies at t + p - 1 - k the gradient that batch t had with the weights of its forward pass.
struct PipeDreamEquation {
  static constexpr Reads at(int t, int k, int p) {
    int const read = t - (p - 1 - k);
    return {.forward = read, .activations = read, .backward = read};
  }
};

/// With vertical sync: g(t) = grad f(w(t-p+1)).
struct VerticalSyncEquation {
  static constexpr Reads at(int t, int /*k*/, int p) {
    int const read = t - p + 1;
    return {.forward = read, .activations = read, .backward = read};
  }
};

/// PipeDream-2BW: g(t) = grad f(w(t-1)).
struct DoubleBufferedEquation {
  static constexpr Reads at(int t, int /*k*/, int /*p*/) {
    return {.forward = t - 1, .activations = t - 1, .backward = t - 1};
  }
};

/// SpecTrain: forward at w_k(t-d) - lr d m_k(t-d), d = p - 1 - k, for w_k(t), which backward reads.
struct PredictionEquation {
  static constexpr Reads at(int t, int k, int p) {
    int const delay = p - 1 - k;
    return {.forward = t - delay, .predicted = delay, .activations = t - delay, .backward = t};
  }
};

/// Features replay: the error of batch t goes back through w_k(t) at the input that stage k had
/// from w_0(t-p+1), ..., w_{k-1}(t-p+k).
struct ReplayEquation {
  static constexpr Reads at(int t, int k, int p) {
    return {.forward = t - (p - 1 - k), .activations = t, .backward = t};
  }
};

/// PMP: the same with twice the delay.
struct PipelinedModelEquation {
  static constexpr Reads at(int t, int k, int p) {
    return {.forward = t - 2 * (p - 1 - k), .activations = t, .backward = t};
  }
};

/// No delay: synchronous.
struct SynchronousEquation {
  static constexpr Reads at(int t, int /*k*/, int /*p*/) {
    return {.forward = t, .activations = t, .backward = t};
  }
};

}  // namespace tandem::test
