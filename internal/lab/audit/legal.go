package audit

import (
	"time"

	"github.com/anishathalye/porcupine"
)

// LegalOp is a command for one symbol and its answer. Numbers are whole. An Amount above 0 is a buy,
// below 0 a sell; a command without an Amount is a query or a cancel.
type LegalOp struct {
	Client                   int
	Sent, Answered           int64 // times of one clock; Sent is before Answered
	ID                       uint64
	Amount, Limit            int64
	Cancel                   bool
	Refused                  bool
	Open, Canceled, Executed int64 // shares in the answer to a query or a cancel
}

// Legal reports whether the commands are linearizable: whether some order of them, each at one moment
// between sending and answer, gives these answers in a plain book. Ids need not rise, since a server may
// number orders before it accepts them, and only the shares of executions are compared, since prices are
// checked elsewhere. known is false if there was no result within the given time.
func Legal(ops []LegalOp, within time.Duration) (legal, known bool) {
	history, most := make([]porcupine.Operation, len(ops)), map[uint64]int64{}
	for i, o := range ops {
		in, out := input{kind: query, amount: o.Amount, limit: o.Limit, id: o.ID},
			output{refused: o.Refused, id: o.ID, open: o.Open, canceled: o.Canceled}
		switch {
		case o.Amount != 0:
			in.kind = place
		case o.Cancel:
			in.kind = cancel
		}
		if o.Amount == 0 && !o.Refused {
			most[o.ID] = max(most[o.ID], o.Executed)
		}
		if o.Executed > 0 {
			out.fills = []trade{{shares: o.Executed}}
		}
		history[i] = porcupine.Operation{ClientId: o.Client, Input: in, Output: out, Call: o.Sent, Return: o.Answered}
	}
	result := porcupine.CheckOperationsTimeout(linearModelOf(agreement{most: most}), history, within)
	return result == porcupine.Ok, result != porcupine.Unknown
}
