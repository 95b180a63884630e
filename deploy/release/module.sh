#!/bin/sh
# Gives this module another path, everywhere: in go.mod, in what is imported, and in the
# pages that show it. `make module PATH=example.org/outcry` calls it.
#
#   deploy/release/module.sh PATH
#
# It needs nothing but sed, grep and find. Its exit status is 2, and nothing is changed, if
# PATH is not one that go get accepts.
set -eu
cd "$(dirname "$0")/../.."
new=${1:-}
old=$(sed -n 's/^module //p' go.mod)

element='[A-Za-z0-9][A-Za-z0-9._~-]*'
if ! printf '%s\n' "$new" | grep -Eqx "[a-z0-9][a-z0-9-]*(\.[a-z0-9-]+)+(/$element)+" ||
  printf '%s\n' "$new" | grep -Eq '/v[0-9]+$|\.(/|$)'; then
  echo "the module's path needs a host with a dot, and a name, as in: make module PATH=example.org/outcry; not \"$new\"" >&2
  exit 2
fi

# The old path where it is a whole path or the first part of one: after a quote, a space,
# a parenthesis, a ^ of a regular expression or a line's begin.
was=$(printf '%s\n' "$old" | sed 's/[.]/\\./g')
folders='clients/go|cmd|deploy|docs|internal|loadtest|migrations'
find . -type f \( -name '*.go' -o -name '*.md' \) ! -path './build/*' ! -path './.git/*' \
  -exec grep -lE "(\"|\`|^|[ (])$was(/($folders|\")|[=@])" {} + |
  while read -r file; do
    case $file in
    *.go) sed -i -E "s#\"$was/#\"$new/#g" "$file" ;;
    *) sed -i -E "s#(\"|\`|^|[ (])$was/($folders)/#\1$new/\2/#g; s#(-replace|-require) $was([=@])#\1 $new\2#g" "$file" ;;
    esac
  done
sed -i -E "s#^module $was(/|\$)#module $new\1#" go.mod .ci/compose/go.mod .ci/tools/go.mod
