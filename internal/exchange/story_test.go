package exchange

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write what came out into the stories of testdata")

// TestStories runs testdata/*.txt: each line has a command and, after an arrow,
// its result. The state is audited after every line; at the end a replay of the events
// must lead to the same state. -update rewrites the results after the arrows; review
// them like code.
func TestStories(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			got := playStory(t, string(want))
			if *update {
				require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
			}
			require.Equal(t, string(want), got)
		})
	}
}

// playStory runs a story and returns it with the actual results.
func playStory(t *testing.T, story string) string {
	d := newShard()
	var b strings.Builder
	for line := range strings.Lines(story) {
		command, _, _ := strings.Cut(strings.TrimSpace(line), "->")
		command = strings.TrimSpace(command)
		if command == "" || command[0] == '#' {
			b.WriteString(line)
			continue
		}
		result, err := d.playLine(strings.Fields(command))
		if err != nil {
			result = "refused: " + err.Error()
		}
		fmt.Fprintf(&b, "%-40s -> %s\n", command, result)
		require.NoError(t, d.Audit(), "after %q", command)
	}
	again := NewState()
	for i := range d.events {
		require.NoError(t, again.Apply(&d.events[i]))
	}
	require.Equal(t, dump(d.State), dump(again))
	return b.String()
}

// playLine executes one line of a story. An error is a mistake of the client.
func (d *shard) playLine(w []string) (string, error) {
	switch form := w[0] + fmt.Sprint(len(w)-1); form {
	case "clock1": // clock SECONDS
		_, err := fmt.Sscan(w[1], &d.now)
		d.now *= Second
		return "ok", err
	case "open2": // open ACCOUNT BALANCE
		balance, err := ParseBalance(w[2])
		if err != nil {
			return "", err
		}
		return d.open(AccountID(w[1]), balance).String(), nil
	case "make1": // make SYMBOL
		d.list(Symbol(w[1]))
		return "ok", nil
	case "place3": // place SYMBOL ACCOUNT SHARES
		p, err := ParseDeposit(w[3])
		if err != nil {
			return "", err
		}
		return d.place(Symbol(w[1]), AccountID(w[2]), p).String(), nil
	case "buy5", "sell5": // buy ACCOUNT SYMBOL SHARES @ LIMIT
		return d.playOrder(w)
	case "cancel2", "query1": // cancel ACCOUNT #ORDER, query #ORDER
		return d.playOrderStatus(w)
	case "halt2": // halt SYMBOL REASON
		return d.halt(Symbol(w[1]), w[2]).String(), nil
	case "resume1": // resume SYMBOL
		return d.resume(Symbol(w[1])).String(), nil
	case "cancelall1": // cancelall ACCOUNT
		return formatCancels(d.cancelAll(AccountID(w[1]), "QQQ", "SPY"))
	case "cancelall2": // cancelall ACCOUNT SYMBOL
		return formatCancels(d.cancelAll(AccountID(w[1]), Symbol(w[2])))
	case "account1": // account ACCOUNT
		return d.formatAccount(AccountID(w[1])), nil
	case "book1": // book SYMBOL
		return formatBook(d.Books[Symbol(w[1])]), nil
	}
	panic(fmt.Sprintf("no command of a story: %q", w)) // a mistake in the story, not of the client
}

func (d *shard) playOrder(w []string) (string, error) {
	_, n, err := ParseAmount(w[3])
	if err != nil {
		return "", err
	}
	limit, err := ParseLimit(w[5])
	if err != nil {
		return "", err
	}
	side := Buy
	if w[0] == "sell" {
		side = Sell
	}
	o, fills, r := d.order(AccountID(w[1]), Symbol(w[2]), side, n, limit)
	if r != OK {
		return r.String(), nil
	}
	result := fmt.Sprintf("accepted #%d", o.ID)
	for _, f := range fills {
		result += fmt.Sprintf("; filled %s @ %s with #%d", f.Shares, f.Price, f.Resting)
	}
	return result, nil
}

func (d *shard) playOrderStatus(w []string) (string, error) {
	id, err := ParseOrderID(strings.TrimPrefix(w[len(w)-1], "#"))
	if err != nil {
		return "", err
	}
	o, in := d.find(id)
	if in == "" {
		return UnknownOrder.String(), nil
	}
	if w[0] == "cancel" {
		var r RejectReason
		if o, r = d.cancel(AccountID(w[1]), in, id); r != OK {
			return r.String(), nil
		}
	}
	s := o.Status()
	var result []string
	if s.Open > 0 {
		result = append(result, fmt.Sprintf("open %s", s.Open))
	}
	if s.Canceled > 0 {
		result = append(result, fmt.Sprintf("canceled %s at %d", s.Canceled, Seconds(s.CanceledAt)))
	}
	for _, e := range s.Executions {
		result = append(result, fmt.Sprintf("executed %s @ %s at %d", e.Shares, e.Price, Seconds(e.Time)))
	}
	return strings.Join(result, "; "), nil
}

func formatCancels(cancels []Cancel, r RejectReason) (string, error) {
	if r != OK {
		return r.String(), nil
	}
	result := []string{"canceled"}
	for _, c := range cancels {
		result = append(result, fmt.Sprintf("#%d %s %s", c.Order, c.Shares, c.Symbol))
	}
	return strings.Join(result, " "), nil
}

func (d *shard) formatAccount(id AccountID) string {
	a := d.Ledger.Account(id)
	if a == nil {
		return UnknownAccount.String()
	}
	free, held := a.Balance()
	result := fmt.Sprintf("cash %s held %s", free, held)
	for _, s := range []Symbol{"QQQ", "SPY"} { // all symbols used in stories
		if in := d.Ledger.Instrument(s); in != nil && in.positions[a] != nil {
			free, held := in.Position(a)
			result += fmt.Sprintf("; %s %s held %s", s, free, held)
		}
	}
	return result
}

// formatBook prints the price levels of a book, best first, with the orders at each.
func formatBook(b *Book) string {
	if b == nil {
		return UnknownSymbol.String()
	}
	var result []string
	for _, side := range []Side{Buy, Sell} {
		for price, at := range b.side(side).all() {
			open, orders := Shares(0), ""
			for n := range b.at(b.side(side).level(at)) {
				open += n.left
				orders += fmt.Sprintf(" #%d", n.id)
			}
			result = append(result, fmt.Sprintf("%s %s @ %s%s", side, open, price, orders))
		}
	}
	if len(result) == 0 {
		return "empty"
	}
	return strings.Join(result, "; ")
}
