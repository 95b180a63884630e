#!/bin/sh
# Makes the passwords that the Compose files use, once, in deploy/secrets. The folder is
# closed to others; its files are not, because each is mounted into a container whose
# user is nobody here. The folder gets its name once all of them are there.
set -eu
cd "$(dirname "$0")"
if [ -e secrets ]; then
  echo "deploy/secrets is there already" >&2
  exit 1
fi
rm -rf secrets.partial # of one that was killed
mkdir -m 700 secrets.partial
random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
postgres=$(random)
printf '%s' "$postgres" > secrets.partial/postgres_password
printf '*:5432:outcry:outcry:%s\n' "$postgres" > secrets.partial/pgpass
random > secrets.partial/grafana_password
chmod 644 secrets.partial/*
mv secrets.partial secrets
