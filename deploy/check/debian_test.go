//go:build operations

package check

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mailbox runs a mail server that writes all mail to a file.
const mailbox = "systemd-run --quiet --collect --unit=mailbox --property=StandardOutput=file:/root/mail " +
	"python3 -u -W ignore -m smtpd --nosetuid --class DebuggingServer 127.0.0.1:25"

// TestTheDebianWay performs docs/DEPLOYMENT.md on a copy of the files in git: the package is built there and
// installed, and the exchange trades, is monitored, backed up and protected. The machine has no network, but shares
// Go's module and build caches with this one.
func TestTheDebianWay(t *testing.T) {
	t.Parallel()
	m := bootWithGo(t, "/srv/build")
	m.run("rm -f /etc/prometheus/*.yml")
	m.run(mailbox)
	sh := m.openShell(10*time.Minute, "HOME=/srv/home", "PATH="+os.Getenv("PATH"), "GOPROXY=off", "GOTOOLCHAIN=local",
		"GOFLAGS=-buildvcs=false",
		"GOMODCACHE="+modules, "GOCACHE="+compiled, "VERSION=1.0", "SOURCE_DATE_EPOCH=1", "DPKG_DEB_COMPRESSOR_LEVEL=0",
		"DEBIAN_FRONTEND=noninteractive")
	_, _, err := sh.Run("cd /srv/build")
	require.NoError(t, err)
	page := readPage(t, "docs/DEPLOYMENT.md")
	require.NoError(t, sh.Walk(t.Context(), page, page.Parts, map[string]func() error{
		"the mail is read": func() error {
			_, _, err := sh.Run(`until grep -q 'summary.*a test' /root/mail; do sleep 0.1; done`)
			return err
		},
		"a second passes": func() error {
			_, _, err := sh.Run(`while outcry --token-file alice.token query 1 3; do sleep 0.1; done`)
			return err
		},
	}), "the log ends with\n%s", m.try("journalctl --no-pager --output=cat --lines=20"))
}
