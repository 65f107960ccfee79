// Prints a table of a network: layer, output shape, parameters, multiply-accumulates, memory.
//   describe googlenet|resnet20|resnet18|small_cnn|gpt2|gpt2_medium|gpt2_large|gpt2_xl [--top]
//            [--strategy single|data2|model2] [--batch N]
// --top: a row a top-level part. --strategy, --batch: each device's memory for steps of N samples,
// 128 if it is not said. Needs no device: everything comes from the constexpr graph. For networks
// of your own: td::describe<Net, Strategy>() of <tandem/describe.hpp>, which is all of this but the
// arguments.

#include <tandem/describe.hpp>
#include <tandem/tandem.hpp>

#include <cstdio>
#include <string>

#include "number.hpp"

namespace td = tandem;

struct Arguments {
  std::string net;
  std::string strategy;
  td::DescribeOptions options{};
};

template <class Net>
int print(char const* title, Arguments arguments) {
  arguments.options.title = title;
  td::DescribeOptions const& options = arguments.options;
  std::string const text =
      arguments.strategy == "data2"    ? td::describe<Net, td::DataParallel<2>>(options)
      : arguments.strategy == "model2" ? td::describe<Net, td::ModelParallel<td::Auto<2>>>(options)
                                       : td::describe<Net>(options);
  std::fputs(text.c_str(), stdout);
  return 0;
}

int refuse(std::string const& word) {
  std::fprintf(stderr,
               "describe: takes googlenet, resnet20, resnet18, small_cnn, gpt2, gpt2_medium, "
               "gpt2_large or gpt2_xl, and then --top, --strategy single, data2 or model2, --batch "
               "and a number, or nothing, not '%s'\n",
               td::detail::printable(word).c_str());
  return 2;
}

int main(int argc, char** argv) try {
  Arguments arguments;
  arguments.net = argc > 1 ? argv[1] : "";
  for (int i = 2; i < argc; ++i) {
    std::string const word = argv[i];
    std::string const value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--top" && !arguments.options.top_only) {
      arguments.options.top_only = true;
    } else if (word == "--strategy" &&
               (value == "single" || value == "data2" || value == "model2")) {
      arguments.strategy = argv[++i];
      arguments.options.batch = arguments.options.batch > 0 ? arguments.options.batch : 128;
    } else if (word == "--batch" && i + 1 < argc) {
      arguments.options.batch = number_in<int>(argv[++i], 1, 1 << 20, "describe: --batch");
    } else {
      return refuse(word == "--strategy" ? value : word);
    }
  }
  std::string const& net = arguments.net;
  if (net == "googlenet")
    return print<td::models::GoogLeNet<10>>("GoogLeNet", arguments);
  if (net == "resnet20")
    return print<td::models::ResNet20<10>>("ResNet-20", arguments);
  if (net == "resnet18")
    return print<td::models::ResNet18<10>>("ResNet-18", arguments);
  if (net == "small_cnn")
    return print<td::models::SmallCnn<10>>("SmallCnn", arguments);
  if (net == "gpt2")
    return print<td::models::Gpt2<>>("GPT-2", arguments);
  if (net == "gpt2_medium")
    return print<td::models::Gpt2Medium<>>("GPT-2 medium", arguments);
  if (net == "gpt2_large")
    return print<td::models::Gpt2Large<>>("GPT-2 large", arguments);
  if (net == "gpt2_xl")
    return print<td::models::Gpt2Xl<>>("GPT-2 XL", arguments);
  return refuse(net);
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
