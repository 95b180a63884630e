#!/bin/sh
# Makes a Debian package of the binaries in a folder, and leaves it there:
#
#   deploy/debian/build.sh FOLDER
#
# ARCHITECTURE is what the binaries are for, this machine's by default. VERSION, if set, is
# the package's version. Otherwise it is git's: of a tag v1.2.3 it is 1.2.3, some commits
# later 1.2.3+5.gabcdef0, and 0~ and the commit's time before the first tag.
# SOURCE_DATE_EPOCH is the time of all files; by default the commit's.
set -eu
umask 022
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
if [ -z "${VERSION:-}" ]; then
  if described=$(git describe --tags --match 'v[0-9]*' 2>/dev/null); then
    VERSION=$(echo "${described#v}" | sed 's/-\([0-9]*-g\)/+\1/; s/-/./g')
  else
    VERSION=0~$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).$(git rev-parse --short=7 HEAD)
  fi
fi
arch=${ARCHITECTURE:-$(dpkg --print-architecture)}

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
doc=$root/usr/share/doc/outcry
mkdir -p "$root/DEBIAN" "$doc"
install -D -m 755 -t "$root/usr/bin" "$out/outcryd" "$out/outcry" "$out/outcry-lab"
install -D -m 644 -t "$root/lib/systemd/system" deploy/systemd/*.service deploy/systemd/*.timer
# A node of a cluster beside others on one machine: its name takes the place of outcryd.
sed -e 's|^Description=.*|& %i|; s|/etc/default/outcryd$|&-%i|; s|/etc/outcry/outcryd.conf|/etc/outcry/%i.conf|' \
  -e 's|^Environment=OUTCRY_DATA=.*|&/%i|; s|^StateDirectory=.*|&/%i|' \
  deploy/systemd/outcryd.service > "$root/lib/systemd/system/outcryd@.service"
install -D -m 755 -t "$root/usr/libexec/outcry" deploy/systemd/outcry-backup deploy/peers.sh
install -D -m 640 deploy/debian/outcryd.default "$root/etc/default/outcryd"
install -D -m 644 deploy/debian/outcryd.conf "$root/etc/outcry/outcryd.conf"
deploy/release/pages.sh "$doc"
GOOS=linux GOARCH=$arch deploy/release/licenses.sh > "$doc/THIRD-PARTY-LICENSES"
for program in outcry outcry-lab; do
  install -D -m 644 deploy/completion/$program.bash "$root/usr/share/bash-completion/completions/$program"
  install -D -m 644 -t "$root/usr/share/zsh/vendor-completions" deploy/completion/_$program
  install -D -m 644 -t "$root/usr/share/fish/vendor_completions.d" deploy/completion/$program.fish
done
# What watches the exchange: rules and alerts, an example of where to send them, the dashboard.
for file in prometheus/prometheus.yml prometheus/recording.yml prometheus/alerts.yml prometheus/alertmanager.yml grafana; do
  (cd deploy && find "$file" -type f -exec install -D -m 644 '{}' "$root/usr/share/outcry/{}" ';')
done
install -m 644 deploy/debian/copyright "$doc/copyright"
install -D -m 644 deploy/debian/lintian-overrides "$root/usr/share/lintian/overrides/outcry"
install -D -m 644 -t "$root/usr/share/outcry" deploy/debian/operator.sh
maintainer=$(sed -n 's/^Maintainer: //p' deploy/debian/control.in)
printf 'outcry (%s) unstable; urgency=medium\n\n  * CHANGELOG.md says what is new.\n\n -- %s  %s\n' \
  "$VERSION" "$maintainer" "$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n > "$doc/changelog.gz"

install -m 755 -t "$root/DEBIAN" deploy/debian/postinst deploy/debian/prerm deploy/debian/postrm
printf '%s\n' /etc/default/outcryd /etc/outcry/outcryd.conf > "$root/DEBIAN/conffiles"
size=$(du -k -s --apparent-size "$root" | cut -f1)
sed -e "s/@VERSION@/$VERSION/; s/@ARCHITECTURE@/$arch/; s/@SIZE@/$size/" deploy/debian/control.in > "$root/DEBIAN/control"
(cd "$root" && find usr lib etc -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) > "$root/DEBIAN/md5sums"

package=$out/outcry_${VERSION}_$arch.deb
dpkg-deb --root-owner-group -Zxz --build "$root" "$package" >/dev/null
echo "$package"
