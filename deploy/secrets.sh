#!/bin/sh
# Makes the passwords that compose.yaml uses, once, in deploy/secrets. The folder is
# closed to others; its files are not, because each is mounted into a container whose
# user is nobody here.
set -eu
cd "$(dirname "$0")"
if [ -e secrets ]; then
  echo "deploy/secrets is there already" >&2
  exit 1
fi
mkdir -m 700 secrets
random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
postgres=$(random)
printf '%s' "$postgres" > secrets/postgres_password
printf 'postgres:5432:outcry:outcry:%s\n' "$postgres" > secrets/pgpass
random > secrets/grafana_password
chmod 644 secrets/*
