// SPDX-License-Identifier: Apache-2.0
// The bytes that describe<Net, S>() says of each collective are those that ranks send.

#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/tandem.hpp>
#include <tandem/train/describe/describe.hpp>

#include <logging_transport.hpp>
#include <parity.hpp>
#include <rank_of.hpp>

namespace tandem {
namespace described_bytes_test {

/// Pairs of convolutions, one of them in a branch; halos; at last whole images.
struct Images
    : Network<Image<3, 12, 6>,
              Sequential<Conv2d<4, Kernel<3>, Padding<1>>, ReLU, Conv2d<6, Kernel<3>, Padding<1>>,
                         Concat<Conv2d<2>, Sequential<Conv2d<4>, BatchNorm2d<>, ReLU,
                                                      Conv2d<3, Kernel<5>, Padding<2>>>>,
                         MaxPool2d<Kernel<2>>, Flatten, Linear<5>>> {};

template <class S>
using On = Trainer<Images, S, Host, DefaultLoss<Images>, DefaultMetric<DefaultLoss<Images>>,
                   test::LoggingTransport>;

using Words = std::vector<std::string>;

/// Of each row of the table of spreads.
template <class S>
std::vector<Words> rows() {
  std::string const text = describe<Images, S>();
  std::istringstream lines{text.substr(text.find("\nspreads over "))};
  std::vector<Words> all;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words{line};
    Words row;
    for (std::string word; words >> word;) {
      row.push_back(word);
    }
    all.push_back(row);
  }
  return all;
}

std::string of_one(std::int64_t bytes) { return detail::kib_or_dash(bytes / test::largest_batch); }

TEST_CASE("each sum of channels has the bytes that its row says") {
  using S = ChannelParallel<2>;
  On<S> trainer{test::parity_options()};
  test::LoggingTransport<2>::clear();
  test::parity_step(trainer, 0);
  std::multiset<Words> sent;
  for (Record const& record : test::LoggingTransport<2>::log(1)) {
    bool const forward = std::string_view{record.label.text} == "reduce";
    if (forward || std::string_view{record.label.text} == "gradient of copy") {
      Node const& node = test::DeviceOf<On<S>>::graph.node[record.label.index];
      sent.insert({to_string(node.path), std::string{node.name},
                   forward ? of_one(record.bytes) : "-", forward ? "-" : of_one(record.bytes)});
    }
  }
  std::multiset<Words> said;
  for (Words const& row : rows<S>()) {
    if (row.size() == 7 && (row[1] == "Reduce" || row[1] == "Copy") &&
        (row[5] != "-" || row[6] != "-")) {
      said.insert({row[0], row[1], row[5], row[6]});
    }
  }
  CHECK(sent == said);
  CHECK(said.size() == 3);  // nobody wants the gradient of the first pair's input
}

// Of three tiles one above the other the middle one has neighbours on both sides.
TEST_CASE("so have exchanges of tiles, in forward and in backward") {
  using S = SpatialParallel<3, 1>;
  On<S> trainer{test::parity_options()};
  auto const received = [] {
    auto const& log = test::LoggingTransport<3>::log(1);
    return test::volume(log, Operation::receive, "tiles").bytes;
  };
  test::LoggingTransport<3>::clear();
  test::parity_step(trainer, 0);
  std::int64_t const all = received();
  test::LoggingTransport<3>::clear();
  test::Samples<float> const data{On<S>::input, On<S>::output[0], test::largest_batch, 1};
  trainer.predict(TensorDataset<std::int32_t>{On<S>::input, data.x, data.y});
  std::int64_t const forward = received();
  Words const total = rows<S>().back();
  REQUIRE(total.size() == 5);
  CHECK(total[0] == "total");
  CHECK(total[3] == of_one(forward));
  CHECK(total[4] == of_one(all - forward));
}

}  // namespace described_bytes_test
}  // namespace tandem
