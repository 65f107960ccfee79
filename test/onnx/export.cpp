// SPDX-License-Identifier: Apache-2.0
// Writes networks as ONNX files into a folder, and beside each what a Predictor makes of some
// inputs: NAME.onnx, NAME.safetensors with input.K (second_input.K) and output.K.
//   export FOLDER

#include <tandem/onnx.hpp>
#include <tandem/tandem.hpp>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace {

using namespace tandem;
struct Less;

}  // namespace

template <>
struct tandem::OnnxLayer<Less> {
  static std::string write(OnnxNode const& n) { return n.graph("Sub", n.inputs); }
};

namespace {

/// Every layer of images and vectors.
struct Images
    : Network<
          Image<6, 11, 12>,
          Sequential<Conv2d<8, Kernel<3, 2>, Stride<2, 1>, Padding<1, 0>, Groups<2>>, BatchNorm2d<>,
                     ReLU,
                     Concat<MaxPool2d<Kernel<3>, Stride<1>, Padding<1>>,
                            AvgPool2d<Kernel<3>, Stride<1>, Padding<1>>,
                            AvgPool2d<Kernel<3>, Stride<1>, Padding<1>, ExcludePadding>,
                            Sequential<Conv2d<4, NoBias>, SyncBatchNorm2d<Epsilon<1, 100>>, SiLU>>,
                     Residual<Sequential<Conv2d<31, Kernel<3>, Stride<2>, Padding<1>>, Tanh>,
                              Subsample2d<31, 2>>,
                     Dropout<>, MaxPool2d<Kernel<2>>,
                     Concat<Sequential<Flatten, Linear<16>>, GlobalAvgPool>, LayerNorm<>, Gelu,
                     Linear<24, NoBias>, SwiGlu, RmsNorm<>, GeluTanh, LayerNorm<NoBias>, Sigmoid,
                     Linear<7>, Softmax>> {};

/// A rule of the program's own.
struct Less : ElementJoin<Less> {
  static constexpr std::string_view name = "Less";
  template <class R>
  static R value(R a, R b) {
    return a - b;
  }
  template <class R>
  static R first_slope(R, R) {
    return 1;
  }
  template <class R>
  static R second_slope(R, R) {
    return -1;
  }
};

/// Other sizes and other norms.
struct Sizes
    : Network<Image<4, 7, 6>,
              Sequential<Pad2d<Padding<2, 1>, Circular>, Conv2d<6, Kernel<3>, Dilation<2>>,
                         GroupNorm<3>, Pad2d<Padding<1>, Reflect>, Pad2d<Padding<1, 0>, Replicate>,
                         ConvTranspose2d<8, Kernel<3, 2>, Stride<2>, Padding<1>, Dilation<2, 1>,
                                         OutputPadding<1, 0>, Groups<2>>,
                         InstanceNorm2d<Affine>, Upsample<2>,
                         Multiply<Sequential<>, Sequential<Conv2d<8>, Sigmoid>, Tanh>,
                         Join<Less, Sequential<>, Conv2d<8>>, MaxPool2d<Kernel<2>, Stride<2>>,
                         InstanceNorm2d<>, Upsample<3, Bilinear>, Pad2d<Padding<1>>,
                         AvgPool2d<Kernel<4>>, Flatten, GroupNorm<4, NoAffine>, Linear<5>>> {};

/// Every layer of sequences, but for a Vocabulary.
struct Rows
    : Network<Tokens<9, 13>,
              Sequential<
                  Embedding<13, 8>, Positions<>,
                  Residual<Sequential<LayerNorm<>, Linear<32>, RotaryPositions<4, KeyHeads<2>>,
                                      Attention<4, Causal, KeyHeads<2>, Percent<10>>, Linear<8>>>,
                  Concat<Sequential<Linear<24>, Attention<2>>, Sequential<Linear<6>, SwiGlu>>,
                  RmsNorm<>, Softmax, Concat<LastRow, MeanOverTime>, Linear<5>>> {};

/// States that rows leave to rows.
struct States
    : Network<Tokens<9, 13>,
              Sequential<Embedding<13, 8>, Lstm<6>, Lstm<5, OneBias, ForgetBias<1>, Bidirectional>,
                         Gru<7>, Gru<4, NoBias, Bidirectional>, Linear<5>, LastRow>> {};

/// Two inputs, of different numbers of rows.
struct Pair : Network<Inputs<Tokens<5, 7>, Tokens<6, 9>>,
                      Sequential<Concat<Sequential<Embedding<7, 4>, MeanOverTime>,
                                        Sequential<Input<1>, Embedding<9, 4>, LastRow>>,
                                 Linear<3>>> {};

struct SmallGpt : models::Gpt<11, 8, 16, 2, 2, Percent<10>> {};
struct Cnn : models::GoogLeNet<10> {};

/// In ±1, by number.
float drawn(std::uint64_t index, std::uint64_t key) {
  return 2.0F * uniform(philox(5, RandomUse::user, index, key).word[0]) - 1.0F;
}

template <class Net>
class Case {
  using P = Predictor<Net, Host>;
  using In = typename P::In;

 public:
  Case(std::string folder, std::string const& name) : stem_{folder + "/" + name} {
    set_numbers();
    save_parameters(stem_ + ".safetensors", predictor_.parameters());
    predictor_.load(stem_ + ".safetensors");
    export_onnx<Net>(predictor_, stem_ + ".onnx");
  }
  ~Case() = default;

  /// Of so many samples; of sequences, of so many rows.
  void add(int samples, int time = 0, int second_time = 0) {
    std::string const k = std::to_string(count_++);
    std::vector<In> const x = inputs<In>(0, samples, time);
    std::vector<std::int32_t> second;
    if (second_time > 0) {
      second = inputs<std::int32_t>(1, samples, second_time);
      put("second_input." + k, second, {samples, second_time});
    }
    std::vector<float> y =
        predictor_.predict(x, {.time = time, .second = second, .second_time = second_time});
    put("input." + k, x, {samples, static_cast<std::int64_t>(x.size()) / samples});
    put("output." + k, y, {samples, static_cast<std::int64_t>(y.size()) / samples});
  }
  void write() const { write_safetensors(stem_ + ".safetensors", tensors_); }

 private:
  // Weights as a trainer begins with them, and statistics other than that.
  void set_numbers() {
    for (auto const& p : predictor_.parameters()) {
      Parameter const& own = P::graph.parameter[p.index].parameter;
      std::vector<float> values(p.value.size());
      initialize<float>(own, p.owner, 3, values);
      bool const small = own.init.law == Init::Law::normal && own.init.value < 0.1F;
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] *= small ? 12.0F : 1.0F;  // else a GPT's rows hardly look at each other
        values[i] += own.init.law == Init::Law::constant
                         ? 0.3F * drawn(i, static_cast<std::uint64_t>(p.index))
                         : 0.0F;
      }
      predictor_.set_parameter(p.name, values);
    }
  }
  template <class Number>
  static std::vector<Number> inputs(int input, int samples, int time) {
    Node const& node = P::graph.node[input];
    std::vector<Number> list;
    for (std::int64_t i = 0; i < samples * node.out.elements(time); ++i) {
      float const number = drawn(static_cast<std::uint64_t>(i), 1000 + std::uint64_t(samples));
      list.push_back(std::is_integral_v<Number>
                         ? static_cast<Number>((number + 1.0F) * 0.4999F * float(node.limit))
                         : static_cast<Number>(number));
    }
    return list;
  }
  template <class Number>
  void put(std::string name, std::vector<Number> const& numbers,
           std::vector<std::int64_t> extents) {
    std::span<std::byte const> const bytes = std::as_bytes(std::span{numbers});
    auto const& own = memory_.emplace_back(bytes.begin(), bytes.end());
    tensors_.push_back({std::move(name), dtype_of<Number>, std::move(extents), own});
  }

  std::string stem_;
  P predictor_{{.batch = 4, .threads = 1}};
  int count_ = 0;
  std::list<std::vector<std::byte>> memory_;
  std::vector<TensorView> tensors_;
};

}  // namespace

int main(int argc, char** argv) try {
  std::string const folder = argc > 1 ? argv[1] : ".";
  Case<Images> images{folder, "images"};
  images.add(1);
  images.add(5);
  images.write();
  Case<Sizes> sizes{folder, "sizes"};
  sizes.add(2);
  sizes.write();
  Case<Rows> rows{folder, "rows"};
  rows.add(3, 9);
  rows.add(2, 1);
  rows.add(1, 6);
  rows.write();
  Case<States> states{folder, "states"};
  states.add(3, 9);
  states.add(1, 4);
  states.write();
  Case<Pair> pair{folder, "pair"};
  pair.add(3, 5, 6);
  pair.add(2, 4, 2);
  pair.write();
  Case<SmallGpt> gpt{folder, "gpt"};
  gpt.add(2, 8);
  gpt.add(3, 5);
  gpt.write();
  Case<Cnn> cnn{folder, "googlenet"};
  cnn.add(1);
  cnn.write();
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
