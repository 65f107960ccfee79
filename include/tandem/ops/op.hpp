// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Op<Layer, Backend>: a layer's passes on a backend, prepared once for one node of a graph.
///
/// An op is an object constructed from an OpSetup. It has forward, input_gradient and (with
/// parameters) weight_gradient, each over one microbatch; it never allocates and never sees a
/// communicator. Gradients of activations are overwritten; the engine adds where a value forks. An
/// op that asks for packed bytes has pack(operands, device), called when parameters have changed.

#include <cstddef>
#include <cstdint>

#include <tandem/core/gradient_rows.hpp>
#include <tandem/graph/columns.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/ops/step_state.hpp>

namespace tandem {

/// The convolutions that one op computes together, side by side in one wide output.
struct MergedOutputs {
  static constexpr int most = 8;
  int count = 1;
  int channels[most] = {};   ///< outputs of each, in the order of their slices
  int parameter[most] = {};  ///< where each one's parameters stand in Operands, from the op's own
};

/// What an op is prepared for.
struct OpSetup {
  Node node{};
  int index = 0;                  ///< of the node in its graph; part of the key of random numbers
  Shape const* inputs = nullptr;  ///< of each input; there while the op is made
  int batch = 0;                  ///< samples in the largest microbatch
  int threads = 1;                ///< of its device
  bool wants_input_gradient = true;  ///< input_gradient runs before weight_gradient; else never
  bool reproducible = false;         ///< choose algorithms by shape only, and none whose sums vary
  int x_stride = 0;  ///< channels of the stored pixels that input 0 is a slice of; its own if whole
  int y_stride = 0;  ///< the same of the output
  MergedOutputs merged{};
  /// Of a batch norm that takes over the bias of the convolution before it: where that stands in
  /// Operands, from the op's own parameters; 0: it takes none. In training the convolution, whose
  /// node is `absorbed`, neither adds its bias nor touches its gradient: the batch norm adds the
  /// bias to the running mean and writes its gradient, which is 0.
  int absorbed_bias = 0;
  /// Of a norm that computes the sum before it: the rate of the dropout that it computes of the
  /// first summand, 0 if there is none, and that one's `index`.
  double dropout = 0.0;
  int dropout_index = 0;
  /// Where several ranks share the layer: which slice of it `node` is.
  Slice slice{};
};

/// The memory that an op wants for a microbatch of OpSetup::batch samples.
struct OpNeeds {
  bool input = false;              ///< backward reads x
  bool output = false;             ///< backward reads y
  bool in_place = false;           ///< y may be any x that is not read again, dx may be dy
  std::int64_t saved_bytes = 0;    ///< kept from forward to backward
  std::int64_t scratch_bytes = 0;  ///< of any one pass, not kept
  std::int64_t staged_bytes = 0;  ///< gradients of parameters that wait until their bucket is whole
  std::int64_t packed_bytes = 0;  ///< parameters in a layout of the op's own, kept between steps
  /// Of one sample, handed from rows of time to later ones: see SequencePass::position. A multiple
  /// of the alignment of what is in it.
  std::int64_t carried_bytes = 0;
  std::int64_t carried_gradient_bytes = 0;  ///< of a sample, of the gradient of that
};

/// Memory of the nodes that an op computes besides its own, see Fusion.
template <class T>
struct FusedOperands {
  std::byte const* activation = nullptr;  ///< what Fusion::activated_by has saved
  T const* const* summands = nullptr;     ///< of Fusion::sums: its inputs
  T* sum = nullptr;                       ///< and its output, which is x[0]
  T const* also = nullptr;                ///< a gradient of x[0] to be added to dx[0]
};

/// Memory that an op hands from earlier rows of sequences to later ones, and back.
struct SequenceOperands {
  /// From call to call, sample b's state is at carry + b * carried_bytes; null: nothing is carried.
  std::byte* carry = nullptr;
  /// Here goes the state that the rows leave, laid out as carry: for a node with
  /// SequenceNode::carried where SequencePass::position is -1, and for every node where passes have
  /// chunks. Training has two places, since a pass may be computed again.
  std::byte* carried_on = nullptr;
  /// In chunks, this is all samples' gradient of what the next chunk has begun with, then of what
  /// this one has, as the op lays it out.
  std::byte* carry_gradient = nullptr;
  /// In a chunk behind the first: elements of x[0] from the chunk before to this one, and as many
  /// between all before it, which are kept for the microbatch.
  std::int64_t apart = 0;
};

/// One node's memory for one live microbatch. B is the microbatch's size; T is the type of
/// activations, P that of parameters and of their gradients.
template <class T, class P = T>
struct Operands {
  T const* const* x = nullptr;       ///< each input, (B, its shape)
  T* y = nullptr;                    ///< (B, out)
  T const* dy = nullptr;             ///< gradient of y
  T* const* dx = nullptr;            ///< gradient of each input; null where none is wanted
  P* const* parameter = nullptr;     ///< each parameter, in the layer's order
  T const* const* weight = nullptr;  ///< each parameter rounded to T; itself where T is P
  P* const* gradient = nullptr;      ///< of each parameter; of a statistic: what is averaged
  /// The gradient of each parameter with Parameter::touched; null where a device has none of these.
  GradientRows<P> const* rows = nullptr;
  std::byte* saved = nullptr;
  std::byte* packed = nullptr;
  FusedOperands<T> fused{};
  SequenceOperands sequence{};
};

/// A pass's part for a criterion; all pointers are to the device's memory.
struct CriterionPass {
  std::int32_t const* targets = nullptr;  ///< one target a row, -1 for none; null: there are none
  double const* row_scale = nullptr;      ///< the gradient of a row's loss
  /// For a loss op whose `scale` the host cannot know: what its gradient is multiplied by besides;
  /// null: nothing. On Host `scale` has it, and row_scale has it everywhere.
  float const* loss_scale = nullptr;
  float* scores = nullptr;  ///< instead of losses, the logits (limit) of the last row
};

/// Which rows of sequences a pass has, where these come in pieces.
struct SequencePass {
  /// How many of their rows came before. An op that looks at other rows reads them in
  /// SequenceOperands::carry and adds these. -1: whole. Of a network of two inputs only the second
  /// comes in pieces: the first, whole, with the piece of position 0.
  int position = -1;
  /// Where the pieces are the chunks of a step, which goes through all of them forward, and then
  /// back: the rows of each sample in all chunks; 0: they are not. Then an op leaves in
  /// SequenceOperands::carried_on what its rows have got to, and in backward, from the last chunk
  /// to the first, in SequenceOperands::carry_gradient the gradient of what they have begun with.
  int rows_in_all = 0;
  /// For an attention to the other input, on Host: (samples, longest), where it writes how much of
  /// each row it has taken so far; null: it need not.
  float* coverage = nullptr;

  [[nodiscard]] constexpr bool is_chunk() const { return rows_in_all > 0; }
  /// Position in time of the first row.
  [[nodiscard]] constexpr int first_row() const { return position > 0 ? position : 0; }
};

/// Which rows a rank has of all samples' rows, where it has a part of them, which an op sees as one
/// sample's.
struct ShardPass {
  int sample_time = 0;         ///< rows of a sample; 0 where the rank has all rows
  std::int64_t first_row = 0;  ///< which row of all samples the rank's first is
};

/// Times of samples whose clock is not the op's, where a network has two inputs.
struct OtherClock {
  int time = 0;                           ///< as Pass::time
  std::int32_t const* lengths = nullptr;  ///< as Pass::lengths
};

/// What a pass over one microbatch may depend on.
template <class Device>
struct Pass {
  Device& device;
  int batch = 0;                     ///< samples in this microbatch
  std::int64_t first_sample = 0;     ///< position of its first sample in the global batch
  double share = 1.0;                ///< its samples over those of the global batch
  StepState const* state = nullptr;  ///< in the device's memory: for its kernels to read
  bool training = true;
  bool accumulate = false;  ///< add to parameter gradients instead of overwriting them
  int time = 0;  ///< rows of each timed sample of the op's clock, at most the shape's extent 0
  /// Of each sample, in the device's memory: how many of its rows count; null: all. The others hold
  /// finite numbers that no result may depend on.
  std::int32_t const* lengths = nullptr;
  CriterionPass criterion{};
  SequencePass sequence{};
  ShardPass shard{};
  OtherClock other_clock{};

  /// Whether no chunk comes behind this one.
  [[nodiscard]] constexpr bool is_last_chunk() const {
    return !sequence.is_chunk() || sequence.position + time == sequence.rows_in_all;
  }

  /// The same pass for an op whose first input is of clock @p clock.
  [[nodiscard]] constexpr Pass on_clock(int clock) const {
    Pass other = *this;
    if (clock != 0) {
      other.time = other_clock.time;
      other.lengths = other_clock.lengths;
      other.other_clock = {time, lengths};
    }
    return other;
  }

  /// The same pass for an op whose rows are all there, whatever comes in pieces.
  [[nodiscard]] constexpr Pass whole() const {
    Pass other = *this;
    other.sequence.position = -1;
    return other;
  }

  /// The same pass for an op that treats all rows alike and has those of slice @p own.
  [[nodiscard]] constexpr Pass on_rows(Slice own) const {
    DealtRows const rows{std::int64_t{batch} * time, own};
    Pass other = *this;
    other.batch = batch > 0 ? 1 : 0;
    other.time = static_cast<int>(rows.each());
    other.lengths = nullptr;
    other.shard = {time, rows.first()};
    return other;
  }

  /// Rows of a value of @p shape, which an op sees that treats all alike.
  [[nodiscard]] constexpr std::int64_t rows(Shape const& shape) const {
    return shape.rows(batch, time);
  }
  /// Elements of such a value.
  [[nodiscard]] constexpr std::int64_t elements(Shape const& shape) const {
    return batch * shape.elements(time);
  }
};

namespace detail {

template <class L, class Backend>
inline constexpr bool has_op = false;  // what the sentences depend on

// The sentences stand in types of their own: clang gives up a class with a failed assert in it, and
// says so of all that is built on it.
template <class L, class Backend>
struct OpIsThere {
  static constexpr bool value = true;
  static_assert(has_op<L, Backend>,
                "Op<Layer, Backend>: this layer has no kernels for this backend; give your layer "
                "static forward(call) and input_gradient(call) for Host, derive it from "
                "ElementLayer for every backend, or specialise tandem::Op");
};
template <class L, class Backend>
struct LossOpIsThere {
  static constexpr bool value = true;
  static_assert(has_op<L, Backend>,
                "LossOp<Loss, Backend>: this loss has no kernels for this backend; give it static "
                "value(output, target) and gradient(output, target, dy), both of one sample, and "
                "of Rows where they are to run on Cuda");
};
template <class M, class Backend>
struct MetricOpIsThere {
  static constexpr bool value = true;
  static_assert(has_op<M, Backend>,
                "MetricOp<Metric, Loss, Backend>: this metric does not fit this loss's targets, or "
                "has no kernels for this backend; give it static value(output, target) of one "
                "sample, and of Rows where it is to run on Cuda");
};

/// In place of an op that there is not: takes what an op takes.
struct NoOp {
  explicit NoOp(auto const&... /*arguments*/) {}
  [[nodiscard]] static OpNeeds needs() { return {}; }
  [[nodiscard]] static std::int64_t scratch_bytes() { return 0; }
  static void forward(auto const&... /*arguments*/) {}
  static void input_gradient(auto const&... /*arguments*/) {}
  static void weight_gradient(auto const&... /*arguments*/) {}
  static void gradient(auto const&... /*arguments*/) {}
  static void count(auto const&... /*arguments*/) {}
};

}  // namespace detail

/// The primary template is the error path.
template <class L, class Backend>
struct Op : detail::NoOp {
  using detail::NoOp::NoOp;
  static_assert(detail::OpIsThere<L, Backend>::value);
};

/// The joins of a graph, which are no layers of the user's.
struct ConcatJoin {};
struct AddJoin {};
struct MultiplyJoin {};
/// y = x + bias, row by row or channel by channel, which several ranks need once: a node of a
/// spread graph.
struct RowBias {};
/// The words of an Embedding or a Vocabulary that one of several ranks has.
template <class L>
struct WordSlice {};
/// Where ranks that have tiles of images exchange pixels: a node of a graph of tiles. Its op says
/// what goes to whom and the engine sends it, see TileMessage.
struct TileExchange {};

/// Border<Backend>: load and store samples where a backend has them otherwise than the user.
template <class Backend>
struct Border;

/// LossOp<Loss, Backend>: the loss of a microbatch and its gradient; the primary is the error path.
template <class L, class Backend>
struct LossOp : detail::NoOp {
  using detail::NoOp::NoOp;
  static_assert(detail::LossOpIsThere<L, Backend>::value);
};

/// MetricOp<Metric, Loss, Backend>: sums a metric over a microbatch; the primary is the error path.
template <class M, class L, class Backend>
struct MetricOp : detail::NoOp {
  using detail::NoOp::NoOp;
  static_assert(detail::MetricOpIsThere<M, Backend>::value);
};

}  // namespace tandem
