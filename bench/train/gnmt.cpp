// SPDX-License-Identifier: Apache-2.0

/// @file
/// Training steps of GNMT on Host, on sentences and their translations in length buckets, a round
/// at a time, for run.py to compare.
///
///   bench_gnmt --write FILE --source bible.en --target bible.es [--batch 32] [--batches 6]
///              [--first 0]
///   bench_gnmt --data FILE [--kernels onednn|portable] [--precision fp32|bf16] [--threads 1]
///              [--profile STEPS]
///
/// The first writes batches of an epoch, from number --first on, for this program and for
/// PyTorch's: of the pairs with at most 50 tokens, words between blanks, the 8,000 most frequent
/// (Debian's verses of examples/translation.sh). The second has 4 layers of 512 numbers on either
/// side, dropout of 0.2, Adam, the gradient's norm clipped; a step of its rounds is a pass over all
/// batches of the file. Prints a line of JSON about itself; then, for each line "round N" that it
/// reads, trains N such steps and prints {"step_s": ..., "cpu_s": ...}. With --profile it prints
/// instead where STEPS of them spend their time: CPU time with one thread, else wall time.

#include <cstdio>
#include <exception>
#include <string>

#include <tandem/core/contract.hpp>
#include <tandem/runtime/host/host.hpp>

#include "flags.hpp"
#include "gnmt/settings.hpp"

namespace td = tandem;

int main(int argc, char** argv) {
  try {
    namespace gnmt = td::bench::gnmt;
    td::bench::Flags const flags{argc,
                                 argv,
                                 {"write", "source", "target", "batch", "batches", "first", "data",
                                  "kernels", "precision", "threads", "profile"}};
    std::string const written = flags.text("write", "");
    if (!written.empty()) {
      gnmt::write_batches(written, flags.text("source", "bible.en"),
                          flags.text("target", "bible.es"), flags.number("batch", 32),
                          flags.number("batches", 6), flags.number("first", 0));
      return 0;
    }
    gnmt::Settings const settings{.data = flags.text("data", ""),
                                  .kernels = flags.text("kernels", td::DefaultHostKernels::name),
                                  .precision = flags.text("precision", "fp32"),
                                  .threads = flags.number("threads", 1),
                                  .profile = flags.number("profile", 0)};
    td::expects(settings.precision == "fp32" || settings.precision == "bf16",
                "--precision is fp32 or bf16");
    settings.precision == "bf16" ? gnmt::run_bf16(settings) : gnmt::run_fp32(settings);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "bench_gnmt: %s\n", error.what());
    return 1;
  }
  return 0;
}
