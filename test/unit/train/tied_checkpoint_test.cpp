// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a GPT whose criterion has the weight of its words: it stands in the file once, and
// any strategy goes on from it.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <small_gpt.hpp>
#include <support/temporary_folder.hpp>

namespace tandem {
namespace tied_checkpoint_test {

using Back = BasicHost<Portable>;
using One = SingleDevice<Microbatches<4>, Reproducible<4>>;
using Many = Hybrid<DataParallel<2, Reproducible<4>>, Pipeline<OneFOneB, 2, Split<3>, Split<3>>>;
template <class S, class Net = test::SmallGpt>
using Trains = Trainer<Net, S, Back>;

template <class S, class U>
void check_goes_on(std::string const& path) {
  test::Watchdog const watchdog{"a checkpoint"};
  Trains<S> whole{test::gpt_options()};
  test::gpt_step(whole, 0);
  test::gpt_step(whole, 1);
  whole.save(path);
  Trains<U> other{test::gpt_options()};
  other.load(path);
  CHECK(test::gpt_step(other, 2).loss == test::gpt_step(whole, 2).loss);
  CHECK(test::gpt_step(other, 0).gradient_norm == test::gpt_step(whole, 0).gradient_norm);
  CHECK(test::first_difference(other.parameters(), whole.parameters()) == "");
}

TEST_CASE("what one device saved a replicated pipeline continues, bit for bit, and back") {
  test::TemporaryFolder const folder;
  check_goes_on<One, Many>(folder.file("one"));
  check_goes_on<Many, One>(folder.file("many"));
}

/// Tensors of a file that are as the matrix of the words.
int matrices_in(std::string const& path) {
  int count = 0;
  Safetensors const file = Safetensors::read(path);
  for (TensorView const& tensor : file.tensors()) {
    count += tensor.shape == std::vector<std::int64_t>{test::gpt_words, 8} ? 1 : 0;
  }
  return count;
}

TEST_CASE("the shared weight stands in a file once, and its optimizer states") {
  test::TemporaryFolder const folder;
  Trains<Many> trainer{test::gpt_options()};
  test::gpt_step(trainer, 0);
  trainer.save(folder.file("saved"));
  trainer.export_model(folder.file("exported"));
  CHECK(matrices_in(folder.file("saved")) == 3);
  CHECK(matrices_in(folder.file("exported")) == 1);
}

TEST_CASE("weights are taken by both holders of the shared one, on all replicas") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("weights");
  Trains<One> trained{test::gpt_options()};
  test::gpt_step(trained, 0);
  trained.export_model(path);
  Trains<Many> trainer{test::gpt_options()};
  trainer.load_weights(path);
  for (int replica = 0; replica < 2; ++replica) {
    CHECK(test::difference(trainer.parameters(replica), trained.parameters(), test::Part::value)
              .error == 0.0);
  }
  CHECK(trainer.position().step == 0);
}

struct Words : Embedding<5, 4> {};
template <class... Options>
struct Net : Network<Tokens<3, 5>, Sequential<Words, Vocabulary<5, NoBias, Options...>>> {};

template <class T>
std::string loaded(T& trainer, std::string const& path) {
  try {
    trainer.load_weights(path);
  } catch (Error const& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a network with two weights names the one that a file of one lacks") {
  test::TemporaryFolder const folder;
  Trains<SingleDevice<>, Net<Shares<Words>>> one{{.batch = 1}};
  one.export_model(folder.file("one"));
  Trains<SingleDevice<>, Net<>> two{{.batch = 1}};
  CHECK(loaded(two, folder.file("one")) ==
        "'" + folder.file("one") +
            "': tensor '1.weight' is missing, and nothing else is in the file: it is of another "
            "network");
}

TEST_CASE("a weight that is set is that of both holders of the shared one, on all replicas") {
  Trains<One> trained{test::gpt_options()};
  test::gpt_step(trained, 0);
  Trains<Many> trainer{test::gpt_options()};
  for (auto const& p : trained.parameters()) {
    trainer.set_parameter(p.name, p.value);
  }
  for (int replica = 0; replica < 2; ++replica) {
    CHECK(test::difference(trainer.parameters(replica), trained.parameters(), test::Part::value)
              .error == 0.0);
  }
  test::TemporaryFolder const folder;
  trained.export_model(folder.file("weights"));
  Trains<Many> loaded{test::gpt_options()};
  loaded.load_weights(folder.file("weights"));
  CHECK(test::gpt_step(trainer, 0).loss == test::gpt_step(loaded, 0).loss);
}

TEST_CASE("a network with one weight takes a file of two where they are equal, and no other") {
  test::TemporaryFolder const folder;
  Trains<SingleDevice<>, Net<>> two{{.batch = 1, .seed = 1}};
  two.export_model(folder.file("two"));
  Trains<SingleDevice<>, Net<Shares<Words>>> one{{.batch = 1, .seed = 2}};
  std::vector<float> const before(one.parameters()[0].value.begin(),
                                  one.parameters()[0].value.end());
  CHECK(loaded(one, folder.file("two")) ==
        "'" + folder.file("two") +
            "': tensors '0.weight' and '1.weight' differ, but this network has one weight for "
            "both; leave out its Shares<>, or make them equal in the file");
  CHECK(std::ranges::equal(one.parameters()[0].value, before));

  auto const words = two.parameters()[0].value;
  two.set_parameter(two.parameters()[1].name, words);
  two.export_model(folder.file("equal"));
  CHECK(loaded(one, folder.file("equal")) == "");
  CHECK(std::ranges::equal(one.parameters()[0].value, words));
  CHECK(std::ranges::equal(one.parameters()[1].value, words));
}

}  // namespace tied_checkpoint_test
}  // namespace tandem
