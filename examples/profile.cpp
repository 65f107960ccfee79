// Measures a network on this machine, for `plan --profile FILE.json`: what the passes of each node
// take, the update, and messages between two devices.
//   profile [small_cnn, googlenet, resnet18 or gpt] [largest microbatch, default 32]
//           [rounds, default 5] [FILE.json, default profile.json]
// gpt has 4 layers, 128 channels, 64 tokens a sample and 69 of them. A device is one thread here;
// two train at the same time, as those of a plan do.

#include <tandem/measure.hpp>
#include <tandem/plan.hpp>
#include <tandem/tandem.hpp>

#include <cstdio>
#include <stdexcept>
#include <string>

#include "number.hpp"

namespace td = tandem;

struct SmallCnn : td::models::SmallCnn<10> {};
struct GoogLeNet : td::models::GoogLeNet<10> {};
struct ResNet18 : td::models::ResNet18<10> {};
struct Gpt : td::models::Gpt<69, 64, 128, 4, 4> {};

td::NetworkProfile profile_of(std::string const& name, td::ProfileOptions const& options) {
  if (name == "small_cnn") {
    return td::profile<SmallCnn>(options);
  }
  if (name == "googlenet") {
    return td::profile<GoogLeNet>(options);
  }
  if (name == "resnet18") {
    return td::profile<ResNet18>(options);
  }
  if (name == "gpt") {
    return td::profile<Gpt>(options);
  }
  throw std::runtime_error{"there is no network '" + name +
                           "'; take small_cnn, googlenet, resnet18 or gpt"};
}

int main(int argc, char** argv) try {
  std::string const name = argc > 1 ? argv[1] : "small_cnn";
  int const largest = argc > 2 ? number_in(argv[2], 4, 65'536, "the largest microbatch") : 32;
  std::string const path = argc > 4 ? argv[4] : "profile.json";
  td::NetworkProfile const profile = profile_of(
      name, {.samples = {largest / 4, largest / 2, largest},
             .rounds = argc > 3 ? number_in(argv[3], 1, 1000, "the number of rounds") : 5});
  td::write_profile(profile, path);

  double const alone = td::measured_costs(profile, largest, td::DeviceLoad::alone).time();
  double const together = td::measured_costs(profile, largest).time();
  std::printf("%s, %d samples forward and backward: %.4g ms alone, %.4g ms beside another device\n",
              name.c_str(), largest, 1e3 * alone, 1e3 * together);
  std::printf("a message: %.3g us and %.3g GB/s; plan --profile %s says more\n",
              1e6 * profile.message.latency, 1e-9 * profile.message.bandwidth, path.c_str());
} catch (std::exception const& error) {
  std::fprintf(stderr, "profile: %s\n", error.what());
  return 1;
}
