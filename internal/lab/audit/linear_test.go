package audit

import (
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

func op(from, to int64, in input, out output) porcupine.Operation {
	return porcupine.Operation{Input: in, Output: out, Call: from, Return: to}
}

func TestLinearizability(t *testing.T) {
	sell, buy := input{kind: place, amount: -3, limit: 10}, input{kind: place, amount: 2, limit: 11}
	ask := func(id uint64) input { return input{kind: query, id: id} }
	fills := []trade{{2, 10}}
	for _, c := range []struct {
		name    string
		history []porcupine.Operation
		want    bool
	}{
		{"one after another", []porcupine.Operation{
			op(1, 2, sell, output{id: 1}), op(3, 4, buy, output{id: 2}),
			op(5, 6, ask(1), output{open: 1, fills: fills}), op(7, 8, ask(2), output{fills: fills}),
		}, true},
		{"a query at the same time may see either", []porcupine.Operation{
			op(1, 2, sell, output{id: 1}), op(3, 9, buy, output{id: 2}),
			op(4, 5, ask(1), output{open: 3}), op(6, 7, ask(1), output{open: 1, fills: fills}),
		}, true},
		{"a query after the answer does not see the execution", []porcupine.Operation{
			op(1, 2, sell, output{id: 1}), op(3, 4, buy, output{id: 2}), op(5, 6, ask(1), output{open: 3}),
		}, false},
		{"time goes back", []porcupine.Operation{
			op(1, 2, sell, output{id: 1}), op(3, 9, buy, output{id: 2}),
			op(4, 5, ask(1), output{open: 1, fills: fills}), op(6, 7, ask(1), output{open: 3}),
		}, false},
		{"an earlier order has the later id", []porcupine.Operation{op(1, 2, sell, output{id: 2}),
			op(3, 4, buy, output{id: 1})}, false},
		{"executed at its own limit, not at the resting one", []porcupine.Operation{
			op(1, 2, sell, output{id: 1}), op(3, 4, buy, output{id: 2}), op(5, 6, ask(2), output{fills: []trade{{2, 11}}}),
		}, false},
		{"canceled, and executed later", []porcupine.Operation{
			op(1, 2, sell, output{id: 1}), op(3, 4, input{kind: cancel, id: 1}, output{id: 1, canceled: 3}),
			op(5, 6, buy, output{id: 2}), op(7, 8, ask(2), output{fills: fills}),
		}, false},
		{"canceled in time", []porcupine.Operation{
			op(1, 2, sell, output{id: 1}), op(3, 6, input{kind: cancel, id: 1}, output{id: 1, canceled: 3}),
			op(4, 7, buy, output{id: 2}), op(8, 9, ask(2), output{open: 2}),
		}, true},
		{"a cancel is refused while the order is open", []porcupine.Operation{
			op(1, 2, sell, output{id: 1}), op(3, 4, input{kind: cancel, id: 1}, output{refused: true}),
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, porcupine.CheckOperations(linearModel, c.history))
		})
	}
}

func TestDecimals(t *testing.T) {
	for v, text := range map[int64]string{0: "0", 1: "0.00000001", -unit: "-1", 150 * unit / 100: "1.5",
		12*unit + 10: "12.0000001"} {
		require.Equal(t, text, decimal(v))
		require.Equal(t, v, hundredMillionths(text))
	}
	require.Zero(t, hundredMillionths(""))
	for _, text := range []string{"x", "0.000000001", "100000000000000"} {
		require.EqualValues(t, -1, hundredMillionths(text), text)
	}
	require.Equal(t, "order # has nothing; account # has #", kindOf("order 12 has nothing; account 7 has 3.25"))
}
