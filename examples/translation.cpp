// Trains a small GNMT, a recurrent encoder and decoder with attention, to translate, and lets it.
//   translation [sentences] [their translations] [epochs]
// Two files with a sentence a line; examples/translation.sh writes those of the default, verses in
// English and Spanish. Prints the loss and BLEU of each 40th pair, which it does not train on, and
// some of these translations.

#include <tandem/tandem.hpp>
#include <tandem/text.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>

#include "number.hpp"

namespace td = tandem;

constexpr int known_words = 4000;   // the most frequent words, begin and end
constexpr int sentence_words = 32;  // of a sentence at most: its words, begin and end
struct Net : td::models::Gnmt<known_words, 128, 2, sentence_words, td::Percent<20>> {};

int main(int argc, char** argv) try {
  std::string const english = argc > 1 ? argv[1] : "build/translation/bible.en";
  std::string const spanish = argc > 2 ? argv[2] : "build/translation/bible.es";
  int const epochs = argc > 3 ? number_in(argv[3], 1, 1000, "the number of epochs") : 6;
  constexpr int batch = 64;

  td::Words const words{td::read_text(english) + "\n" + td::read_text(spanish), known_words - 2};
  td::Pairs const all{english, spanish, words, {.longest = sentence_words, .leave_out = true}};
  auto const [train, unseen] = all.hold_out(40);
  auto const steps = epochs * ((train.size() + batch - 1) / batch);

  td::Trainer<Net, td::DataParallel<2>, td::Host> trainer{
      {.batch = batch,
       .optimizer = td::Adam{.learning_rate = 2e-3F},
       .schedule = {td::Cosine{.steps = steps - steps / 6, .final = 0.05}, steps / 6},
       .clip_norm = 5.0}};
  for (auto epoch : td::epochs(epochs)) {
    auto const seen = trainer.train(train, epoch);
    auto const found = td::translate(trainer, unseen, {.width = 1});
    std::printf("epoch %d  loss %.2f a sentence  unseen %.2f  BLEU %.2f\n",
                static_cast<int>(epoch.index) + 1, seen.loss, trainer.evaluate(unseen).loss,
                td::bleu(found, unseen).score);
  }
  auto const found = td::translate(trainer, unseen, {.width = 5, .length = 0.6});
  std::printf("with a beam of 5: BLEU %.2f\n", td::bleu(found, unseen).score);
  for (std::int64_t i = 0; i < std::min<std::int64_t>(5, unseen.size()); ++i) {
    std::printf("\n%s\n  %s\n", std::string{unseen.source(i)}.c_str(),
                found.text[static_cast<std::size_t>(i)].c_str());
  }
} catch (std::exception const& error) {
  std::fprintf(stderr, "translation: %s\n", error.what());
  return 1;
}
