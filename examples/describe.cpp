// Prints a table of a network: layer, output shape, parameters, multiply-accumulates, memory.
//   describe googlenet|resnet20|resnet18|small_cnn|gpt2|gpt2_medium|gpt2_large|gpt2_xl [--top]
//            [--strategy single|data2|model2|tensor|channels|spatial] [--batch N]
//            [--backend cuda] [--precision tf32|bf16|fp32] [--machine dgx-h100]
// --top: a row a top-level part. --strategy, --batch: each device's memory for steps of N samples,
// 128 if it is not said; of two devices that share layers how each is dealt out, too, and the bytes
// of each collective: tensor, of gpt2 and images; channels, the same, and spatial, of images.
// --backend cuda: the kernels of a step instead, with their bytes and the machine's roofline, of
// one GPU or of one of gpt2's tensor. Needs no device: everything comes from the constexpr graph.
// For networks of your own: td::describe<Net, Strategy>() and td::describe_cuda<Net, Strategy>() of
// <tandem/describe.hpp>, which are all of this but the arguments.

#include <tandem/describe.hpp>
#include <tandem/plan.hpp>
#include <tandem/tandem.hpp>

#include <cstdio>
#include <string>
#include <type_traits>

#include "number.hpp"

namespace td = tandem;

struct Arguments {
  std::string net;
  std::string strategy;
  std::string backend;
  std::string precision = "tf32";
  std::string machine = "dgx-h100";
  td::DescribeOptions options{};
};

template <class Net, class S>
std::string kernels(char const* title, Arguments const& arguments) {
  td::Machine const& machine = *td::find_machine(arguments.machine);
  td::AccountOptions const options{.batch =
                                       arguments.options.batch > 0 ? arguments.options.batch : 128};
  return arguments.precision == "bf16"
             ? td::describe_cuda<Net, S, td::Bf16>(options, machine, title)
         : arguments.precision == "fp32"
             ? td::describe_cuda<Net, S, td::Fp32>(options, machine, title)
             : td::describe_cuda<Net, S>(options, machine, title);
}

template <class Net>
std::string table(Arguments const& arguments) {
  td::DescribeOptions const& options = arguments.options;
  return arguments.strategy == "data2" ? td::describe<Net, td::DataParallel<2>>(options)
         : arguments.strategy == "model2"
             ? td::describe<Net, td::ModelParallel<td::Auto<2>>>(options)
             : td::describe<Net>(options);
}

bool shares_layers(std::string const& strategy) {
  return strategy == "tensor" || strategy == "channels" || strategy == "spatial";
}

/// Of two devices that share layers; "" where the network takes no such strategy.
template <class Net>
std::string shared(char const* title, Arguments const& arguments) {
  bool const cuda = arguments.backend == "cuda";
  if constexpr (std::is_same_v<Net, td::models::Gpt2<>>) {
    using Two = td::TensorParallel<2>;
    if (arguments.strategy == "tensor") {
      return cuda ? kernels<Net, Two>(title, arguments) : td::describe<Net, Two>(arguments.options);
    }
  } else if constexpr (Net::input::shape.rank == 3) {
    if (!cuda) {
      return arguments.strategy == "spatial"
                 ? td::describe<Net, td::SpatialParallel<2, 1>>(arguments.options)
                 : td::describe<Net, td::ChannelParallel<2>>(arguments.options);
    }
  }
  return "";
}

int refuse(std::string const& word);

template <class Net>
int print(char const* title, Arguments arguments) {
  arguments.options.title = title;
  std::string text;
  if (shares_layers(arguments.strategy)) {
    text = shared<Net>(title, arguments);
    if (text.empty()) {
      return refuse(arguments.strategy);
    }
  } else {
    text = arguments.backend == "cuda" ? kernels<Net, td::SingleDevice<>>(title, arguments)
                                       : table<Net>(arguments);
  }
  std::fputs(text.c_str(), stdout);
  return 0;
}

int refuse(std::string const& word) {
  std::fprintf(
      stderr,
      "describe: takes googlenet, resnet20, resnet18, small_cnn, gpt2, gpt2_medium, "
      "gpt2_large or gpt2_xl, and then --top, --strategy single, data2, model2, of gpt2 and of "
      "images tensor, of these channels and spatial, --batch and a number, --backend cuda with "
      "--precision tf32, bf16 or fp32 and --machine and a name but no other --strategy than "
      "gpt2's tensor, or nothing, not '%s'\n",
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
    } else if (word == "--strategy" && (value == "single" || value == "data2" ||
                                        value == "model2" || shares_layers(value))) {
      arguments.strategy = argv[++i];
      arguments.options.batch = arguments.options.batch > 0 ? arguments.options.batch : 128;
    } else if (word == "--batch" && i + 1 < argc) {
      arguments.options.batch = number_in<int>(argv[++i], 1, 1 << 20, "describe: --batch");
    } else if (word == "--backend" && value == "cuda") {
      arguments.backend = argv[++i];
    } else if (word == "--precision" && (value == "tf32" || value == "bf16" || value == "fp32")) {
      arguments.precision = argv[++i];
    } else if (word == "--machine" && td::find_machine(value) != nullptr) {
      arguments.machine = argv[++i];
    } else {
      return refuse(word == "--strategy" || word == "--precision" || word == "--machine" ? value
                                                                                         : word);
    }
  }
  bool const of_one = arguments.strategy.empty() || arguments.strategy == "tensor";
  if (arguments.backend == "cuda" && !of_one) {
    return refuse("--strategy");
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
