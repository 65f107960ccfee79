// Trains a small GPT on the characters of a text, with nanoGPT's recipe for a CPU, and lets it
// write.
//   language_model [a text, or a folder of SWORD modules] [steps]
// Prints losses on the last tenth of the text, which it does not train on, and a sample.

#include <tandem/tandem.hpp>
#include <tandem/text.hpp>

#include <cstdio>
#include <exception>
#include <filesystem>

#include "number.hpp"

namespace td = tandem;

constexpr int characters = 96;  // at most; the King James Bible has 69
constexpr int window = 64;
struct Net : td::models::Gpt<characters, window, 128, 4, 4, td::Gelu, td::NoBias> {};

int main(int argc, char** argv) try {
  std::string const source =
      argc > 1 ? argv[1] : "/usr/share/sword/modules/texts/ztext/engKJV2006eb";
  int const steps = argc > 2 ? number_in(argv[2], 8, 10'000'000, "the number of steps") : 2000;
  constexpr int batch = 12;

  std::string const text =
      std::filesystem::is_directory(source) ? td::read_sword(source) : td::read_text(source);
  td::Characters const tokenizer{text};
  auto const tokens = tokenizer.encode(text);
  auto const [train, validation] = td::TokenSpan{tokens, tokenizer.size()}.split(0.9);
  td::TextStream const windows{train, window};
  td::TextStream const unseen{validation, window};

  td::Trainer<Net, td::DataParallel<2>, td::Host> trainer{
      {.batch = batch,
       .optimizer = td::AdamW{.learning_rate = 1e-3F, .beta2 = 0.99F, .weight_decay = 0.1F},
       .schedule = {td::Cosine{.steps = steps - steps / 20, .final = 0.1}, steps / 20},
       .clip_norm = 1.0,
       .groups = {{.pattern = "*", .weight_decay = 0.0F, .below_axes = 2}}}};
  constexpr int epochs = 8;
  for (auto epoch : td::epochs(epochs)) {
    auto const seen =
        trainer.train(td::first(windows, std::int64_t{batch} * steps / epochs), epoch);
    auto const found = trainer.evaluate(unseen);
    std::printf("step %5d  loss %.3f  validation %.4f  %.2f bits a character\n",
                static_cast<int>(trainer.position().step), seen.loss, found.loss, found.bits());
  }
  auto const prompt = tokenizer.encode("And God said, ");
  auto const written = trainer.generate(prompt, {.tokens = 400, .temperature = 0.8, .seed = 1});
  std::printf("\nAnd God said, %s\n", tokenizer.decode(written).c_str());
} catch (std::exception const& error) {
  std::fprintf(stderr, "language_model: %s\n", error.what());
  return 1;
}
