package engine

import (
	"context"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// requests returns requests for commands, without options.
func requests(commands ...exchange.Command) []Request {
	asked := make([]Request, len(commands))
	for i := range commands {
		asked[i].Command = commands[i]
	}
	return asked
}

// Execute calls Engine.Execute for commands without options. Recall and Ready do the same.
func (m *market) Execute(ctx context.Context, commands []exchange.Command, results []exchange.Result) (Mark, error) {
	mark, err := m.Engine.Execute(ctx, requests(commands...), results)
	if err == nil {
		m.takeSeqs(results)
	}
	return mark, err
}

// takeSeqs sets the seqs in results to 0, so that whole results can be compared. It requires that the seqs
// increase.
func (m *market) takeSeqs(results []exchange.Result) {
	last := uint64(0)
	for i := range results {
		if seq := results[i].Seq; seq != 0 {
			require.Greater(m.t, seq, last)
			require.LessOrEqual(m.t, seq, m.log.Appended())
			last = seq
		}
		results[i].Seq, results[i].Work = 0, 0
	}
}

func (m *market) Recall(ctx context.Context, c *exchange.Command, r *exchange.Result, most int) {
	m.Engine.Recall(ctx, &Request{Command: *c}, r, most)
}

func (m *market) Ready(commands []exchange.Command) int { return m.Engine.Ready(requests(commands...)) }

// ask executes one request.
func (m *market) ask(r Request) exchange.Result {
	results := make([]exchange.Result, 1)
	if _, err := m.Engine.Execute(background, []Request{r}, results); err != nil {
		m.t.Fatal(err)
	}
	m.takeSeqs(results)
	return results[0]
}
