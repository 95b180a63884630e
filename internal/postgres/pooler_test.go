package postgres

import (
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"outcry/internal/testing/pgtest"
)

// forgets returns a pooler that starts sessions without the named settings, although the client requests them.
func forgets(names ...string) func(*relay, *pair) bool {
	return func(_ *relay, p *pair) bool {
		m, err := startupOf(p.client)
		if err != nil {
			return false
		}
		for _, name := range names {
			delete(m.Parameters, name)
		}
		hello, err := m.Encode(nil)
		if err == nil {
			_, err = p.server.Write(hello)
		}
		return err == nil
	}
}

// multiplexes sends its client the greeting of one session, and connects it to another session.
func multiplexes(r *relay, p *pair) bool {
	m, err := startupOf(p.client)
	if err != nil {
		return false
	}
	shown, err := greet(p.server, m)
	if err != nil {
		return false
	}
	other, err := r.dial()
	if err != nil {
		return false
	}
	if _, err := greet(other, m); err != nil {
		return false
	}
	p.server.Close()
	p.server = other
	_, err = p.client.Write(shown)
	return err == nil
}

// refuses rejects an unknown parameter as PgBouncer does.
func refuses(_ *relay, p *pair) bool {
	m, err := startupOf(p.client)
	if err == nil && m.Parameters["plan_cache_mode"] != "" {
		answer, _ := (&pgproto3.ErrorResponse{Severity: "FATAL", Code: "08P01", Message: "unsupported startup parameter: " +
			"plan_cache_mode"}).Encode(nil)
		_, _ = p.client.Write(answer)
	}
	return false
}

// TestAPoolerIsRefusedAtOnce connects every kind of session through poolers that withhold different features.
func TestAPoolerIsRefusedAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		begin func(*relay, *pair) bool
		says  string
	}{
		"another process":        {multiplexes, "the connection is with process"},
		"a parameter is refused": {refuses, "unsupported startup parameter: plan_cache_mode"},
		"plans":                  {forgets("plan_cache_mode"), "plan_cache_mode was set to force_custom_plan and is auto"},
		"durability":             {forgets("synchronous_commit"), "synchronous_commit was set to on and is off"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRelay(t, pgtest.NewDatabase(t), c.begin)
			_, err := Open(background, r.url, slog.New(slog.DiscardHandler))
			require.ErrorContains(t, err, "a connection pooler is in between")
			require.ErrorContains(t, err, c.says)
			require.True(t, Unusable(err))
			require.NotErrorIs(t, err, ErrTaken)
			require.Equal(t, 1, r.connections(), "it is tried once")

			_, err = OpenArchive(background, r.url)
			require.ErrorContains(t, err, c.says)
			_, err = OpenLoader(background, r.url)
			require.ErrorContains(t, err, c.says)
			past := mustOpenHistory(t, r.url)
			_, _, err = past.Order(background, 1, 0, 1)
			require.ErrorContains(t, err, c.says)
		})
	}
	// A relay that only carries bytes is no pooler.
	r := newRelay(t, pgtest.NewDatabase(t), nil)
	mustOpen(t, r.url)
}
