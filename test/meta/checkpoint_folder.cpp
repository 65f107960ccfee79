// SPDX-License-Identifier: Apache-2.0
// checkpoint_folder write FOLDER: a checkpoint into it. checkpoint_folder read MODEL: whether
// the weights in MODEL are those of the one that `write` made. See checkpoint_folder.py.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/tandem.hpp>

namespace td = tandem;

struct Net : td::Network<td::Image<1, 4, 4>, td::Sequential<td::Conv2d<2, td::Kernel<3>>, td::ReLU,
                                                            td::Flatten, td::Linear<3>>> {};
using Trainer = td::Trainer<Net, td::SingleDevice<>, td::Host>;

int main(int argc, char** argv) try {
  Trainer trainer{{.batch = 2, .optimizer = td::Adam{}, .seed = 3, .threads_per_device = 1}};
  std::vector<float> const x(2 * 16, 0.5F);
  std::vector<std::int32_t> const y{0, 2};
  trainer.step(x, y);
  std::string_view const verb = argc > 1 ? argv[1] : "";
  if (verb == "write" && argc == 3) {
    std::printf("%s\n", trainer.save_in(argv[2]).c_str());
    return 0;
  }
  if (verb == "read" && argc == 3) {
    Trainer other{{.batch = 2, .seed = 4}};
    other.load_weights(argv[2]);
    auto const read = other.parameters();
    auto const own = trainer.parameters();
    for (std::size_t p = 0; p < own.size(); ++p) {
      for (std::size_t i = 0; i < own[p].value.size(); ++i) {
        if (!(read[p].value[i] == own[p].value[i])) {
          std::printf("%s differs\n", own[p].name.c_str());
          return 1;
        }
      }
    }
    return 0;
  }
  std::fprintf(stderr, "checkpoint_folder write FOLDER, or checkpoint_folder read MODEL\n");
  return 2;
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
