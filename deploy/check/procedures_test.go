//go:build operations

package check

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/lab/harness"
)

// procedure is a section of the pages, and the shell commands that stand in for people and other machines.
type procedure struct {
	section   string
	meanwhile map[string]string
}

// procedures run in this order, each on the state that the last one left.
var procedures = []procedure{
	{section: "First look"},
	{section: "Stop and restart"},
	{section: "Change a setting"},
	{section: "Take a backup"},
	{section: "Upgrade"},
	{section: "Go back to an older version",
		meanwhile: map[string]string{
			"customers trade with the new version": "outcry account 5 5 && systemctl stop outcryd && " + olderRefuses +
				"systemctl start outcryd"}},
	{section: "Add disk room", meanwhile: map[string]string{
		"a disk is at /mnt, and fstab has it at /var/lib/outcry": "mkdir /srv/disk && mount -t tmpfs -o size=2G other-disk " +
			"/srv/disk && mkdir /srv/disk/lost+found && " +
			"mount --bind /srv/disk /mnt && echo '/srv/disk /var/lib/outcry none bind 0 0' >> /etc/fstab"}},
	{section: "Move to another machine", meanwhile: map[string]string{
		"the files are on another machine": "umount /var/lib/outcry; rm -rf /var/lib/outcry; dpkg --purge outcry; rm -rf " +
			"/etc/outcry && dpkg --install /root/outcry-old.deb && " +
			"cd / && runuser -u postgres -- dropdb outcry && runuser -u postgres -- dropdb outcry_newer && runuser -u " +
			"postgres -- dropuser outcry"}},
	{section: "Lose Postgres", meanwhile: map[string]string{
		"the database is lost, and a dump of yesterday is in /root/yesterday.dump": "cd / && runuser -u postgres -- " +
			"pg_dump --format=custom outcry > /root/yesterday.dump && " +
			"outcry account 3 5 && outcry buy 3 SPY 1 1 && systemctl stop postgresql@15-main && rm -rf " +
			"/var/lib/postgresql/15/main /etc/postgresql/15/main && " +
			"pg_createcluster 15 main && systemctl start postgresql@15-main && runuser -u postgres -- createuser outcry"}},
	{section: "Lose the journal", meanwhile: map[string]string{
		"the disk of the journal is lost": "systemctl stop outcryd && rm -rf /var/lib/outcry/journal && ! systemctl start " +
			"outcryd && systemctl stop outcryd"}},
	{section: "A damaged journal", meanwhile: map[string]string{
		"a record of the journal is damaged": "outcry account 6 6 && systemctl stop outcryd && printf '\\377\\377' | dd " +
			"of=$(ls /var/lib/outcry/journal/*.seg | head -n 1) bs=1 seek=80 conv=notrunc status=none && " +
			"! systemctl start outcryd"}},
	{section: "Look at the machine"},
	{section: "Restore a backup", meanwhile: map[string]string{
		"journal and database are lost": "systemctl stop outcryd && find /var/lib/outcry -mindepth 1 -delete && cd / && " +
			"runuser -u postgres -- dropdb outcry"}},
	{section: "A bad sync", meanwhile: map[string]string{
		"a sync fails": slowDisk[:strings.Index(slowDisk, "delay_enter")] +
			"error=EIO && p=$(systemctl show outcryd --value -p MainPID); until ! grep -q 'TracerPid:.0$' " +
			"/proc/$p/task/*/status; do sleep 0.1; done; outcry account 9 9; " +
			"while systemctl is-active --quiet slow-disk; do sleep 0.1; done"}},
	{section: "Halt a symbol"},
	{section: "Cancel all that a customer has open", meanwhile: map[string]string{
		"a customer has lost control": "outcry account 4 100 && outcry buy 4 SPY 2 1 && outcry buy 4 SPY 3 2"}},
	{section: "Block a customer", meanwhile: map[string]string{
		"a customer has lost control": "outcry buy 4 SPY 2 1 && outcry buy 4 SPY 3 2"}},
	{section: "Limit what a customer may order"},
	{section: "Tick, lot and price band of a symbol"},
	{section: "A slow client", meanwhile: map[string]string{
		"a client does not take its replies": "cat > /root/slow.sh <<'end'\n" + slowClient +
			"end\nsystemd-run --quiet --collect --unit=slow bash /root/slow.sh; until ss -Htn state " +
			"established '( sport = :12345 )' | awk '$2 > 0' | grep -q .; do sleep 0.1; done"}},
	// This section must be the last: the others use the database that the first start creates.
	{section: "Move to another database"},
}

// olderRefuses checks that the older version refuses the newer one's journal.
const olderRefuses = "dpkg-deb --extract /root/outcry-old.deb /root/old && cd / && install -m 755 " +
	"/root/old/usr/bin/outcryd /tmp/outcryd-old && " +
	"! timeout 60 runuser -u outcry -- env DATABASE_URL='postgres://outcry@/outcry?host=/run/postgresql' " +
	"/tmp/outcryd-old --http= --data=/var/lib/outcry 2> /tmp/refused && " +
	"grep -q 'a newer outcryd has written it' /tmp/refused && "

// slowClient sends many queries and reads no replies. It is run from a file because systemd would expand its variables.
const slowClient = `exec {c}<>/dev/tcp/127.0.0.1/12345
x="<transactions id=\"1\">$(printf "<query id=\"2\"/>%.0s" {1..2000})</transactions>"
while :; do printf "%s\n%s" ${#x} "$x" >&$c; done
`

// newerPackage returns a package whose server writes a journal version that the other packages refuse.
func newerPackage(t *testing.T) []byte {
	t.Helper()
	root, err := filepath.Abs(repository)
	require.NoError(t, err)
	version := func(n int) string { return fmt.Sprintf("\nconst EventVersion = %d\n", n) }
	dir := t.TempDir()
	_, err = harness.Build(t.Context(), root, "./cmd/outcryd", dir,
		harness.Edit{File: "internal/exchange/event_codec.go", Old: version(exchange.EventVersion),
			New: version(exchange.EventVersion + 1)})
	require.NoError(t, err)
	for _, program := range []string{"outcry", "outcry-lab"} {
		require.NoError(t, os.Link(filepath.Join(binaries(t), program), filepath.Join(dir, program)))
	}
	return packageOf(t, dir, "2.0")
}

// TestProcedures performs the procedures of the pages on one station, one after the other. After each, the trades
// made at the start must be present, and cash must be conserved.
func TestProcedures(t *testing.T) {
	t.Parallel()
	s := openStation(t)
	s.startPrometheus(t, func(text string) string { return text })
	s.put("/root/outcry-old.deb", packageOf(t, binaries(t), "1.0"))
	s.put("/root/outcry-new.deb", newerPackage(t))
	s.run("outcry account 1 20000 && outcry account 2 0 && outcry place SPY 2 500 && outcry sell 2 SPY 100 123.45 && " +
		"outcry buy 1 SPY 100 150")
	s.run("outcry buy 1 SPY 7 3")
	for _, p := range procedures {
		if !t.Run(p.section, func(t *testing.T) {
			s.t = t
			s.run("systemctl reset-failed outcryd") // the tests restart too often for systemd's limit
			meanwhile := map[string]func() error{}
			for name, script := range p.meanwhile {
				meanwhile[name] = func() error { s.run(script); return nil }
			}
			s.walk(t, p.section, meanwhile)
			require.Contains(t, s.run("outcry query 1 2"), "executed  100 at 123.45")
			require.Contains(t, s.run("outcry query 1 3"), "open      7")
			require.Contains(t, s.run("curl -s http://127.0.0.1:8080/metrics"), "\noutcry_cash_imbalance_dollars 0\n")
		}) {
			return
		}
	}
	t.Run("What a start refuses", func(t *testing.T) { s.t = t; s.refuses(t) })
	walked := slices.Clone(protectedSections)
	for _, p := range procedures[1:] {
		walked = append(walked, p.section)
	}
	for _, path := range operations {
		for _, title := range readPage(t, path).Titles(3) {
			if !strings.HasPrefix(title, "Outcry") && title != "Start for the first time" && title != "The clock has jumped" {
				require.Contains(t, walked, title, "a procedure that nobody performs")
			}
		}
	}
}
