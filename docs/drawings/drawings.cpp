// Draws every strategy of the library: who holds what, and what it does when.
//   strategy_drawings DOCS           writes DOCS/drawings/<name>.svg and DOCS/what_goes_together.md
//   strategy_drawings --check DOCS   says which of them are not what would be written

#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "pictures.hpp"

using tandem::drawings::Picture;

struct File {
  std::string path;
  std::string text;
};

std::string read(std::string const& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

int check(std::vector<File> const& files) {
  int stale = 0;
  for (File const& file : files) {
    if (read(file.path) != file.text) {
      std::printf("%s is not what the library says; build the target draw_strategies\n",
                  file.path.c_str());
      ++stale;
    }
  }
  return stale > 0 ? 1 : 0;
}

void write(std::vector<File> const& files) {
  for (File const& file : files) {
    std::ofstream stream{file.path, std::ios::binary};
    if (!(stream << file.text << std::flush)) {
      throw std::runtime_error{"cannot write '" + file.path + "'; give the folder of the docs"};
    }
  }
}

int main(int argc, char** argv) try {
  std::vector<std::string> const words(argv + 1, argv + argc);
  bool const checks = words.size() == 2 && words[0] == "--check";
  if (words.size() != 1 && !checks) {
    throw std::runtime_error{"give the folder of the docs, or --check and that folder"};
  }
  std::string const& docs = words.back();
  std::vector<File> files{
      {docs + "/what_goes_together.md", tandem::drawings::goes_together_page()}};
  for (auto const& some :
       {tandem::drawings::synchronous_pictures(), tandem::drawings::cross_model_pictures(),
        tandem::drawings::asynchronous_pictures()}) {
    for (Picture const& picture : some) {
      files.push_back({docs + "/drawings/" + picture.name + ".svg", picture.svg});
    }
  }
  if (checks) {
    return check(files);
  }
  write(files);
} catch (std::exception const& error) {
  std::fprintf(stderr, "strategy_drawings: %s\n", error.what());
  return 1;
}
