# What the commands of OPERATIONS.md and PROCEDURES.md need where the exchange has tokens or TLS. In the
# bash of root, on its machine:
#
#   . /usr/share/outcry/operator.sh
#
# It takes over the settings of the service, and which database it has. The client shows
# the token in /etc/outcry/operator.token, and the certificate operator.pem with
# operator.key there, and trusts ca.pem there, unless the variables below were set to
# something else.
# shellcheck shell=bash

# As systemd has it: the file wins over the unit, and a value may be quoted.
export OUTCRY_CONFIG=-/etc/outcry/outcryd.conf OUTCRY_DATA=/var/lib/outcry
while read -r outcry_line || [ -n "$outcry_line" ]; do
  case $outcry_line in OUTCRY_*=* | DATABASE_URL=* | DATABASE_URL_FILE=*)
    outcry_value=${outcry_line#*=}
    case $outcry_value in \"*\" | \'*\') outcry_value=${outcry_value:1:-1} ;; esac
    export "${outcry_line%%=*}=$outcry_value"
    ;;
  esac
done < /etc/default/outcryd

# outcry_setting prints the value of a setting that is in force.
outcry_setting() { outcryd --check-config 2>/dev/null | sed -n "s/^$1 = *\([^ #]*\) .*/\1/p"; }
# outcry_near prints the address at which a client of this machine finds one that the
# server listens on.
outcry_near() { outcry_setting "$1" | sed -E 's/^(0\.0\.0\.0|\[::\]|):/127.0.0.1:/'; }

OUTCRY_ADDR=$(outcry_near listen)
OUTCRY_HTTP_ADDR=$(outcry_near http)
export OUTCRY_ADDR OUTCRY_HTTP_ADDR
if [ "$(outcry_setting auth)" = true ]; then
  export OUTCRY_TOKEN_FILE="${OUTCRY_TOKEN_FILE:-/etc/outcry/operator.token}"
fi
if [ -n "$(outcry_setting tls-cert)" ]; then
  export OUTCRY_TLS_CA="${OUTCRY_TLS_CA:-/etc/outcry/ca.pem}"
fi
if [ -n "$(outcry_setting tls-client-ca)" ]; then
  export OUTCRY_CLIENT_CERT="${OUTCRY_CLIENT_CERT:-/etc/outcry/operator.pem}"
  export OUTCRY_CLIENT_KEY="${OUTCRY_CLIENT_KEY:-/etc/outcry/operator.key}"
fi
unset -f outcry_setting outcry_near
unset outcry_line outcry_value

# curl asks http://127.0.0.1:8080 of the pages as the exchange is to be asked, and is
# the same as ever for all else: nobody else is shown the token.
curl() {
  case "$*" in
  *http://127.0.0.1:8080*) ;;
  *) command curl "$@"; return ;;
  esac
  local how=()
  [ -z "${OUTCRY_TLS_CA:-}" ] || how+=(--cacert "$OUTCRY_TLS_CA")
  [ -z "${OUTCRY_CLIENT_CERT:-}" ] || how+=(--cert "$OUTCRY_CLIENT_CERT" --key "$OUTCRY_CLIENT_KEY")
  # Not as an argument, which everybody on the machine could read.
  command curl "${how[@]}" -H @<([ -z "${OUTCRY_TOKEN_FILE:-}" ] || printf 'Authorization: Bearer %s\n' "$(cat "$OUTCRY_TOKEN_FILE")") \
    "${@/#http:\/\/127.0.0.1:8080/http${OUTCRY_TLS_CA:+s}://$OUTCRY_HTTP_ADDR}"
}
