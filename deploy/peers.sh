#!/bin/sh
# Makes what the nodes of a cluster prove to each other who they are with: an authority,
# and for each node a certificate that names its host.
#
#   deploy/peers.sh FOLDER 1=HOST 2=HOST 3=HOST
#
# FOLDER gets ca.pem, ca.key and, for each node N, N.pem and N.key. Run again with a node
# that it lacks, or whose N.pem was removed, it makes that one. Keep ca.key elsewhere, and
# bring it back for that: anyone who has it can be a node.
set -eu
folder=$1
shift
for node; do
  case ${node%%=*} in *[!0-9]* | '') good= ;; *) good=yes ;; esac
  case ${node#*=} in
  *:*:*) ;; # an address of IPv6
  *:* | '') good= ;;
  esac
  [ -n "$good" ] || {
    echo "$node: must be N=HOST: a number, and a host name or address without a port" >&2
    exit 1
  }
done
umask 077
mkdir -p "$folder"
cd "$folder"
new() { openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "$@" 2>openssl.err || failed; }
failed() {
  cat openssl.err >&2
  exit 1
}
[ -e ca.pem ] || new -x509 -days 3650 -subj "/CN=peers of an exchange" -keyout ca.key -out ca.pem
for node; do
  number=${node%%=*} host=${node#*=}
  if [ -e "$number.pem" ]; then
    echo "$folder/$number.pem is there already" >&2
    continue
  fi
  [ -e ca.key ] || {
    echo "$folder/ca.key is not there: it has to sign $number.pem" >&2
    exit 1
  }
  case $host in
  *:*:*) kind=IP ;;
  *[!0-9.]*) kind=DNS ;;
  *) kind=IP ;;
  esac
  new -subj "/CN=node $number" -keyout "$number.key" -out "$number.csr"
  printf 'subjectAltName=%s:%s\nextendedKeyUsage=serverAuth,clientAuth\n' "$kind" "$host" >"$number.ext"
  openssl x509 -req -in "$number.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 365 \
    -extfile "$number.ext" -out new.pem 2>openssl.err || failed
  mv new.pem "$number.pem"
  rm "$number.csr" "$number.ext"
done
rm -f openssl.err
