#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes sentences and their translations, two files for td::Pairs (docs/text.md), of what Debian packages:
#   examples/translation.sh [es|de [FOLDER]]
# es, the default: bible.en and bible.es, the verses of the King James Bible and the Reina-Valera of 1909; de: office.en and
# office.de, LibreOffice's help and catalogues. Into FOLDER, by default build/translation. It installs nothing: where a
# package is missing, it says which and exits 77.
set -euo pipefail
folder=${2:-}
[ -z "$folder" ] || folder=$(mkdir -p -- "$folder" && realpath -- "$folder")
source "$(dirname "${BASH_SOURCE[0]}")/../test/setup.sh"
folder=${folder:-$root/build/translation}
language=${1:-es}
system=${TANDEM_PACKAGES_ROOT:-}  # where packages were unpacked, if not below /

# need PATH PACKAGE ...: ends if there is no PATH, which is of the first of these packages.
need() {
  [ -e "$system$1" ] || skip "there is no $system$1" "${@:2}"
}

skip() {
  echo "tandem: skipped, $1: run 'apt-get install ${*:2}' as root, then this again"
  exit 77
}

case $language in
  es)
    texts=/usr/share/sword/modules/texts/ztext
    need $texts/engKJV2006eb sword-text-kjv sword-text-sparv
    need $texts/spaRV1909eb sword-text-sparv
    missing=$(missing_of g++ zlib1g-dev | xargs)
    [ -z "$missing" ] || skip "a compiler and zlib are needed" $missing
    mkdir -p "$folder"
    ${CXX:-g++} -std=c++20 -O1 -DTANDEM_ZLIB=1 -Iinclude examples/aligned/verses.cpp -lz -o "$folder/verses"
    "$folder/verses" "$system$texts/engKJV2006eb" "$system$texts/spaRV1909eb" "$folder/bible.en" "$folder/bible.es"
    ;;
  de)
    need /usr/share/libreoffice/help/en-US/text libreoffice-help-en-us libreoffice-help-de libreoffice-l10n-de
    need /usr/share/libreoffice/help/de/text libreoffice-help-de libreoffice-l10n-de
    need /usr/lib/libreoffice/program/resource/de libreoffice-l10n-de
    mkdir -p "$folder"
    python3 examples/aligned/libreoffice.py "$system/" de "$folder/office.en" "$folder/office.de"
    ;;
  *) fail "translation.sh takes es or de, not '$language'" ;;
esac
