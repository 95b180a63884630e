package child

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNodesOfATrialDoNotGetTheSettingsOfAnotherServer(t *testing.T) {
	environ := []string{"HOME=/h", "OUTCRY_DATA=/d", "DATABASE_URL=x",
		"DATABASE_URL_FILE=y", "NOTIFY_SOCKET=z", "PATH=/bin", "OUTCRY_LISTEN=1"}
	require.Equal(t, []string{"HOME=/h", "PATH=/bin"}, Environ(environ))
}
