#!/bin/sh
# Copies what is to be read beside the programs to a folder: the pages, in the same places
# as in the repository, so that links from one to another lead there.
set -eu
root=$1
cd "$(dirname "$0")/../.."
for file in README.md LICENSE CHANGELOG.md CONTRIBUTING.md SECURITY.md docs clients/python clients/go/client/README.md \
  internal/door/web/page/vendor/uplot/LICENSE.txt; do
  find "$file" -type f ! -name '*.go' ! -name 'test_*' ! -path '*/.*' ! -path '*/__pycache__/*' \
    -exec install -D -m 644 '{}' "$root/{}" ';'
done
