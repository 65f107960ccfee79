// SPDX-License-Identifier: Apache-2.0
// A checkpoint of any bytes: a trainer loads what the file says and goes on, or throws an Error
// with a sentence and is, on all devices, bit for bit as it was. The first byte chooses the
// trainer, load() or load_weights(), and whether the rest is a file or edits of one that was saved;
// or that it is one of the texts in a checkpoint's folder.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/tandem.hpp>

#include <fuzz/checkpoint_edits.hpp>
#include <fuzz/require.hpp>
#include <support/sanitizers.hpp>

#if TANDEM_TEST_SANITIZED && __has_include(<sanitizer/allocator_interface.h>)
#include <sanitizer/allocator_interface.h>
#define TANDEM_TEST_SEES_ALLOCATIONS 1
#else
#define TANDEM_TEST_SEES_ALLOCATIONS 0
#endif

namespace {

using namespace tandem;
using fuzz::require;

/// Memory that is asked for while a file is loaded; seen by clang's sanitizers.
std::atomic<std::size_t> largest_allocation{0};
[[maybe_unused]] void note_allocation(void const volatile*, std::size_t size) {
  std::size_t seen = largest_allocation.load(std::memory_order_relaxed);
  while (size > seen && !largest_allocation.compare_exchange_weak(seen, size)) {
  }
}

/// A file without a folder, read by its name.
class FileInMemory {
 public:
  FileInMemory() : file_{::memfd_create("checkpoint", 0)} { require(file_ >= 0); }
  FileInMemory(FileInMemory const&) = delete;
  FileInMemory& operator=(FileInMemory const&) = delete;
  ~FileInMemory() { ::close(file_); }

  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }
  void put(std::string_view bytes) const {
    require(::ftruncate(file_, 0) == 0);
    require(::pwrite(file_, bytes.data(), bytes.size(), 0) == static_cast<::ssize_t>(bytes.size()));
  }

 private:
  int file_;
};

struct Net
    : Network<Image<1, 3, 3>,
              Sequential<Conv2d<2, Kernel<2>, NoBias>, BatchNorm2d<>, ReLU, Flatten, Linear<2>>> {};

/// A trainer and all that it goes on from, of every replica and model.
template <class S, int Replicas, int Copies>
class Subject {
 public:
  explicit Subject(Optimizer const& optimizer)
      : trainer_{{.batch = 4, .optimizer = optimizer, .seed = 5, .threads_per_device = 1}} {
    for (int replica = 0; replica < Replicas; ++replica) {
      for (int copy = 0; copy < Copies; ++copy) {
        models_.push_back(trainer_.parameters(replica, copy));  // on Host these are its memory
      }
    }
    step();
    save();
  }

  /// The bytes of the file that it saved first.
  [[nodiscard]] std::string const& file() const { return saved_; }

  void try_to_load(std::string_view bytes, bool weights_only) {
    file_.put(bytes);
    std::vector<std::byte> const before = state();
    largest_allocation = 0;
    bool loaded = false;
    try {
      if (weights_only) {
        trainer_.load_weights(file_.path());
      } else {
        trainer_.load(file_.path());
      }
      loaded = true;
    } catch (Error const& error) {  // any other exception is a finding
      fuzz::require_sentence(error.what());
      require(std::string_view{error.what()}.starts_with("'" + file_.path() + "': "));
      require(state() == before);
    }
    require(largest_allocation <= 64 * bytes.size() + 65'536);
    if (loaded) {
      check_values(bytes, weights_only);
      go_on();
    }
  }

 private:
  using TrainerType = Trainer<Net, S, BasicHost<Portable>>;

  /// Parameters have the file's values, and those of all replicas are equal.
  void check_values(std::string_view bytes, bool weights_only) const {
    auto const file = Safetensors::parse(std::as_bytes(std::span{bytes}), "loaded");
    bool const mean = Copies == 1 && !weights_only && file.find("second.0.weight") != nullptr;
    for (std::size_t m = 0; m < models_.size(); ++m) {
      for (std::size_t p = 0; p < models_[m].size(); ++p) {
        NamedParameter<float> const& own = models_[m][p];
        require(equal(own.value, models_[m % Copies][p].value));
        if (!mean && m % Copies == 0) {
          TensorView const* const tensor = file.find(own.name);
          require(tensor != nullptr);
          require(weights_only || tensor->dtype == Dtype::F32);
          auto const count = static_cast<std::int64_t>(own.value.size());
          require(std::ssize(tensor->data) == count * dtype_bytes(tensor->dtype));
          std::vector<float> numbers(own.value.size());  // load_weights() takes any floats
          copy_numbers(tensor->dtype, tensor->data.data(), numbers.data(), 1, count, false);
          require(std::memcmp(numbers.data(), own.value.data(), own.value.size_bytes()) == 0);
        }
      }
    }
  }

  /// With numbers of whatever size a step is a step, or refused; then the trainer is as at first.
  void go_on() {
    try {
      step();
    } catch (Error const& error) {
      fuzz::require_sentence(error.what());
    }
    file_.put(saved_);
    trainer_.load(file_.path());
    require(state() == good_);
  }

  void step() {
    std::vector<float> const x{1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 0, 1, 0, 1, 0, 1, 0, 1,
                               9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0};
    std::vector<std::int32_t> const y{0, 1, 1, 0};
    static_cast<void>(trainer_.step(x, y));
  }

  void save() {
    std::string folder = (std::filesystem::temp_directory_path() / "tandem-fuzz-XXXXXX").string();
    require(::mkdtemp(folder.data()) != nullptr);
    std::string const path = folder + "/saved";
    trainer_.save(path);
    auto const file = detail::read_whole_file(path);
    saved_.assign(reinterpret_cast<char const*>(file.bytes.get()), file.size);
    good_ = state();
    require(::unlink(path.c_str()) == 0 && ::rmdir(folder.c_str()) == 0);
  }

  [[nodiscard]] std::vector<std::byte> state() const {
    std::vector<std::byte> bytes;
    auto const add = [&](auto const& values) {
      auto const own = std::as_bytes(std::span{values});
      bytes.insert(bytes.end(), own.begin(), own.end());
    };
    for (auto const& model : models_) {
      for (NamedParameter<float> const& p : model) {
        add(p.value);
        for (auto const& optimizer_state : p.states) {
          add(optimizer_state);
        }
      }
    }
    // Number by number: between them there may be bytes that are nobody's.
    TrainingPosition const& at = trainer_.position();
    add(std::array{at.step, at.epoch, at.position, at.seed, at.scaling.good, at.scaling.skipped});
    add(std::array{at.learning_rate, double{at.scaling.scale}});
    return bytes;
  }

  static bool equal(std::span<float const> a, std::span<float const> b) {
    return std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
  }

  FileInMemory file_;
  TrainerType trainer_;
  std::vector<std::vector<NamedParameter<float>>> models_;
  std::string saved_;
  std::vector<std::byte> good_;
};

using One = Subject<SingleDevice<>, 1, 1>;
using Replicated = Subject<DataParallel<2>, 2, 1>;
using TwoModels = Subject<CrossModelParallel<AverageWeights<2>, Split<2>, Split<3>>, 1, 2>;

struct Subjects {
  Subjects() {
#if TANDEM_TEST_SEES_ALLOCATIONS
    require(__sanitizer_install_malloc_and_free_hooks(note_allocation, [](auto) {}) != 0);
#endif
  }
  One one{Adam{}};
  Replicated replicated{Sgd{.momentum = 0.9F}};
  TwoModels two_models{Sgd{.momentum = 0.9F}};
};

/// A saved file, of that trainer or of one with other models, and four bytes an edit.
std::string edited(std::string const& base, std::span<std::uint8_t const> edits) {
  fuzz::EditedFile file{base};
  for (; edits.size() >= 4; edits = edits.subspan(4)) {
    file.edit(edits[0], edits[1], edits[2], edits[3]);
  }
  return file.bytes();
}

/// What is read is written to what reads the same. @p choice: tandem.json, as it stands or with the
/// sum that it should have; an index; what a process says of its share.
void check_folder_text(unsigned choice, std::string text) {
  try {
    if (choice < 2) {
      if (choice == 1) {
        text += detail::manifest_end(text);
      }
      auto const manifest = detail::read_manifest(text, "input");
      std::string const again = detail::write_manifest(manifest);
      require(detail::write_manifest(detail::read_manifest(again, "again")) == again);
      for (detail::FileSum const& file : manifest.files) {
        require(file.name.find('/') == file.name.npos);
      }
    } else if (choice == 2) {
      auto const index = detail::read_index(text, "input");
      require(detail::read_index(detail::write_index(index, 0), "again") == index);
    } else {
      detail::ShareReport const report = detail::read_report(text, "input");
      std::string const again = detail::write_report(report);
      require(detail::read_report(again, "again").files == report.files);
    }
  } catch (FileError const& error) {  // any other exception is a finding
    require(error.path() == "input");
    fuzz::require_sentence(error.what());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  static Subjects subjects;
  if (size == 0) {
    return 0;
  }
  unsigned const choice = data[0];
  std::span const rest{data + 1, size - 1};
  if (choice % 4 == 3) {
    check_folder_text(choice / 4 % 4, std::string{fuzz::text_of(rest.data(), rest.size())});
    return 0;
  }
  bool const weights_only = (choice & 4U) != 0;
  bool const as_it_is = (choice & 8U) != 0;
  bool const of_two = (choice & 16U) != 0;
  std::string file;
  if (as_it_is) {
    file = fuzz::text_of(rest.data(), rest.size());
  } else {
    try {
      file = edited(of_two            ? subjects.two_models.file()
                    : choice % 4 == 0 ? subjects.one.file()
                                      : subjects.replicated.file(),
                    rest);
    } catch (ContractError const&) {
      return 0;  // edits that no writer of ours puts into a file
    }
  }
  switch (choice % 4) {
    case 0:
      subjects.one.try_to_load(file, weights_only);
      break;
    case 1:
      subjects.replicated.try_to_load(file, weights_only);
      break;
    case 2:
      subjects.two_models.try_to_load(file, weights_only);
      break;
    default:
      break;
  }
  return 0;
}
