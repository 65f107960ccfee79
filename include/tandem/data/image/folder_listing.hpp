// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// list_folder() and list_images(): the folders of a folder, and the image files in each, sorted.

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>

namespace tandem::detail {

struct Listing {
  std::vector<std::string> folders;  // names, sorted by their bytes
  std::vector<std::string> files;
};

/// The entries of @p path, links followed; an entry that is neither file nor folder is left out.
/// @throws FileError  the folder cannot be read, or a link in it leads nowhere
TANDEM_ONCE Listing list_folder(std::string const& path);

/// Adds the .jpg, .jpeg and .png files of each folder of the tree @p path to @p images, by the
/// folder's path: the order of both is torchvision's, which has "a-b" before "a/b".
/// @throws FileError  a file is an image of another kind, folders are nested without an end, or as
///                    list_folder()
TANDEM_ONCE void list_images(std::string const& path,
                             std::map<std::string, std::vector<std::string>>& images,
                             int depth = 0);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE Listing list_folder(std::string const& path) {
  struct Open {
    explicit Open(std::string const& name) : folder{::opendir(name.c_str())} {}
    Open(Open const&) = delete;
    Open& operator=(Open const&) = delete;
    ~Open() {
      if (folder != nullptr) {
        static_cast<void>(::closedir(folder));
      }
    }
    ::DIR* folder;
  };
  Open const open{path};
  if (open.folder == nullptr) {
    throw FileError{path, errno == ENOENT ? std::string{"there is no such folder"}
                                          : std::string{"the folder cannot be opened: "} +
                                                std::strerror(errno)};
  }
  Listing listing;
  errno = 0;
  while (::dirent const* const entry = ::readdir(open.folder)) {
    std::string name = entry->d_name;
    struct ::stat status {};
    if (name != "." && name != "..") {
      if (::stat((path + "/" + name).c_str(), &status) != 0) {
        throw FileError{
            path + "/" + name,
            (errno == ENOENT ? std::string{"this link leads nowhere"}
                             : std::string{"this entry cannot be read: "} + std::strerror(errno)) +
                "; mend it, or take it out of the folder"};
      }
      if (S_ISDIR(status.st_mode)) {
        listing.folders.push_back(std::move(name));
      } else if (S_ISREG(status.st_mode)) {
        listing.files.push_back(std::move(name));
      }
    }
    errno = 0;
  }
  if (errno != 0) {
    throw FileError{path, std::string{"the folder cannot be read: "} + std::strerror(errno)};
  }
  std::sort(listing.folders.begin(), listing.folders.end());
  std::sort(listing.files.begin(), listing.files.end());
  return listing;
}

/// Whether @p name ends in a dot and one of @p endings, "jpg png", in letters of either size.
TANDEM_ONCE bool ends_in(std::string_view name, std::string_view endings) {
  std::size_t const dot = name.rfind('.');
  std::string ending;
  for (char const c : dot == name.npos ? std::string_view{} : name.substr(dot + 1)) {
    ending += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return !ending.empty() && ending.find(' ') == ending.npos &&
         (' ' + std::string{endings} + ' ').find(' ' + ending + ' ') != std::string::npos;
}

TANDEM_ONCE void list_images(std::string const& path,
                             std::map<std::string, std::vector<std::string>>& images, int depth) {
  if (depth > 32) {
    throw FileError{path, "folders are nested more than 32 deep; does a link lead back?"};
  }
  Listing const listing = list_folder(path);
  for (std::string const& name : listing.files) {
    if (ends_in(name, "jpg jpeg png")) {
      images[path].push_back(name);
    } else if (ends_in(name, "ppm bmp pgm tif tiff webp")) {
      throw FileError{path + "/" + name,
                      "of images .jpg, .jpeg and .png are read; convert it, or "
                      "take it out of the folder"};
    }
  }
  for (std::string const& name : listing.folders) {
    list_images(path + "/" + name, images, depth + 1);
  }
}

}  // namespace tandem::detail

#endif
