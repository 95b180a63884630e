#!/bin/bash
# Boots systemd on a throwaway copy of this machine: its files with a layer above them
# that keeps every change, and processes, mounts, cgroups and a network of its own.
#
#   machine.sh FOLDER [SHARED PLACE]...
#
# Each folder SHARED of this machine is at PLACE of the copy as well: /tmp is not.
#
# Needs root. The layer is in memory, and everything is gone with this process. FOLDER
# is an empty folder for the mounts. systemd is this process's only child, for nsenter.
# Of the system's own units only the journal is started.
set -euo pipefail
folder=$1

if [ "${OUTCRY_MACHINE:-}" != inside ]; then
  # A cgroup of its own first: systemd manages what it finds at the root of its cgroup
  # namespace, which is where this process is.
  hierarchies=(/sys/fs/cgroup)
  [ -e /sys/fs/cgroup/cgroup.controllers ] || hierarchies=(/sys/fs/cgroup/systemd /sys/fs/cgroup/unified)
  for h in "${hierarchies[@]}"; do
    for left in "$h"/outcry-machine-*; do # of machines that were killed
      [ -e "/proc/${left##*-}" ] || find "$left" -depth -type d -exec rmdir {} \; 2>/dev/null || true
    done
    mkdir -p "$h/outcry-machine-$$"
    echo $$ > "$h/outcry-machine-$$/cgroup.procs"
  done
  export OUTCRY_MACHINE=inside
  exec unshare --mount --pid --ipc --uts --net --cgroup --fork --kill-child "$0" "$@"
fi

mount --make-rprivate /
mount -t tmpfs machine "$folder"
mkdir "$folder/upper" "$folder/work" "$folder/root"
mount -t overlay machine -o "lowerdir=/,upperdir=$folder/upper,workdir=$folder/work" "$folder/root"
root=$folder/root
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mount -t sysfs -o ro sysfs "$root/sys"
mount --rbind /dev "$root/dev"
# Of its own: a unit that stops removes the shared memory of its user, who has the same
# number in every machine.
mount -t tmpfs tmpfs "$root/dev/shm"
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
else
  mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
  mkdir "$root/sys/fs/cgroup/systemd" "$root/sys/fs/cgroup/unified"
  mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
  mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup/unified"
fi

shift
while [ $# -gt 0 ]; do
  mkdir -p "$folder/upper$#" "$folder/work$#" "$root$2"
  mount -t overlay machine -o "lowerdir=$1,upperdir=$folder/upper$#,workdir=$folder/work$#" "$root$2"
  shift 2
done

# Nothing of the system is started that would look for hardware, mounts or a network.
rm -rf "$root"/etc/systemd/system/*.wants "$root"/{usr/lib,lib}/systemd/system/*.wants
rm -f "$root"/usr/lib/systemd/system-generators/* "$root/etc/machine-id" "$root/etc/fstab"
rm -rf "$root/var/log/journal" "$root/var/lib/outcry"
# There is no network to wait for but the loopback, which is there.
ln -s /dev/null "$root/etc/systemd/system/systemd-networkd-wait-online.service"
printf '[Unit]\nWants=systemd-journald.service\nAfter=systemd-journald.service\nDefaultDependencies=no\n' \
  > "$root/etc/systemd/system/machine.target"
# Not chroot: the sandbox of a unit may have a user namespace, which a process that is
# in a chroot cannot make.
mkdir "$root/old"
cd "$root"
pivot_root . old
umount -l /old
rmdir /old
# As systemd makes it where it runs on a machine, and not in a container: what fails
# there is to fail here.
mount --make-rshared /
exec /usr/bin/env -i container=outcry-machine PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  /lib/systemd/systemd --system --unit=machine.target --log-target=journal --show-status=no
