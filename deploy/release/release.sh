#!/bin/sh
# Makes what is released of VERSION, and leaves it in a folder: an archive for each target,
# the Debian packages, the Python wheel, and checksums of all. `make release` calls it.
#
#   deploy/release/release.sh FOLDER VERSION OS/ARCHITECTURE…
#
# The same commit makes the same bytes: SOURCE_DATE_EPOCH is the time of all files.
set -eu
umask 022
mkdir -p "$1"
out=$(cd "$1" && pwd)
version=$2
shift 2
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for target; do
  os=${target%/*}
  arch=${target#*/}
  name=outcry_${version}_${os}_$arch
  root=$work/$name
  GOOS=$os GOARCH=$arch "${MAKE:-make}" --no-print-directory binaries OUT="$root" >/dev/null
  if [ "$os" = linux ]; then
    ARCHITECTURE=$arch VERSION=$version deploy/debian/build.sh "$root" >/dev/null
    mv "$root"/*.deb "$out"
  fi
  GOOS=$os GOARCH=$arch deploy/release/licenses.sh > "$root/THIRD-PARTY-LICENSES"
  deploy/release/pages.sh "$root"
  tar --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
    -C "$work" -c "$name" | gzip -n > "$out/$name.tar.gz"
  rm -r "$root"
done

python3 -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$out" ./clients/python

chmod 644 "$out"/*.whl
cd "$out"
sha256sum -- *.tar.gz *.deb *.whl > "outcry_${version}_checksums.txt"
