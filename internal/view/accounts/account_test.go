package accounts

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAnAccountIsReadAsFarAsThereIsAView: Account fails for an unknown account and once the view has failed.
func TestAnAccountIsReadAsFarAsThereIsAView(t *testing.T) {
	v, m := newWatched(t)
	a, seq, err := v.Account("2")
	require.NoError(t, err)
	require.Equal(t, v.Seq(), seq)
	require.Equal(t, account1(t, v, "2"), a, "as XML shows it")
	_, _, err = v.Account("9")
	require.ErrorIs(t, err, ErrUnknownAccount)
	m.err = errors.New("the disk is gone")
	err = v.step(background)
	v.broken.Store(&err)
	_, _, err = v.Account("2")
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorContains(t, err, "the disk is gone")
}
