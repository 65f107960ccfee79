// Draws every strategy of the library: who holds what, and what it does when.
//   strategy_drawings FOLDER           writes FOLDER/<name>.svg
//   strategy_drawings --check FOLDER   says which of them are not what would be written
// It makes the pictures of the strategies' pages.

#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "pictures.hpp"

using tandem::drawings::Picture;

std::string read(std::string const& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

int check(std::vector<Picture> const& pictures, std::string const& folder) {
  int stale = 0;
  for (Picture const& picture : pictures) {
    std::string const path = folder + "/" + picture.name + ".svg";
    if (read(path) != picture.svg) {
      std::printf("%s is not what the library draws; build the target draw_strategies\n",
                  path.c_str());
      ++stale;
    }
  }
  return stale > 0 ? 1 : 0;
}

void write(std::vector<Picture> const& pictures, std::string const& folder) {
  for (Picture const& picture : pictures) {
    std::string const path = folder + "/" + picture.name + ".svg";
    std::ofstream file{path, std::ios::binary};
    if (!(file << picture.svg << std::flush)) {
      throw std::runtime_error{"cannot write '" + path + "'; give a folder that may be written to"};
    }
  }
}

int main(int argc, char** argv) try {
  std::vector<std::string> const words(argv + 1, argv + argc);
  bool const checks = words.size() == 2 && words[0] == "--check";
  if (words.size() != 1 && !checks) {
    throw std::runtime_error{"give a folder, or --check and a folder"};
  }
  std::vector<Picture> pictures;
  for (auto const& some :
       {tandem::drawings::synchronous_pictures(), tandem::drawings::cross_model_pictures(),
        tandem::drawings::asynchronous_pictures()}) {
    pictures.insert(pictures.end(), some.begin(), some.end());
  }
  if (checks) {
    return check(pictures, words[1]);
  }
  write(pictures, words[0]);
} catch (std::exception const& error) {
  std::fprintf(stderr, "strategy_drawings: %s\n", error.what());
  return 1;
}
