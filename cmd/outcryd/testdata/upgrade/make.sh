#!/bin/bash
# Makes a golden exchange with the outcryd of an older commit, in a new folder beside
# this file:
#
#   make.sh PROGRAM FOLDER [refs] [operate] [parts] [instructed]
#
# PROGRAM is that outcryd, built. The words say what else it knows, and clients and
# operators do: trade.py tells. It needs python3 and Postgres' programs, psql and
# pg_dump among them, and runs a Postgres of its own. In the folder are then
#
#   database.sql.gz   the database half way
#   journal.tar.gz    the journal at the end, of a server that was killed
#   expected.txt      what the tables held once that program had started again on both
#
# With parts the journal ends behind the first part of an order, which is unfinished:
# that program, and each newer one, finishes it at its start. So it logs two digests.
set -euo pipefail
program=$(realpath "$1") folder=$(dirname "$(realpath "$0")")/$2
knows=("${@:3}")
bin=$(pg_config --bindir)
work=$(mktemp -d)
segment=65536
case " ${knows[*]} " in *' parts '*) segment=1048576 ;; esac # a part needs more room
rm -rf "$folder"
mkdir "$folder"
chmod 755 "$work"
as=()
[ "$(id -u)" != 0 ] || { as=(setpriv --reuid=65534 --regid=65534 --clear-groups); chown 65534:65534 "$work"; }
"${as[@]}" "$bin/initdb" -A trust -D "$work/pg" -U outcry --no-sync --locale=C --encoding=UTF8 >/dev/null
"${as[@]}" "$bin/postgres" -D "$work/pg" -k "$work" -c listen_addresses= -c fsync=off >"$work/pg.log" 2>&1 &
postgres=$!
trap 'kill -9 ${server:-} 2>/dev/null || true; kill -INT $postgres; wait $postgres || true; rm -rf "$work"' EXIT
until "$bin/pg_isready" -q -h "$work"; do sleep 0.1; done
export PGHOST=$work PGUSER=outcry PGDATABASE=postgres

launch() {
  "$program" --listen 127.0.0.1:0 --http 127.0.0.1:0 --data "$work/data" --segment "$segment" \
    --database-url "host=$work user=outcry dbname=postgres" 2>"$work/log" &
  server=$!
  until grep -q '"msg":"ready"' "$work/log"; do kill -0 $server; sleep 0.1; done
  port=$(grep '"msg":"ready"' "$work/log" | grep -o '"xml":"[^"]*"' | grep -o '[0-9]*"$' | tr -d '"')
  http=$(grep '"msg":"ready"' "$work/log" | grep -o '"http":"[^"]*"' | cut -d '"' -f 4)
}
trade() { # PART ORDERS
  python3 "$(dirname "$0")/trade.py" "$port" "$1" "$2" "$http" "${knows[@]}"
}
applied() { # waits until Postgres has everything
  trade 0 0 # one more frame, behind all others
  sleep 1
}

launch
trade 1 250
applied
"$bin/pg_dump" --inserts --rows-per-insert=500 --no-owner --no-privileges | grep -v '^\\' | gzip -9n > "$folder/database.sql.gz"
postgres_is() { kill "-$1" $postgres $(pgrep -P $postgres); }
postgres_is STOP # so that the journal keeps what the database does not have
trade 2 1000
kill -9 $server
postgres_is CONT
case " ${knows[*]} " in *' parts '*) python3 "$(dirname "$0")/cut.py" "$work/data/journal" ;; esac
tar -C "$work/data" --exclude='*.tmp' --exclude=LOCK --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -c journal | gzip -9n > "$folder/journal.tar.gz"
sleep 1 # what this start does has a later second than the journal
launch
applied
kill $server
wait $server
# upgrade_test.go asks the same of the tables that a newer program has made of these.
rows() { # TABLE COLUMNS [CONDITION]
  PGOPTIONS=-csearch_path=public,outcry "$bin/psql" -qAt -c "SELECT $2 FROM $1 ${3:-} ORDER BY 1, 2, 3" | sed "s/^/$1|/"
}
{
  rows accounts 'id, opened, balance, held' # seq came with version 2
  rows positions '*'
  rows orders 'id, account, sym, amount, limit_price, open, executed, canceled, time, canceled_at'
  rows executions 'sym, buy_order, sell_order, shares, price, time, aggressing_order, n' # more came with version 9
  case " ${knows[*]} " in *' refs '*) rows refs 'account, ref, seq, order_id' ;; esac
  case " ${knows[*]} " in *' operate '*) rows symbols 'sym, halted_at, halt_reason' 'WHERE halted_at IS NOT NULL'; rows halt_log 'seq, sym, halted, reason, time' ;; esac
} > "$work/expected.txt"
grep -o '"digest":"[0-9a-f]*"' "$work/log" | uniq >> "$work/expected.txt" || echo "this program logs no digest"
gzip -9n < "$work/expected.txt" > "$folder/expected.txt.gz"
