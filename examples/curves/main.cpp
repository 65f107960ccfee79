// SPDX-License-Identifier: Apache-2.0
// A page to look at in a browser, of runs that a td::StepLog has written: loss, metric, learning
// rate, norm of the gradient and samples a second, by step or by second, several runs over each
// other.
//   curves run.jsonl other.jsonl > runs.html
//   curves --watch 5 runs.html run.jsonl    writes it every 5 seconds, and the page reloads itself

#include <chrono>
#include <cstdio>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include <tandem/io/atomic/file.hpp>

#include "../number.hpp"
#include "page.hpp"

int main(int argc, char** argv) try {
  std::span<char* const> const words{argv + 1, argv + argc};
  bool const watches = words.size() > 3 && std::string_view{words[0]} == "--watch";
  if (words.empty() || (!watches && words[0][0] == '-')) {
    throw std::runtime_error{
        "usage: curves LOG.jsonl ... > PAGE.html, or "
        "curves --watch SECONDS PAGE.html LOG.jsonl ..."};
  }
  if (!watches) {
    return std::fputs(page_of(words, 0).c_str(), stdout) < 0 ? 1 : 0;
  }
  for (int const seconds = number_in(words[1], 1, 86400, "curves --watch");;) {
    std::string const page = page_of(words.subspan(3), seconds);
    tandem::AtomicFile file{words[2]};
    file.write(std::as_bytes(std::span{page.data(), page.size()}));
    file.commit();
    std::this_thread::sleep_for(std::chrono::seconds{seconds});
  }
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
