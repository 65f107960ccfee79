// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Text for training: files into strings, strings into tokens, tokens into windows.

#include <tandem/core/letters_aside.hpp>

#include <tandem/core/config.hpp>
#include <tandem/core/log_uniform.hpp>

#include <tandem/data/text/bleu/bleu.hpp>
#include <tandem/data/text/characters.hpp>
#include <tandem/data/text/gpt2/bpe.hpp>
#include <tandem/data/text/lines.hpp>
#include <tandem/data/text/pairs.hpp>
#include <tandem/data/text/read_text.hpp>
#include <tandem/data/text/sentencepiece.hpp>
#include <tandem/data/text/sword.hpp>
#include <tandem/data/text/text_stream.hpp>
#include <tandem/data/text/token_file.hpp>
#include <tandem/data/text/tokenizer.hpp>
#include <tandem/data/text/words.hpp>

#include <tandem/core/letters_back.hpp>
