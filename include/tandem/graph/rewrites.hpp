// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Rewrites: what a backend says of the graphs that suit its kernels.

namespace tandem {

/// Which rewrites a backend wants.
struct Rewrites {
  bool fuse_relu = false;        ///< a ReLU behind a batch norm becomes part of it
  bool fuse_linear = false;      ///< a ReLU or GeluTanh behind a Linear becomes part of it
  bool fuse_sum = false;         ///< a Residual's sum becomes part of the norm behind it
  bool channels_last = false;    ///< activations are stored (B, H, W, C)
  bool merge_pointwise = false;  ///< sibling 1x1 convolutions become one; needs channels_last
  bool place_concat = false;     ///< inputs of a Concat are written into it; needs channels_last
  /// A convolution's bias in front of a batch norm is added to the running mean instead.
  bool absorb_bias = false;
};

}  // namespace tandem
