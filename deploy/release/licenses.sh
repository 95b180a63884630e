#!/bin/sh
# Prints the licenses of everything that is linked into the programs of this repository,
# for the system that GOOS and GOARCH name: of each module, the files beside the packages
# that are used and in the folders above them; those of Go; and those of files that are
# vendored here.
set -eu
cd "$(dirname "$0")/../.."

# print NAME FILE
print() {
  printf '\n%s\n%s: %s\n%s\n\n' "$rule" "$1" "$(basename "$2")" "$rule"
  cat "$2"
}
rule=--------------------------------------------------------------------------------
echo "These are the licenses of what Outcry's programs contain. Outcry's own is in LICENSE."

# licenses FOLDER lists the license files in a folder.
licenses() {
  find "$1" -maxdepth 1 -type f \( -iname 'licen[sc]e*' -o -iname 'copying*' -o -iname 'notice*' -o -iname 'patents*' \) \
    ! -name '*.go' | LC_ALL=C sort
}

for file in $(licenses "$(go env GOROOT)"); do
  print "Go $(go env GOVERSION)" "$file"
done
# The folder of a module, of a package that is linked, and their names.
go list -deps -f '{{with .Module}}{{if not .Main}}{{.Dir}} {{$.Dir}} {{.Path}} {{.Version}}{{end}}{{end}}' ./cmd/outcryd ./cmd/outcry ./cmd/outcry-lab |
  while read -r module folder path version; do
    while :; do
      for file in $(licenses "$folder"); do
        echo "$path $version $file"
      done
      [ "$folder" != "$module" ] || break
      folder=$(dirname "$folder")
    done
  done | LC_ALL=C sort -u |
  while read -r path version file; do
    print "$path $version" "$file"
  done
find internal -path '*/vendor/*' -type f -iname 'licen[sc]e*' | LC_ALL=C sort | while read -r file; do
  print "$(dirname "$file")" "$file"
done
