// A layer, a loss and a metric of your own, tested and trained like the library's.
//   custom_layer      prints what check_layer found, and how far a regression came.

#include <cmath>
#include <cstdio>
#include <tandem/tandem.hpp>

namespace td = tandem;

struct Swish {  // y = x sigmoid(slope x), with a learnt slope
  static constexpr std::string_view name = "Swish";
  static constexpr td::Shape output(td::Shape in) { return in; }
  static constexpr td::Parameters parameters(td::Shape) {
    return td::Parameters{td::Parameter{"slope", td::vector_shape(1), td::Init::constant(1)}};
  }
  static auto sigmoid(auto x) { return 1 / (1 + std::exp(-x)); }
  static void forward(auto const& c) {  // for_each and sum use all threads of the device
    auto const slope = c.parameter(0)[0];
    c.for_each(c.x.size(), [&](std::size_t i) { c.y[i] = c.x[i] * sigmoid(slope * c.x[i]); });
  }
  static void input_gradient(auto const& c) {
    auto const slope = c.parameter(0)[0];
    c.for_each(c.x.size(), [&](std::size_t i) {
      auto const s = sigmoid(slope * c.x[i]);
      c.dx[i] = c.dy[i] * s * (1 + slope * c.x[i] * (1 - s));
    });
  }
  static void weight_gradient(auto const& c) {  // adds
    auto const slope = c.parameter(0)[0];
    c.gradient(0)[0] += static_cast<decltype(slope + 0)>(c.sum(c.x.size(), [&](std::size_t i) {
      auto const s = sigmoid(slope * c.x[i]);
      return c.dy[i] * c.x[i] * c.x[i] * s * (1 - s);
    }));
  }
};
struct LogCosh {  // log cosh(y - t), of one sample
  using Target = float;
  static constexpr std::string_view name = "LogCosh";
  static constexpr int targets(td::Shape) { return 1; }
  static double value(auto y, auto t) { return std::log(std::cosh(double{y[0]} - double{t[0]})); }
  static void gradient(auto y, auto t, auto dy) { dy[0] = std::tanh(y[0] - t[0]); }
};
struct WithinTenth {
  static constexpr std::string_view name = "share within 0.1";
  static double value(auto y, auto t) { return std::abs(double{y[0]} - double{t[0]}) < 0.1; }
};
struct Net : td::Network<td::Vector<1>, td::Sequential<td::Linear<16>, Swish, td::Linear<1>>> {};

int main() {
  std::printf("check_layer %s\n", td::check_layer<Swish, td::Vector<8>>().ok() ? "ok" : "failed");
  std::vector<float> x, y;
  for (float a = -2; a < 2; a += 1.0F / 128)
    x.push_back(a), y.push_back(std::sin(2 * a));
  td::TensorDataset<float> const sine{td::vector_shape(1), x, y, 1};
  td::Trainer<Net, td::DataParallel<2>, td::Host, LogCosh, WithinTenth> trainer{
      {.batch = 64, .optimizer = td::Adam{.learning_rate = 0.02F}}};
  for (auto epoch : td::epochs(100))
    trainer.train(sine, epoch);
  std::printf("share within 0.1: %.2f\n", trainer.evaluate(sine).metric);
}
