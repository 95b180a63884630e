#!/usr/bin/env bash
# Gradescope runs this once, as root, when it makes the machine that grades. Install here what
# the submissions need, for example:
#   apt-get update && apt-get install -y build-essential libpqxx-dev
set -eu
chmod -R go-rwx "$(dirname "$0")"
