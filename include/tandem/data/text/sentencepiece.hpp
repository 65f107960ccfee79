// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SentencePiece: subwords by Google's library of that name; there only if the program defines
/// TANDEM_SENTENCEPIECE=1 and links -lsentencepiece -lsentencepiece_train.
///
/// Debian: libsentencepiece-dev. Source: Kudo, Richardson, "SentencePiece", EMNLP 2018, and Kudo,
/// "Subword regularization", ACL 2018, for the unigram model.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/printable.hpp>
#include <tandem/core/utf8.hpp>
#include <tandem/data/text/tokenizer.hpp>
#include <tandem/io/atomic/file.hpp>
#include <tandem/io/file.hpp>

#if defined(TANDEM_SENTENCEPIECE) && TANDEM_SENTENCEPIECE

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

namespace tandem {

/// How SentencePiece::train() learns a vocabulary.
struct SentencePieceOptions {
  int vocabulary = 8000;          ///< tokens, 256 for single bytes among them
  std::string model = "unigram";  ///< or "bpe"
  int threads = 1;                ///< more may round differently, and so learn other tokens
};

namespace detail {

/// The lines of a text, as the library's trainer takes them.
class LinesOfText final : public ::sentencepiece::SentenceIterator {
 public:
  explicit LinesOfText(std::string_view text) : left_{text} { Next(); }

  [[nodiscard]] bool done() const override { return done_; }
  void Next() override {
    done_ = left_.empty();
    std::size_t const end = left_.find('\n');
    line_ = left_.substr(0, end);
    left_.remove_prefix(end == left_.npos ? left_.size() : end + 1);
  }
  [[nodiscard]] std::string const& value() const override { return line_; }
  [[nodiscard]] ::sentencepiece::util::Status status() const override { return {}; }

 private:
  std::string_view left_;
  std::string line_;
  bool done_ = false;
};

/// ": " and the library's reason, without the place in its source; "" where it gives only that.
inline std::string sentencepiece_reason(::sentencepiece::util::Status const& status) {
  std::string_view reason = status.error_message();
  constexpr std::string_view thrown = "exception: ";  // of Darts, behind its place
  if (reason.find(thrown) != reason.npos) {
    reason.remove_prefix(reason.find(thrown) + thrown.size());
  }
  if (reason.find(".cc(") != reason.npos && reason.find("] ") != reason.npos) {
    reason.remove_prefix(reason.rfind("] ") + 2);
  }
  return reason.empty() ? "" : ": " + printable(reason);
}

/// What @p call into the library gives, or what it throws: a part of the library, Darts, does.
template <class Call>
::sentencepiece::util::Status sentencepiece_status(Call const& call) {
  try {
    return call();
  } catch (std::bad_alloc const&) {
    throw;
  } catch (std::exception const& error) {
    return {::sentencepiece::util::StatusCode::kInternal, error.what()};
  }
}

}  // namespace detail

/// A model of the library's; a Tokenizer.
///
/// One that train() made gives every text back as it was, but for U+2581, its sign for a blank, of
/// which it makes one: ends of lines are tokens, nothing is normalised, and characters that were
/// not learnt are written as bytes. Models of others may join blanks, lose ends of lines, and have
/// a token for what is unknown. Copies share the model.
class SentencePiece {
 public:
  /// Learns a vocabulary of @p text, a sentence a line; token 0 is for what is unknown and stands
  /// in no encoded text, 1 and 2 are for the begin and the end of a text, for who wants them.
  /// @throws Error  the text is not UTF-8, or the library cannot: its reason is in the message, as
  ///                that the text has too few words for so many tokens
  [[nodiscard]] static SentencePiece train(std::string_view text,
                                           SentencePieceOptions const& options = {}) {
    if (std::size_t const valid = detail::utf8_prefix(text); valid < text.size()) {
      throw Error{"SentencePiece::train: the text is not UTF-8 at byte " + std::to_string(valid) +
                  "; convert it first, as 'iconv -t UTF-8' does"};
    }
    if (text.empty()) {
      throw Error{"SentencePiece::train: the text is empty"};
    }
    detail::LinesOfText lines{text};
    std::string model;
    std::unordered_map<std::string, std::string> const settings{
        {"vocab_size", std::to_string(options.vocabulary)},
        {"model_type", options.model},
        {"num_threads", std::to_string(options.threads)},
        {"character_coverage", "1.0"},
        {"byte_fallback", "true"},
        {"user_defined_symbols", "\n"},
        {"normalization_rule_name", "identity"},
        {"remove_extra_whitespaces", "false"},
        {"add_dummy_prefix", "false"},
        {"max_sentence_length", "1000000"},
        {"minloglevel", "2"}};
    check("SentencePiece::train: the library cannot learn this vocabulary",
          [&] { return ::sentencepiece::SentencePieceTrainer::Train(settings, &lines, &model); });
    return SentencePiece{std::move(model), "the trained model"};
  }

  /// Reads a model that save(), or the library, wrote. The library does not check a model's table
  /// of normalised characters, and may crash where it is damaged.
  /// @throws FileError  the file cannot be read, or is no model
  [[nodiscard]] static SentencePiece load(std::string const& path) {
    std::vector<std::uint8_t> const bytes = read_file(path, text_file_limit);
    return SentencePiece{std::string{bytes.begin(), bytes.end()}, path};
  }

  /// Writes the model as the library does.
  /// @throws FileError  the file cannot be written; a previous one is untouched
  void save(std::string const& path) const {
    AtomicFile file{path};
    file.write(std::as_bytes(std::span{model_}));
    file.commit();
  }

  /// @throws Error  the text is not UTF-8, or the library cannot
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const {
    if (std::size_t const valid = detail::utf8_prefix(text); valid < text.size()) {
      throw Error{"SentencePiece::encode: the text is not UTF-8 at byte " + std::to_string(valid) +
                  "; convert it first, as 'iconv -t UTF-8' does"};
    }
    std::vector<int> tokens;
    check("SentencePiece::encode: the library cannot encode this text",
          [&] { return processor_->Encode(text, &tokens); });
    return tokens;
  }

  /// @throws Error  a token is not in [0, size())
  [[nodiscard]] std::string decode(std::span<std::int32_t const> tokens) const {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      static_cast<void>(detail::checked_token(tokens, i, size(), "SentencePiece"));
    }
    std::string text;
    std::vector<int> const copy(tokens.begin(), tokens.end());
    check("SentencePiece::decode: the library cannot decode these tokens",
          [&] { return processor_->Decode(copy, &text); });
    return text;
  }

  [[nodiscard]] int size() const { return processor_->GetPieceSize(); }

 private:
  SentencePiece(std::string model, std::string const& name) : model_{std::move(model)} {
    auto const processor = std::make_shared<::sentencepiece::SentencePieceProcessor>();
    auto const status =
        detail::sentencepiece_status([&] { return processor->LoadFromSerializedProto(model_); });
    if (!status.ok()) {
      throw FileError{name,
                      "this is no model of SentencePiece" + detail::sentencepiece_reason(status)};
    }
    processor_ = processor;
  }

  template <class Call>
  static void check(char const* who, Call const& call) {
    if (auto const status = detail::sentencepiece_status(call); !status.ok()) {
      throw Error{who + detail::sentencepiece_reason(status)};
    }
  }

  std::string model_;  // serialized
  std::shared_ptr<::sentencepiece::SentencePieceProcessor const> processor_;
};

}  // namespace tandem

#endif
