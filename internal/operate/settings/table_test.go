package settings

import (
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each field of Config has exactly one row; a field without a row would never be set.
func TestEachFieldIsInTheTableOnce(t *testing.T) {
	c := new(Config)
	rows := make(map[any]string) // by the pointer to the field
	for _, r := range table {
		at := r.at(c)
		require.Empty(t, rows[at], "--%s sets the field of another", r.flag)
		require.NotEmpty(t, r.help, r.flag)
		rows[at] = r.flag
	}
	fields := reflect.ValueOf(c).Elem()
	for i := range fields.NumField() {
		if name := fields.Type().Field(i).Name; fields.Type().Field(i).IsExported() && name != "Warnings" {
			require.Contains(t, rows, fields.Field(i).Addr().Interface(), "%s has no row", name)
		}
	}
	c.flags() // sets each field to its default
	require.NoError(t, c.check(), "the defaults are valid")
}

// TestEveryBoundIsKept sets each number to one below its minimum and to one above its maximum.
func TestEveryBoundIsKept(t *testing.T) {
	bounded := 0
	for _, r := range table {
		if r.min == 0 && r.max == 0 {
			continue
		}
		bounded++
		for _, value := range []int64{r.min - 1, r.max + 1} {
			text := strconv.FormatInt(value, 10)
			if _, ok := r.initial.(time.Duration); ok {
				text += "ns"
			}
			_, err := Parse([]string{"--" + r.flag + "=" + text}, io.Discard)
			require.EqualError(t, err, fmt.Sprintf("--%s %d: must be from %d to %d", r.flag, value, r.min, r.max))
		}
	}
	require.Greater(t, bounded, 15)
}

// reloadable returns the settings that can change while the server runs.
func reloadable() (all []string) {
	for _, r := range table {
		if r.reload != "" {
			all = append(all, r.flag)
		}
	}
	return all
}

// TestThePackageNamesWhatAReloadTakesOver compares the list in the Debian package's outcryd.conf with the
// table.
func TestThePackageNamesWhatAReloadTakesOver(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/debian/outcryd.conf")
	require.NoError(t, err)
	_, after, ok := strings.Cut(string(text), "changes while the exchange runs:")
	require.True(t, ok)
	list, _, ok := strings.Cut(after, "The log names")
	require.True(t, ok)
	named := regexp.MustCompile(`[a-z]+(-[a-z]+)+`).FindAllString(list, -1)
	require.ElementsMatch(t, reloadable(), named)
}

// The package's postinst searches the output of --check-config for the error about an unprotected server. It
// must find that error, and must not mistake a warning for it.
func TestAnUpgradeFindsWhatIsOpen(t *testing.T) {
	script, err := os.ReadFile("../../../deploy/debian/postinst")
	require.NoError(t, err)
	sought := regexp.MustCompile(`--check-config 2>&1 \| grep -q '(.*)'`).FindSubmatch(script)
	require.NotNil(t, sought)
	anywhere := &net.TCPAddr{IP: net.IPv4zero, Port: 1}
	require.ErrorContains(t, new(Config).RefuseOpen(anywhere, nil), string(sought[1]))
	warnings := new(Config).Exposures(anywhere, anywhere)
	require.Len(t, warnings, 4)
	for _, warning := range warnings {
		require.NotContains(t, warning.String(), string(sought[1]))
	}
}
