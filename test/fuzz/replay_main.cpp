// SPDX-License-Identifier: Apache-2.0
// A main for a fuzz target where there is no fuzzer: runs it on every file of a folder, and on each
// of them cut short, which is the commonest damage of a file.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size);

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s corpus_folder\n", argv[0]);
    return 2;
  }
  std::vector<std::filesystem::path> files;
  for (auto const& entry : std::filesystem::directory_iterator{argv[1]}) {
    files.push_back(entry.path());
  }
  std::ranges::sort(files);
  for (auto const& path : files) {
    std::ifstream file{path, std::ios::binary};
    std::vector<char> const text{std::istreambuf_iterator<char>{file}, {}};
    std::vector<std::uint8_t> const bytes(text.begin(), text.end());
    std::size_t const step = std::max<std::size_t>(1, bytes.size() / 64);
    for (std::size_t size = 0; size < bytes.size(); size += step) {
      std::vector<std::uint8_t> const cut(bytes.begin(),
                                          bytes.begin() + static_cast<std::ptrdiff_t>(size));
      LLVMFuzzerTestOneInput(cut.data(), cut.size());  // exact size: ASan sees a read beyond it
    }
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::printf("%zu inputs\n", files.size());
  return files.empty() ? 1 : 0;  // an empty corpus tests nothing
}
