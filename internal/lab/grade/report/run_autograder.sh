#!/usr/bin/env bash
# Gradescope runs this for each submission, as root, as /autograder/run_autograder: the submission
# is in submission, the files of the archive are in source, the result goes to results.
set -u
umask 077
cd "$(dirname "$0")" || exit 1
top=$PWD
options=()
user=nobody
[ ! -f source/profile.toml ] || options+=(--profile "$top/source/profile.toml")
[ ! -d source/cases ] || options+=(--cases "$top/source/cases")
if [ -f source/options ]; then # an argument a line
  while IFS= read -r option; do
    options+=("$option")
    case $option in --user=*) user=${option#*=} ;; esac
  done <source/options
fi
# The server runs as that user. It builds and writes in its own folder, and sees neither the cases
# nor the result.
mkdir -p results
chmod -R go-rwx source results
chmod -R u+rwX,go+rX submission
[ "$(id -u)" != 0 ] || chown -hR "$user" submission
cd submission || exit 1
"$top/source/outcry-lab" grade --start "$(cat "$top/source/start")" --gradescope "$top/results/results.json" \
  ${options[@]+"${options[@]}"}
status=$?
# With a result every status is one that was graded.
[ -s "$top/results/results.json" ] || exit "$status"
