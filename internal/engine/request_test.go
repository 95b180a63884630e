package engine

import (
	"context"

	"outcry/internal/exchange"
)

// requests returns commands as clients ask for them on no special terms.
func requests(commands ...exchange.Command) []Request {
	asked := make([]Request, len(commands))
	for i := range commands {
		asked[i].Command = commands[i]
	}
	return asked
}

// Execute, Recall and Ready are the engine's for such commands.
func (m *market) Execute(ctx context.Context, commands []exchange.Command, results []exchange.Result) (Mark, error) {
	return m.Engine.Execute(ctx, requests(commands...), results)
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
	return results[0]
}
