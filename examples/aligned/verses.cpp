// SPDX-License-Identifier: Apache-2.0
// Writes the verses that two Bibles both have, folders of SWORD modules, to two files, a verse a
// line and its translation on the line of the same number:
//   verses FIRST SECOND TO_FIRST TO_SECOND
// It is a part of examples/translation.sh, which says where such modules are.

#include <tandem/io/atomic/file.hpp>
#include <tandem/text.hpp>

#include <cstdio>
#include <exception>

namespace td = tandem;

void write(std::vector<std::string> const& lines, char const* path) {
  std::string text;
  for (std::string const& line : lines) {
    text += line + '\n';
  }
  td::AtomicFile file{path};
  file.write(std::as_bytes(std::span{text}));
  file.commit();
}

int main(int argc, char** argv) try {
  if (argc != 5) {
    std::fprintf(stderr, "usage: verses FIRST SECOND TO_FIRST TO_SECOND\n");
    return 2;
  }
  auto const [first, second] = td::read_sword_pairs(argv[1], argv[2]);
  write(first, argv[3]);
  write(second, argv[4]);
  std::printf("%zu pairs in %s and %s\n", first.size(), argv[3], argv[4]);
} catch (std::exception const& error) {
  std::fprintf(stderr, "verses: %s\n", error.what());
  return 1;
}
