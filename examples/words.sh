#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes words to learn a language model from (docs/recurrent.md): the GNU Collaborative International Dictionary of
# English, an entry a line, in small letters, a blank between words and marks, numbers as "N":
#   examples/words.sh [FOLDER]
# train.words, and valid.words with each 20th entry, into FOLDER, by default build/words. It installs nothing: where Debian's
# dict-gcide is missing, it says so and exits 77.
set -euo pipefail
folder=${1:-}
[ -z "$folder" ] || folder=$(mkdir -p -- "$folder" && realpath -- "$folder")
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=${folder:-$root/build/words}
source=${TANDEM_PACKAGES_ROOT:-}/usr/share/dictd/gcide.dict.dz  # where packages were unpacked, if not below /

if [ ! -e "$source" ]; then
  echo "tandem: skipped, there is no $source: run 'apt-get install dict-gcide' as root, then this again"
  exit 77
fi
mkdir -p "$folder"
# An entry begins at a line's begin, behind the licence; its other lines are indented. A dictzip file is one of gzip.
gzip -dc <"$source" | LC_ALL=C tr -cd '\n -~' | LC_ALL=C tr 'A-Z' 'a-z' | LC_ALL=C awk '
  function finish() {
    gsub(/\[[^]]*\]|\\[^\\]*\\|[{}|"`*<>]/, " ", entry)  # sources, pronunciations, what marks type faces
    gsub(/[0-9]+/, " N ", entry)
    gsub(/[^a-zN\47 -]/, " & ", entry)
    gsub(/ +/, " ", entry)
    sub(/^ /, "", entry)
    sub(/ $/, "", entry)
    if (split(entry, words, " ") >= 5) {
      print entry > (++entries % 20 == 0 ? folder "/valid.words" : folder "/train.words")
    }
    entry = ""
  }
  /^[^ ]/ { finish() }
  { entry = entry " " $0 }
  END { finish() }' folder="$folder"
wc -lw "$folder/train.words" "$folder/valid.words"
