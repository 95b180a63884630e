package doctor

import (
	"context"
	"crypto/tls"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestATokenIsNotShownToAnotherMachine has no connection made that is not encrypted.
func TestATokenIsNotShownToAnotherMachine(t *testing.T) {
	e := examination{Options: Options{HTTP: "192.0.2.1:1", Token: "secret"}}
	_, _, err := e.get(context.Background(), "/readyz")
	require.ErrorContains(t, err, "the token is not sent to 192.0.2.1:1 without TLS: give --tls-ca")
	require.NotContains(t, err.Error(), "secret")
	require.NoError(t, e.permit("tcp4", "127.0.0.1:1", nil))
	require.NoError(t, e.permit("tcp6", "[::1]:1", nil))
	e.TLS = &tls.Config{}
	require.NoError(t, e.permit("tcp4", "192.0.2.1:1", nil))
	e.TLS, e.Token = nil, ""
	require.NoError(t, e.permit("tcp4", "192.0.2.1:1", nil))
}
