// SPDX-License-Identifier: Apache-2.0

/// @file
/// Test accuracy per epoch and per second of model parallel methods on two devices: Fashion-MNIST,
/// one thread a device, the same global batch.
///
///   bench_convergence [--folder FOLDER] [--epochs 8] [--seeds 3] [--samples 20000]
///                     [--test-samples 10000] [--batch 128] [--learning-rate 0.02]
///                     [--networks quickstart,residual] [--methods all] [--json FILE]
///
/// The learning rate falls as a cosine. Seeds take turns: each trains all
/// methods before the next begins. Prints accuracies and how far each method is from ModelParallel
/// in standard errors of the difference; convergence_plot.py draws the JSON. Exits with 1 if
/// CrossModelParallel, averaging in every step, is more than 3 below ModelParallel.

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <tandem/core/contract.hpp>

#include "convergence/method.hpp"
#include "convergence/networks.hpp"
#include "convergence/report.hpp"
#include "flags.hpp"

namespace {

namespace td = tandem;
using namespace td::bench;

/// Whether @p key is one of the words of @p list, which commas separate.
bool listed(std::string const& list, std::string const& key) {
  return list == "all" || ("," + list + ",").find("," + key + ",") != std::string::npos;
}

template <class Net>
std::vector<Method> methods_of() {
  std::vector<Method> methods = synchronous_methods<Net>();
  for (Method const& method : asynchronous_methods<Net>()) {
    methods.push_back(method);
  }
  return methods;
}

/// The methods that the flags name, on the networks that they name; nothing trained yet.
std::vector<Result> chosen(Flags const& flags) {
  std::string const methods = flags.text("methods", "all");
  std::vector<Result> results;
  auto const add = [&](char const* network, std::vector<Method> const& all) {
    for (Method const& method : all) {
      if (listed(flags.text("networks", "quickstart,residual"), network) &&
          listed(methods, method.key)) {
        results.push_back({network, method, {}});
      }
    }
  };
  add("quickstart", methods_of<Quickstart>());
  add("residual", methods_of<SmallResidual>());
  std::string keys = "--networks takes quickstart, residual; --methods all, or of";
  for (Method const& method : methods_of<Quickstart>()) {
    keys.append(" ").append(method.key);
  }
  td::expects(!results.empty(), keys.c_str());
  return results;
}

}  // namespace

int main(int argc, char** argv) try {
  Flags const flags{argc,
                    argv,
                    {"folder", "epochs", "seeds", "samples", "test-samples", "batch",
                     "learning-rate", "networks", "methods", "json"}};
  ConvergenceSettings const settings{
      .epochs = flags.number("epochs", 8),
      .batch = flags.number("batch", 128),
      .learning_rate = std::stof(flags.text("learning-rate", "0.02")),
      .samples = flags.number("samples", 20000),
      .test_samples = flags.number("test-samples", 10000)};
  int const seeds = flags.number("seeds", 3);
  td::expects(seeds >= 1 && settings.epochs >= 1 && settings.samples >= settings.batch &&
                  settings.batch >= 2 && settings.test_samples >= 1,
              "--seeds, --epochs and --test-samples must be 1 or more, --batch 2 or more, and "
              "--samples at least a batch");
  std::vector<Result> results = chosen(flags);
  td::FashionMnist const data{flags.text("folder", "/usr/share/datasets/fashion-mnist")};
  for (int seed = 1; seed <= seeds; ++seed) {
    for (Result& result : results) {
      result.curves.push_back(result.method.train(settings, data, seed));
      Curve const& curve = result.curves.back();
      std::fprintf(stderr, "seed %d, %s, %s: %s\n", seed, result.network.c_str(),
                   result.method.name,
                   curve.fault.empty() ? four_digits(curve.epochs.back().accuracy).c_str()
                                       : curve.fault.c_str());
    }
  }
  bool const reached = print_table(results, settings);
  if (std::string const path = flags.text("json", ""); !path.empty()) {
    write_json(path, results, settings);
  }
  return reached ? 0 : 1;
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_convergence: %s\n", error.what());
  return 2;
}
