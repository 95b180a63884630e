package load

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"outcry/internal/lab/dialect"
)

// Bounds of Plain.Check.
const (
	plainAskedMax = 10_000 // orders queried, spread evenly over all orders
	plainAtOnce   = 10     // orders in one frame
	plainAskTime  = time.Minute
)

// Checked is the outcome of Plain.Check.
type Checked struct {
	Opened  uint64 // orders that the server reported as open
	Doubled uint64 // orders that got an id which another order had already
	Asked   uint64
	Lost    uint64 // queried orders that do not exist
	Wrong   uint64 // queried orders that are not of one share, open or executed
	Example string // describes one lost, wrong or doubled order, or is ""
}

// OK reports whether no order is lost, wrong or doubled.
func (c *Checked) OK() bool { return c.Lost+c.Wrong+c.Doubled == 0 }

// Check looks for duplicate ids among all opened orders, and queries up to 10,000 of them, which must
// each exist with their one share. It takes at most a minute. It returns an error if the server does not
// answer.
func (p *Plain) Check(ctx context.Context) (*Checked, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, plainAskTime,
		fmt.Errorf("the orders could not be queried within %s", plainAskTime))
	defer cancel()
	c := new(Checked)
	c.compare(p.sources)
	asks := &asking{Options: &p.Options}
	defer asks.close()
	for _, s := range p.sources {
		for side, account := range []uint64{s.buyer, s.seller} {
			for ids := range slices.Chunk(s.some(side, plainAskedMax/(2*len(p.sources))+1), plainAtOnce) {
				if err := p.ask(ctx, asks, c, account, ids); err != nil {
					return c, fmt.Errorf("load: query orders: %w", err)
				}
			}
		}
	}
	return c, nil
}

// compare counts the orders, and those with a duplicate id.
func (c *Checked) compare(sources []*plainSource) {
	var all []uint64
	for _, s := range sources {
		all = append(all, s.ids...)
	}
	all = slices.DeleteFunc(all, func(id uint64) bool { return id == 0 })
	slices.Sort(all)
	c.Opened = uint64(len(all))
	for i := 1; i < len(all); i++ {
		if all[i] == all[i-1] {
			c.Doubled++
			c.Example = fmt.Sprintf("two orders were given the number %d", all[i])
		}
	}
}

// some returns up to most order ids of a side (0 for buys, 1 for sells), spread evenly.
func (s *plainSource) some(side, most int) (ids []uint64) {
	step := 2 * max(1, (len(s.ids)+2*most-1)/(2*most))
	for i := side; i < len(s.ids); i += step {
		if s.ids[i] != 0 {
			ids = append(ids, s.ids[i])
		}
	}
	return ids
}

// ask queries a few orders of an account and records the answers in c.
func (p *Plain) ask(ctx context.Context, asks *asking, c *Checked, account uint64, ids []uint64) error {
	var b strings.Builder
	for _, id := range ids {
		fmt.Fprintf(&b, `<query id="%d"/>`, id)
	}
	root, err := asks.do(ctx, p.transactions(account, b.String()), len(ids))
	if err != nil {
		return err
	}
	for i, status := range root.Children {
		c.Asked++
		switch shares := sharesOf(status); {
		case status.Name != "status":
			c.Lost++
			c.Example = fmt.Sprintf("order %d was opened, but is now answered with: %.200q", ids[i], status.Text)
		case shares != 1:
			c.Wrong++
			c.Example = fmt.Sprintf("order %d of 1 share has %v, open and executed", ids[i], shares)
		}
	}
	return nil
}

// sharesOf adds the open and the executed shares of an order.
func sharesOf(status *dialect.Element) (sum float64) {
	for _, part := range status.Children {
		if part.Name == "open" || part.Name == "executed" {
			text, _ := part.Attr("shares")
			n, _ := strconv.ParseFloat(text, 64) // 0 is wrong, too
			sum += math.Abs(n)
		}
	}
	return sum
}
