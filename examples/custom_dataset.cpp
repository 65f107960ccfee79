// A dataset of your own: any type with size, shape, targets and a thread-safe read.
//   custom_dataset
// Prints the accuracy on images that the program draws itself: horizontal against vertical bars.

#include <tandem/tandem.hpp>

#include <algorithm>
#include <cstdio>

namespace td = tandem;

class Bars {
 public:
  using Target = std::int32_t;  // a label

  explicit Bars(std::int64_t size) : size_{size} {}

  std::int64_t size() const { return size_; }
  td::Shape shape() const { return td::image_shape(1, 12, 12); }
  int targets() const { return 1; }

  // Sample `index`, always the same one; called by the loader's thread.
  void read(std::int64_t index, std::span<float> x, std::span<Target> y) const {
    td::Random4 const random =
        td::philox(7, td::RandomUse::user, static_cast<std::uint64_t>(index), 0);
    bool const vertical = random.word[0] % 2 == 1;
    auto const place = random.word[1] % 12;
    std::ranges::fill(x, 0.0F);
    for (std::size_t i = 0; i < 12; ++i) {
      x[vertical ? i * 12 + place : place * 12 + i] = 1.0F;
    }
    x[random.word[2] % x.size()] = 1.0F;  // noise
    y[0] = vertical ? 1 : 0;
  }

 private:
  std::int64_t size_;
};

struct Net
    : td::Network<
          td::Image<1, 12, 12>,
          td::Sequential<td::Conv2d<8, td::Kernel<3>, td::Padding<1>>, td::BatchNorm2d<>, td::ReLU,
                         td::MaxPool2d<td::Kernel<2>>, td::Flatten, td::Linear<2>>> {};

int main() {
  td::Trainer<Net, td::DataParallel<2>, td::Host> trainer{
      {.batch = 50, .optimizer = td::Sgd{.learning_rate = 0.05F, .momentum = 0.9F}}};
  for (auto epoch : td::epochs(3)) {
    trainer.train(td::augment(Bars{2000}, td::RandomFlip{}), epoch);
  }
  std::printf("accuracy %.3f\n", trainer.evaluate(Bars{500}).accuracy);
}
