package script

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/model"
)

// mortal is a server on the model that can be killed. When it restarts, it executes those of its earlier documents
// that keep returns. Afterwards it answers no orders.
type mortal struct {
	mu   sync.Mutex
	x    *model.Exchange
	docs []string
	keep func(docs []string) []string
	died bool
	late int // connections to close after the kill, before it answers again

	executed int           // replies that report an execution
	enough   chan struct{} // closed after 2*loadConnections such replies: then at least one trader got one
}

func (m *mortal) answer(doc string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.died && strings.Contains(doc, "<order") {
		return "" // closes the connection
	}
	if m.died && m.late > 0 {
		m.late--
		return ""
	}
	m.docs = append(m.docs, doc)
	reply := string(m.x.Do([]byte(doc), time.Now().Unix()))
	if strings.Contains(reply, "<executed") {
		if m.executed++; m.executed == 2*loadConnections {
			close(m.enough)
		}
	}
	return reply
}

// kill waits until there are executions to lose: on a slow machine, there may be none after a second.
func (m *mortal) kill(ctx context.Context) error {
	select {
	case <-m.enough:
	case <-ctx.Done():
		return ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.x, m.docs, m.died = model.New(), m.keep(m.docs), true
	for _, doc := range m.docs {
		m.x.Do([]byte(doc), time.Now().Unix())
	}
	return nil
}

// playMortal plays the verb load for at least a second.
func playMortal(t *testing.T, keep func(docs []string) []string) Outcome {
	t.Helper()
	m := &mortal{x: model.New(), keep: keep, late: 2, enough: make(chan struct{})}
	p := serve(t, m.answer)
	p.Kill = m.kill
	return p.Play(t.Context(), parse(t, "durability", "| load 1\n"))
}

func TestOrdersUnderLoadAreKept(t *testing.T) {
	t.Parallel()
	out := playMortal(t, func(docs []string) []string { return docs })
	require.Equal(t, Outcome{Status: Pass, Share: 1, Tries: 1}, out)
}

func TestOrdersUnderLoadAreLost(t *testing.T) {
	some := `^After the server was killed and started again, [0-9]+ of [0-9]+ orders that it had accepted are lost`
	for name, c := range map[string]struct {
		keep func(docs []string) []string
		says string
	}{
		"all":           {func([]string) []string { return nil }, "none of the [0-9]+ orders that it had accepted is there"},
		"the last ones": {func(docs []string) []string { return docs[:len(docs)-8] }, some},
		"executions": {func(docs []string) (kept []string) {
			for _, doc := range docs {
				kept = append(kept, strings.ReplaceAll(doc, `amount="-1" limit="10"`, `amount="-1" limit="11"`))
			}
			return kept
		}, some},
		"sells": {func(docs []string) (kept []string) {
			for _, doc := range docs {
				if !strings.Contains(doc, `amount="-1"`) {
					kept = append(kept, doc)
				}
			}
			return kept
		}, some},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := playMortal(t, c.keep)
			require.Equal(t, Fail, out.Status)
			require.Regexp(t, c.says, out.Message)
			require.NotEmpty(t, out.Conversation)
			require.Regexp(t, `^! <results><status id="[0-9]+">`, out.Conversation[len(out.Conversation)-1])
		})
	}
}

func TestLoadNeedsKillingAndQueries(t *testing.T) {
	t.Parallel()
	out := twin(t, nil).Play(t.Context(), parse(t, "durability", "| load 1\n"))
	require.Equal(t, Skip, out.Status)

	p := twin(t, func(_, reply string) string { return strings.ReplaceAll(reply, "status", "error") })
	p.Kill = func(context.Context) error { return nil }
	out = p.Play(t.Context(), parse(t, "durability", "| load 1\n"))
	require.Equal(t, Skip, out.Status, out.Message)

	p = twin(t, func(doc, reply string) string {
		if strings.Contains(doc, "<order") {
			return `<results><error>no</error></results>`
		}
		return reply
	})
	p.Kill = func(context.Context) error { return nil }
	out = p.Play(t.Context(), parse(t, "durability", "| load 1\n"))
	require.Equal(t, Fail, out.Status)
	require.Contains(t, out.Message, "An order that the account can afford must be accepted.")
}
