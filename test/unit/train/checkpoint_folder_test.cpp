// SPDX-License-Identifier: Apache-2.0
// A checkpoint's folder, without a trainer: its names, its files and who writes them, and what is
// found where a bit of one has changed.

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <tandem/train/checkpoint/folder/read.hpp>
#include <tandem/train/checkpoint/folder/write.hpp>

#include <support/temporary_folder.hpp>

namespace tandem {
namespace checkpoint_folder_test {

using detail::CheckpointContents;
using detail::CheckpointManifest;

/// What is said of a folder that cannot be read.
std::string refusal(std::string const& path) {
  return test::message<FileError>([&] { static_cast<void>(detail::read_tensors(path)); });
}

TEST_CASE("a checkpoint's name has its step, and nothing else is a checkpoint") {
  CHECK(detail::checkpoint_name(0) == "step-000000");
  CHECK(detail::checkpoint_name(420) == "step-000420");
  CHECK(detail::checkpoint_name(1'234'567) == "step-1234567");
  for (std::int64_t const step : {std::int64_t{0}, std::int64_t{420}, std::int64_t{1} << 53}) {
    CHECK(detail::step_of(detail::checkpoint_name(step)) == step);
  }
  for (char const* const other :
       {"", "step-", "step-420", "step-0000420", "step-000420.tmp", "step-00042x", "step-000420 ",
        "xstep-000420", "step--00420", "step-00000000000000420", "step-99999999999999999999"}) {
    CAPTURE(other);
    CHECK_FALSE(detail::step_of(other).has_value());
  }
}

TEST_CASE("a process whose report finds no room on the disk is not awaited until the time-out") {
  test::TemporaryFolder const folder;
  detail::CheckpointPeers peers{.process = 1, .processes = 2, .run = 5};
  std::filesystem::create_directory(folder.file("share-1.json.part"));  // cannot be written
  CHECK_THROWS_AS(detail::report_share(folder.name(), peers, {}), FileError);
  detail::report_share(folder.name(), peers, {.error = "the disk is full"});
  peers.process = 0;
  peers.timeout = std::chrono::hours{1};
  CHECK_THROWS_WITH_AS(detail::await_share(folder.name(), peers, 1),
                       doctest::Contains("process 1 could not write its share, nor say why"),
                       FileError);
  peers.run = 6;  // of an earlier run, that says nothing
  peers.timeout = std::chrono::milliseconds{1};
  CHECK_THROWS_WITH_AS(detail::await_share(folder.name(), peers, 1),
                       doctest::Contains("has not written its share"), FileError);
}

TEST_CASE("the newest complete checkpoint is found by looking") {
  test::TemporaryFolder const folder;
  CHECK(detail::complete_checkpoints(folder.file("missing")).empty());
  for (char const* const name :
       {"step-000007", "step-000100", "step-000050.tmp", "step-000200", "other"}) {
    std::filesystem::create_directory(folder.file(name));
    if (std::string_view{name} != "step-000200") {  // half of it has been removed
      test::put(folder.file(std::string{name} + "/tandem.json"), "{}");
    }
  }
  test::put(folder.file("step-000300"), "a file");
  CHECK(detail::complete_checkpoints(folder.name()) == std::vector<std::int64_t>{7, 100});
  CHECK(detail::complete_checkpoints(folder.name() + "/") == std::vector<std::int64_t>{7, 100});
}

TEST_CASE("of checkpoints the newest stay, and what was not finished goes") {
  test::TemporaryFolder const folder;
  for (int const step : {10, 20, 30, 40}) {
    std::string const path = folder.file(detail::checkpoint_name(step));
    std::filesystem::create_directory(path);
    test::put(path + "/tandem.json", "{}");
  }
  for (char const* const name : {"step-000005.tmp", "step-000005.tmp.tmp", "step-000045.tmp"}) {
    std::filesystem::create_directory(folder.file(name));
    test::put(folder.file(std::string{name} + "/model.safetensors"), "x");
  }
  std::filesystem::create_directory(folder.file("mine.tmp"));
  detail::remove_unfinished(folder.name(), 40);
  CHECK(detail::names_in(folder.name()) ==
        std::vector<std::string>{"mine.tmp", "step-000010", "step-000020", "step-000030",
                                 "step-000040", "step-000045.tmp"});
  detail::remove_oldest(folder.name(), 3, 40);
  CHECK(detail::complete_checkpoints(folder.name()) == std::vector<std::int64_t>{20, 30, 40});
  detail::remove_oldest(folder.name(), 2, 20);  // it was written last: a run that went back
  CHECK(detail::complete_checkpoints(folder.name()) == std::vector<std::int64_t>{20, 40});
  detail::remove_oldest(folder.name(), 9, 20);
  detail::remove_oldest(folder.name(), 1, 20);
  CHECK(detail::complete_checkpoints(folder.name()) == std::vector<std::int64_t>{20});
}

TEST_CASE("tensors are dealt whole, and none has more than the mean and the largest") {
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = 0; i < 41; ++i) {
    sizes.push_back(i * i % 97);
  }
  std::int64_t const all = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  std::int64_t const largest = *std::max_element(sizes.begin(), sizes.end());
  for (int const processes : {1, 2, 3, 7, 40, 100}) {
    std::vector<int> const owner = detail::deal(sizes, processes);
    REQUIRE(owner.size() == sizes.size());
    CHECK(owner == detail::deal(sizes, processes));
    std::vector<std::int64_t> load(static_cast<std::size_t>(processes));
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      REQUIRE(owner[i] >= 0);
      REQUIRE(owner[i] < processes);
      load[static_cast<std::size_t>(owner[i])] += sizes[i];
    }
    CHECK(std::accumulate(load.begin(), load.end(), std::int64_t{0}) == all);
    CHECK(*std::max_element(load.begin(), load.end()) <= all / processes + largest);
  }
  CHECK(detail::deal({}, 3).empty());
}

/// Tensors with memory of their own.
struct Tensors {
  std::vector<std::vector<float>> memory;
  std::int64_t step = 420;
  CheckpointContents contents{};

  explicit Tensors(float first = 1.0F) {
    for (char const* const name :
         {"0.weight", "0.bias", "optimizer.exp_avg.0.weight", "1.weight"}) {
      memory.emplace_back(memory.size() + 2, first + static_cast<float>(memory.size()));
      contents.tensors.push_back({name,
                                  Dtype::F32,
                                  {static_cast<std::int64_t>(memory.back().size())},
                                  std::as_bytes(std::span{memory.back()})});
    }
    contents.tensors.push_back(
        {"tandem.step", Dtype::I64, {1}, std::as_bytes(std::span{&step, 1})});
    contents.metadata = {{"format", "tandem"}, {"version", "1"}, {"optimizer", "Adam"}};
    contents.about = {
        .step = 420, .epoch = 3, .position = 17, .seed = ~std::uint64_t{0}, .optimizer = "Adam"};
  }
  Tensors(Tensors const&) = delete;
  Tensors& operator=(Tensors const&) = delete;
};

TEST_CASE("files are numbered over the processes that have one of their kind") {
  Tensors const some;
  detail::CheckpointShares const one{some.contents.tensors, 1};
  CHECK(one.file(0) == "model-00001-of-00001.safetensors");
  CHECK(one.file(2) == "optimizer-00001-of-00001.safetensors");
  CHECK(one.file(4) == "optimizer-00001-of-00001.safetensors");
  detail::CheckpointShares const nine{some.contents.tensors, 9};
  std::vector<std::string> files;
  for (std::size_t i = 0; i < 5; ++i) {
    files.push_back(nine.file(i));
    for (std::size_t j = 0; j < i; ++j) {
      CHECK(nine.owner(i) != nine.owner(j));
    }
  }
  std::sort(files.begin(), files.end());
  CHECK(files == std::vector<std::string>{
                     "model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                     "model-00003-of-00003.safetensors", "optimizer-00001-of-00002.safetensors",
                     "optimizer-00002-of-00002.safetensors"});
}

TEST_CASE("a folder has files for Python's tools, and is read back") {
  test::TemporaryFolder const folder;
  Tensors const some;
  std::string const path = write_checkpoint_folder(folder.file("a/run"), some.contents);
  CHECK(path == folder.file("a/run/step-000420"));
  CHECK(detail::names_in(folder.file("a/run")) == std::vector<std::string>{"step-000420"});
  CHECK(detail::names_in(path) ==
        std::vector<std::string>{"model-00001-of-00001.safetensors", "model.safetensors.index.json",
                                 "optimizer-00001-of-00001.safetensors", "tandem.json"});
  CHECK(test::content(path + "/model.safetensors.index.json") == R"({
  "metadata": {"total_size": 40},
  "weight_map": {
    "0.weight": "model-00001-of-00001.safetensors",
    "0.bias": "model-00001-of-00001.safetensors",
    "1.weight": "model-00001-of-00001.safetensors"
  }
}
)");
  CheckpointManifest const about =
      detail::read_manifest(test::content(path + "/tandem.json"), "tandem.json");
  CHECK(about.step == 420);
  CHECK(about.epoch == 3);
  CHECK(about.position == 17);
  CHECK(about.seed == ~std::uint64_t{0});
  CHECK(about.optimizer == "Adam");
  CHECK(about.processes == 1);
  CHECK(about.files.size() == 3);
  Safetensors const read = detail::read_tensors(path);
  CHECK(read.tensors().size() == 5);
  CHECK(*read.find_metadata("optimizer") == "Adam");
  for (TensorView const& tensor : some.contents.tensors) {
    TensorView const& own = read.at(tensor.name);
    CHECK(own.dtype == tensor.dtype);
    CHECK(own.shape == tensor.shape);
    CHECK(std::ranges::equal(own.data, tensor.data));
  }
}

TEST_CASE("one of the same step is replaced") {
  test::TemporaryFolder const folder;
  Tensors const first;
  Tensors const second{50.0F};
  write_checkpoint_folder(folder.name(), first.contents);
  std::string const path = write_checkpoint_folder(folder.name(), second.contents);
  CHECK(detail::names_in(folder.name()) == std::vector<std::string>{"step-000420"});
  CHECK(std::ranges::equal(detail::read_tensors(path).at("0.bias").data,
                           second.contents.tensors[1].data));
}

/// Process @p process writes its share of @p some.
std::string write_share_of(std::string const& folder, Tensors const& some, int process,
                           int processes, std::uint64_t run = 5) {
  detail::CheckpointPeers const peers{.process = process,
                                      .processes = processes,
                                      .run = run,
                                      .timeout = std::chrono::milliseconds{run == 5 ? 20'000 : 50}};
  CheckpointContents contents = some.contents;
  detail::take_share(contents, peers);
  return write_checkpoint_folder(folder, contents, NonFinite::refused, peers);
}

/// The error that process 0 has where it has @p first, and process 1 @p second.
std::string refused_pair(Tensors const& first, Tensors const& second) {
  test::TemporaryFolder const folder;
  std::thread other{[&] { write_share_of(folder.name(), second, 1, 2); }};
  std::string said = "nothing";
  try {
    write_share_of(folder.name(), first, 0, 2);
  } catch (FileError const& error) {
    said = error.what();
  }
  other.join();
  CHECK(detail::complete_checkpoints(folder.name()).empty());
  return said;
}

TEST_CASE("a folder of shares is complete only where it can be loaded") {
  Tensors const some;
  Tensors more;  // as of a process with other options, which deals its tensors otherwise
  std::vector<float> const average(64, 1.0F);
  more.contents.tensors.push_back({.name = "average.0.weight",
                                   .dtype = dtype_of<float>,
                                   .shape = {64},
                                   .data = std::as_bytes(std::span{average})});
  for (std::string const& said : {refused_pair(some, more), refused_pair(more, some)}) {
    CHECK(said.find("this checkpoint was not written") != said.npos);
    CHECK(said.find("there is no other in the folder") != said.npos);
  }
  CHECK(refused_pair(some, more).find("is in two files") != std::string::npos);
  CHECK(refused_pair(more, some).find("there is no tensor") != std::string::npos);
}

TEST_CASE("processes write a share each, and process 0 waits for all") {
  test::TemporaryFolder const folder;
  Tensors const some;
  for (int const processes : {2, 3, 9}) {
    std::vector<std::thread> others;
    for (int process = 1; process < processes; ++process) {
      others.emplace_back(
          [&, process] { write_share_of(folder.name(), some, process, processes); });
    }
    std::string const path = write_share_of(folder.name(), some, 0, processes);
    for (std::thread& other : others) {
      other.join();
    }
    CHECK(detail::names_in(folder.name()) == std::vector<std::string>{"step-000420"});
    std::vector<std::string> names{"model.safetensors.index.json", "tandem.json"};
    detail::CheckpointShares const shares{some.contents.tensors, processes};
    for (std::size_t i = 0; i < some.contents.tensors.size(); ++i) {
      names.push_back(shares.file(i));
    }
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    CHECK(detail::names_in(path) == names);
    CHECK(detail::read_manifest(test::content(path + "/tandem.json"), "").processes == processes);
    Safetensors const read = detail::read_tensors(path);
    CHECK(read.tensors().size() == some.contents.tensors.size());
    for (TensorView const& tensor : some.contents.tensors) {
      CHECK(std::ranges::equal(read.at(tensor.name).data, tensor.data));
    }
  }
}

TEST_CASE("a process that cannot write its share, or does not come, is named by process 0") {
  test::TemporaryFolder const folder;
  Tensors some;
  std::size_t of_second = 0;
  detail::CheckpointShares const shares{some.contents.tensors, 2};
  while (of_second == 4 || shares.owner(of_second) != 1) {
    ++of_second;
  }
  some.memory[of_second][0] = std::numeric_limits<float>::quiet_NaN();
  CHECK_THROWS_AS(write_share_of(folder.name(), some, 1, 2), FileError);
  std::string const text =
      test::message<FileError>([&] { write_share_of(folder.name(), some, 0, 2); });
  CHECK(test::contains(text, "process 1 could not write its share: '"));
  CHECK(test::contains(text, "is inf or nan at element 0"));
  CHECK(folder.entries() == 0);

  some.memory[of_second][0] = 1.0F;
  write_share_of(folder.name(), some, 1, 2, 4);  // of another run
  CHECK(test::contains(
      test::message<FileError>([&] { write_share_of(folder.name(), some, 0, 2, 6); }),
      "process 1 has not written its share by the time-out; it has failed, or the folder is not "
      "the same on all machines"));
  CHECK(folder.entries() == 0);
}

TEST_CASE("what a process says of its share is refused where it is anything else") {
  detail::ShareReport const some{.run = ~std::uint64_t{0},
                                 .error = "a \"word\"",
                                 .files = {{.name = "a.safetensors", .bytes = 3, .crc32c = 5}}};
  std::string const text = detail::write_report(some);
  detail::ShareReport const read = detail::read_report(text, "x");
  CHECK(read.run == some.run);
  CHECK(read.error == some.error);
  CHECK(read.files == some.files);
  for (std::size_t size = 0; size + 1 < text.size(); ++size) {
    CHECK_THROWS_AS(static_cast<void>(detail::read_report(text.substr(0, size), "x")), FileError);
  }
  CHECK_THROWS_AS(static_cast<void>(detail::read_report(R"({"other": "1"})", "x")), FileError);
  CHECK_THROWS_AS(static_cast<void>(detail::read_report(R"({"run": "x"})", "x")), FileError);
}

TEST_CASE("a flipped bit is found in every byte of every file, and the file named") {
  test::TemporaryFolder const folder;
  Tensors const some;
  std::string const path = write_checkpoint_folder(folder.name(), some.contents);
  for (std::string const& name : detail::names_in(path)) {
    std::string const file = path + "/" + name;
    std::string const good = test::content(file);
    for (std::size_t at = 0; at < good.size(); ++at) {
      CAPTURE(name);
      CAPTURE(at);
      int const bit = static_cast<int>(at % 8);
      test::flip(file, at, bit);
      CHECK(test::contains(refusal(path), file));
      test::flip(file, at, bit);
    }
    test::put(file, good.substr(0, good.size() - 1));
    CHECK_THROWS_AS(static_cast<void>(detail::read_tensors(path)), FileError);
    std::filesystem::remove(file);
    if (name == "tandem.json") {  // a model, but no checkpoint
      CHECK(detail::complete_checkpoints(folder.name()).empty());
      CHECK(detail::read_tensors(path).tensors().size() == 3);
    } else {
      CHECK_THROWS_AS(static_cast<void>(detail::read_tensors(path)), FileError);
    }
    test::put(file, good);
  }
  CHECK(detail::read_tensors(path).tensors().size() == 5);
  std::string const model = path + "/model-00001-of-00001.safetensors";
  test::flip(model, std::filesystem::file_size(model) - 1, 0);
  CHECK(test::contains(refusal(path), "tensor \"1.weight\" is damaged"));
}

TEST_CASE("tandem.json is refused for anything but what was written") {
  CheckpointManifest const some{
      .step = 1, .optimizer = "Sgd", .files = {{.name = "a.safetensors", .bytes = 3, .crc32c = 5}}};
  std::string const text = detail::write_manifest(some);
  CHECK(detail::read_manifest(text, "x").files == some.files);
  auto const edited = [&](std::string_view from, std::string_view to) {
    std::string body = text.substr(0, text.size() - detail::manifest_end("").size());
    std::size_t const at = body.find(from);
    REQUIRE(at != std::string::npos);
    body.replace(at, from.size(), to);
    return test::message<FileError>(
        [&] { static_cast<void>(detail::read_manifest(body + detail::manifest_end(body), "x")); });
  };
  CHECK(test::contains(
      test::message<FileError>([] { static_cast<void>(detail::read_manifest("{}", "x")); }),
      "it does not end with the checksum of what stands before"));
  CHECK(test::contains(edited("\"tandem\"", "\"other\""), "\"format\" must be"));
  CHECK(test::contains(edited("\"version\": 1", "\"version\": 2"), "a later tandem"));
  CHECK(test::contains(edited("\"step\": 1", "\"step\": 9007199254740993"), "beyond 2^53"));
  CHECK(test::contains(edited("\"seed\": \"0\"", "\"seed\": \"-1\""), "below 2^64"));
  CHECK(test::contains(edited("\"processes\": 1", "\"processes\": 0"), "from 1 to 2^20"));
  CHECK(test::contains(edited("\"epoch\": 0,", ""), "a key is missing"));
  CHECK(test::contains(edited("\"epoch\"", "\"step\""), "a key is missing, or there twice"));
  CHECK(test::contains(edited("\"epoch\"", "\"epochs\""), "the key \"epochs\" is unknown"));
  CHECK(test::contains(edited("\"bytes\"", "\"size\""), "\"size\" of a file is unknown"));
  CHECK(test::contains(edited("00000005", "0000005"), "eight hexadecimal digits"));
  for (char const* const name : {"../a.safetensors", "/a.safetensors", "tandem.json", ""}) {
    CHECK(test::contains(edited("a.safetensors", name), "is none of a checkpoint's file"));
  }
}

TEST_CASE("a model's folder as Hugging Face's tools write it is read by its index") {
  test::TemporaryFolder const folder;
  float const numbers[] = {1, 2, 3};
  auto const put = [&](char const* file, char const* name) {
    TensorView const tensor{name, Dtype::F32, {3}, std::as_bytes(std::span{numbers})};
    write_safetensors(folder.file(file), std::span{&tensor, 1}, {{"format", "pt"}});
  };
  put("model-00001-of-00002.safetensors", "a");
  put("model-00002-of-00002.safetensors", "b");
  std::string const index = folder.file("model.safetensors.index.json");
  CHECK(test::contains(refusal(folder.name()),
                       "without tandem.json, model.safetensors.index.json or model.safetensors"));
  auto const put_index = [&](std::string_view b) {
    test::put(index, R"({"metadata": {"total_size": 24.0, "by": ["x", null], "in": {"all": true}},
        "version": 1.5, "weight_map": {
        "a": "model-00001-of-00002.safetensors", "b": ")" +
                         std::string{b} + "\"}}");
  };
  put_index("model-00002-of-00002.safetensors");
  CHECK(detail::read_tensors(folder.name()).tensors().size() == 2);
  put_index("model-00001-of-00002.safetensors");
  CHECK(test::contains(refusal(folder.name()), "there is no tensor \"b\""));
  put_index("../model-00002-of-00002.safetensors");
  CHECK(test::contains(refusal(folder.name()), "is none of a file beside it"));
  put("model-00002-of-00002.safetensors", "a");
  put_index("model-00002-of-00002.safetensors");
  CHECK(test::contains(refusal(folder.name()), "the tensor \"a\" is in two files"));
}

TEST_CASE("a model's folder without an index is its model.safetensors") {
  test::TemporaryFolder const folder;
  float const numbers[] = {1, 2, 3};
  TensorView const tensor{"a", Dtype::F32, {3}, std::as_bytes(std::span{numbers})};
  write_safetensors(folder.file("model.safetensors"), std::span{&tensor, 1});
  test::put(folder.file("config.json"), "{}");
  CHECK(detail::read_tensors(folder.name()).at("a").data.size() == sizeof numbers);
  test::put(folder.file("model.safetensors.index.json"),
            R"({"weight_map": {"b": "b.safetensors"}})");
  CHECK(test::contains(refusal(folder.name()),
                       folder.file("b.safetensors")));  // an index decides
}

TEST_CASE("a folder of checkpoints is none, and the newest is named") {
  test::TemporaryFolder const folder;
  Tensors const some;
  write_checkpoint_folder(folder.name(), some.contents);
  CHECK(refusal(folder.name()) ==
        "'" + folder.name() +
            "': this is a folder of checkpoints; give one of them, of which the newest is '" +
            folder.file("step-000420") + "'");
}

TEST_CASE("numbers that are not finite are refused before anything is written") {
  test::TemporaryFolder const folder;
  Tensors some;
  some.memory[1][2] = std::numeric_limits<float>::infinity();
  CHECK(test::contains(
      test::message<FileError>([&] { write_checkpoint_folder(folder.name(), some.contents); }),
      "tensor '0.bias' is inf or nan at element 2"));
  CHECK(folder.entries() == 0);
  write_checkpoint_folder(folder.name(), some.contents, NonFinite::written);
  CHECK(folder.entries() == 1);
}

TEST_CASE("a folder that cannot be made is said") {
  test::TemporaryFolder const folder;
  test::put(folder.file("file"), "x");
  Tensors const some;
  CHECK(test::message<FileError>([&] {
          write_checkpoint_folder(folder.file("file/run"), some.contents);
        }) == "'" + folder.file("file/run/step-000420") + "': this checkpoint was not written: '" +
                  folder.file("file/run/step-000420.tmp") +
                  "': cannot make this folder: Not a directory; there is no other in the folder");
}

}  // namespace checkpoint_folder_test
}  // namespace tandem
