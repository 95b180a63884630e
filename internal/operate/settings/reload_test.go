package settings

import (
	"errors"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// A changed setting whose part is not registered needs a restart. If one part refuses its setting, all stay
// as they were.
func TestAReloadIsTakenOverByThePartsThatAreThere(t *testing.T) {
	file := writeFile(t, "outcryd.conf", "")
	start, err := Parse([]string{"--config=" + file}, io.Discard)
	require.NoError(t, err)
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	var r Reloads
	var refuse error
	lag := 0
	r.On(func(c *Config) (func(), error) { return func() { lag = c.LagMax }, refuse }, Engine)
	require.Nil(t, r.Last())

	const different = "max-lag = 5000\nmax-stream-readers = 5\nmax-frame = 70\nlog-level = WARN\n"
	write(different)
	refuse = errors.New("no")
	_, _, err = r.Reload(start)
	require.ErrorIs(t, err, refuse)
	require.Nil(t, r.Last())
	require.Zero(t, lag)

	refuse = nil
	changed, restart, err := r.Reload(start)
	require.NoError(t, err)
	require.Equal(t, []string{"log-level: WARN, was INFO", "max-lag: 5000, was 4000000"}, changed)
	require.Equal(t, []string{"max-frame", "max-stream-readers"}, restart)
	require.Equal(t, 5000, lag)
	changed, restart, err = r.Reload(start)
	require.NoError(t, err)
	require.Empty(t, changed, "the settings are already in use")
	require.Equal(t, []string{"max-frame", "max-stream-readers"}, restart, "reported until a restart")
	require.Equal(t, 5000, r.Last().LagMax)

	r.On(func(*Config) (func(), error) { return func() {}, nil }, HTTP)
	changed, restart, err = r.Reload(start)
	require.NoError(t, err)
	require.Equal(t, []string{"max-stream-readers: 5, was 1000"}, changed)
	require.Equal(t, []string{"max-frame"}, restart)
}
