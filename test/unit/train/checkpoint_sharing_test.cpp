// SPDX-License-Identifier: Apache-2.0
// Who reads which tensor of a checkpoint, the trees on which they go on to the others, and how one
// process reads its share.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <tandem/comm/world.hpp>
#include <tandem/io/safetensors/all.hpp>
#include <tandem/train/checkpoint/processes/group.hpp>
#include <tandem/train/checkpoint/processes/load.hpp>
#include <tandem/train/checkpoint/processes/outline.hpp>
#include <tandem/train/checkpoint/processes/sharing.hpp>

#include <support/temporary_folder.hpp>

namespace tandem {
namespace checkpoint_sharing_test {

TEST_CASE("the largest tensors first, each to the needer that sees the file and has least") {
  detail::CheckpointNeeds const needs{.sets = {{0, 1, 2}, {1, 2}, {2}},
                                      .set = {0, 0, 1, 2, detail::CheckpointNeeds::none, 0}};
  std::vector<std::int64_t> const bytes{4, 10, 9, 1, 99, 8};
  CHECK(detail::deal_readers(bytes, needs, {true, true, true}) ==
        std::vector<int>{2, 0, 1, 2, -1, 2});
  CHECK(detail::deal_readers(bytes, needs, {true, true, false}) ==
        std::vector<int>{0, 0, 1, 0, -1, 1});  // process 0 reads what 2 alone needs
  CHECK(detail::deal_readers(bytes, needs, {true, false, false}) ==
        std::vector<int>{0, 0, 0, 0, -1, 0});
  CHECK(needs.has(3, 2));
  CHECK(!needs.has(3, 1));
  CHECK(!needs.has(4, 0));
}

TEST_CASE("a parcel is of tensors with one reader and the same needers") {
  detail::CheckpointNeeds const needs{.sets = {{0, 1}, {1}}, .set = {0, 1, 0, -1, 0, 1}};
  auto const parcels = detail::parcels_of(needs, {1, 1, 0, -1, 1, 0});
  REQUIRE(parcels.size() == 3);
  CHECK(parcels[0].reader == 0);
  CHECK(parcels[0].others == std::vector<int>{1});
  CHECK(parcels[0].tensors == std::vector<std::size_t>{2});
  CHECK(parcels[1].reader == 1);
  CHECK(parcels[1].others == std::vector<int>{0});
  CHECK(parcels[1].tensors == std::vector<std::size_t>{0, 4});
  CHECK(parcels[2].reader == 0);  // which does not need it
  CHECK(parcels[2].others == std::vector<int>{1});
}

TEST_CASE("every member gets a parcel once, from one that has it, in few rounds") {
  for (int members = 2; members <= 33; ++members) {
    CAPTURE(members);
    detail::CheckpointParcel parcel{.reader = 7};
    for (int m = 0; m + 1 < members; ++m) {
      parcel.others.push_back(2 * m);
    }
    std::vector<int> senders;
    int most = 0;
    for (int process = 0; process < 2 * members + 8; ++process) {
      bool const member = process == 7 || std::ranges::count(parcel.others, process) > 0;
      auto const place = detail::place_in(parcel, process);
      CHECK(place.takes_part == member);
      for (int const to : place.to) {
        CHECK(detail::place_in(parcel, to).from == process);
        senders.push_back(to);
      }
      most = std::max(most, static_cast<int>(place.to.size()));
    }
    std::ranges::sort(senders);
    CHECK(senders == parcel.others);
    CHECK(detail::place_in(parcel, 7).from == -1);
    bool const few_rounds = (1 << most) < 2 * members;
    CHECK(few_rounds);
  }
}

/// Process 1 of two, of a transport that sends nothing.
class Alone final : public detail::ProcessGroup {
 public:
  Alone() : ProcessGroup{{.processes = 2, .process = 1}} {}
  void add_up(std::span<double> /*numbers*/) override {}
  [[nodiscard]] bool passes_on() const override { return false; }
  void pass_on(std::span<double> /*numbers*/, int /*from*/, std::span<int const> /*to*/) override {
    FAIL("nothing can be sent");
  }
};

TEST_CASE("where nothing can be sent each process reads what it needs, and only that") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("x");
  std::vector<float> const numbers{1, 2, 3, 4, 5, 6};
  auto const data = std::as_bytes(std::span{numbers});
  std::vector<TensorView> const tensors{{"a", Dtype::F32, {2}, data.first(8)},
                                        {"b", Dtype::F32, {3}, data.first(12)},
                                        {"c", Dtype::F32, {1}, data.last(4)}};
  write_safetensors(path, tensors, with_checksums(tensors, {}));
  Alone group;
  LoadedBytes bytes;
  auto const start = detail::read_start(path, bytes);
  auto const told = detail::start_of(detail::to_text(start));
  CHECK(told.identity == start.identity);
  CHECK(bytes == LoadedBytes{});
  auto outline = detail::outline_of(path, told);
  std::vector<float> got(3);
  Safetensors& file = outline.tensors;
  detail::CheckpointNeeds const needs{.sets = {{0, 1}, {0}}, .set = {1, 0, 1}};
  std::vector<CheckpointCopy> const copies{
      {reinterpret_cast<std::byte*>(got.data()), file.find("b")}};
  auto const load = [&](std::vector<bool> const& sees) {
    detail::CheckpointTransfer transfer;
    transfer.prepare(group, path, told, outline, file, needs, copies, sees, bytes);
    transfer.pass_on(group, file, bytes);
  };
  CHECK(test::contains(test::message<FileError>([&] {
                         load({true, false});
                       }),
                       "process 1 does not see the checkpoint that process 0 sees"));
  load({true, true});
  CHECK(bytes == LoadedBytes{.read = 12, .received = 0});
  CHECK(file.at("a").data.empty());
  REQUIRE(file.at("b").data.size() == 12);
  CHECK(std::memcmp(file.at("b").data.data(), numbers.data(), 12) == 0);
}

}  // namespace checkpoint_sharing_test
}  // namespace tandem
