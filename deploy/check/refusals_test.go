//go:build operations

package check

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Pieces of shell commands that start a server by hand beside the service, as the service's user.
const (
	byHand = "cd / && timeout 60 runuser -u outcry -- env "
	server = "outcryd --http= --listen=127.0.0.1:0 --segment=65536 " // the service occupies the default port

	// anExchange creates the data directory /tmp/$name and the database $name, with a symbol in them.
	anExchange = "cd / && runuser -u postgres -- createdb --owner=outcry $name && install -d -o outcry /tmp/$name && " +
		"systemd-run --quiet --collect --unit=$name --uid=outcry --property=Type=notify outcryd --http= " +
		"--listen=127.0.0.1:4321 --data=/tmp/$name " +
		"--database-url=postgres://outcry@/$name?host=/run/postgresql && outcry --addr 127.0.0.1:4321 symbol A && " +
		"systemctl stop $name; "
)

// refusal is a start that is refused, and part of the message that the page lists for it.
type refusal struct {
	says  string
	start string
}

// database returns the setting that gives a server started by hand its database.
func database(name string) string {
	return "DATABASE_URL=postgres://outcry@/" + name + "?host=/run/postgresql "
}

// refusals run in this order after the procedures, each on the state that the last one left.
var refusals = []refusal{
	{"is in use by another process", byHand + database("exchange") + server + "--data=/var/lib/outcry"},
	{"another server is using the database", "install -d -o outcry /tmp/empty; " + byHand + database("exchange") +
		server + "--data=/tmp/empty"},
	{"must be a whole number", byHand + "OUTCRY_MAX_LAG=lots outcryd"},
	{"must be from", byHand + "OUTCRY_MAX_LAG=1 outcryd"},
	{"same address as --listen", byHand +
		"outcryd --segment=65536 --listen=127.0.0.1:4322 --http=127.0.0.1:4322 --data=/tmp/same"},
	{"is open beyond this machine", byHand + server + "--listen=:0 --data=/tmp/open"},
	{"address already in use", "name=one; " + anExchange + byHand + database("one") + server +
		"--listen=127.0.0.1:12345 --data=/tmp/one"},
	{"this data directory belongs to another database", "name=two; " + anExchange + byHand + database("one") + server +
		"--data=/tmp/two"},
	{"records that were answered may be lost", byHand + database("one") + server + "--data=/tmp/empty"},
	{"is damaged at offset",
		`printf '\377\377' | dd of=$(ls /tmp/two/journal/*.seg) bs=1 seek=80 conv=notrunc status=none; ` + byHand +
			database("two") + server + "--data=/tmp/two"},
	{"was begun and has not ended", "echo {} > /tmp/one/RESTORING; " + byHand + database("one") + server +
		"--data=/tmp/one"},
	{"--auth: ", "rm /tmp/one/RESTORING; echo rubbish > /tmp/one/tokens; " + byHand + database("one") + server +
		"--data=/tmp/one --auth"},
	{"--tls-cert: ", byHand + database("one") + server +
		"--data=/tmp/one --tls-cert=/tmp/one/tokens --tls-key=/tmp/one/tokens"},
	{"is not a setting", "echo max-lagg = 5000 > /tmp/wrong.conf; " + byHand + "outcryd --config=/tmp/wrong.conf"},
	{"may not make the schema outcry", "runuser -u postgres -- createdb four; install -d -o outcry /tmp/four; " + byHand +
		database("four") + server + "--data=/tmp/four"},
	{"search_path names no schema for the tables", byHand +
		"'DATABASE_URL=postgres://outcry@/four?host=/run/postgresql&search_path=nowhere' " + server + "--data=/tmp/four"},
	{"its schema has version",
		"runuser -u postgres -- psql -q -d two -c 'UPDATE outcry.schema_version SET version = 99'; " + byHand +
			database("two") + server + "--data=/tmp/two"},
	{"has no exchange_state", "runuser -u postgres -- psql -q -d two -c 'ALTER SCHEMA public RENAME TO desk'; " + byHand +
		database("two") + server + "--data=/tmp/two"},
	{"does not add up",
		"systemctl stop outcryd; cd / && runuser -u postgres -- psql -q -d exchange -c \"UPDATE accounts SET balance = " +
			"balance + 1 WHERE id = '1'\"; " +
			byHand + database("exchange") + server + "--data=/var/lib/outcry"},
	{"the database is older than the journal's start",
		"cd / && runuser -u postgres -- createdb --owner=outcry three; " +
			byHand + database("three") + server + "--data=/var/lib/outcry"},
}

// triedElsewhere are messages of the page that other tests cause: those that need a made-up journal are in
// cmd/outcryd, and those that need a connection pooler in internal/postgres.
var triedElsewhere = []string{"does not replay as recorded", "this program reads up to version",
	"a connection pooler is in between"}

// refuses starts servers that refuse to start, and looks up their messages in the page.
func (s *station) refuses(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "docs/reference/MESSAGES.md"))
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(text), "\n## What a start refuses\n")
	require.True(t, ok)
	table, _, ok := strings.Cut(section, "\n## ")
	require.True(t, ok)
	var told []string
	for _, row := range regexp.MustCompile("(?m)^\\| `… ([^`]+)` \\|").FindAllStringSubmatch(table, -1) {
		told = append(told, row[1])
	}
	made := triedElsewhere
	for _, r := range refusals {
		out, err := s.machine.shell(r.start, "")
		require.Error(t, err, "%s: %s", r.says, out)
		lines := strings.Split(out, "\n")
		require.Contains(t, lines[len(lines)-1], r.says, out)
		made = append(made, r.says)
	}
	require.ElementsMatch(t, told, made)
}
