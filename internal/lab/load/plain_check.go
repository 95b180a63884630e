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
	plainAskedMax = 10_000 // orders, spread over all
	plainAtOnce   = 10     // in one frame
	plainAskTime  = time.Minute
)

// Checked is what asking for the orders of a Plain came to.
type Checked struct {
	Opened  uint64 // orders that the server has said to be open
	Doubled uint64 // of those, that got a number which another one had
	Asked   uint64
	Lost    uint64 // of those asked for, that are not there
	Wrong   uint64 // of those asked for, that are not of one share, open or executed
	Example string // of what is lost, wrong or doubled; "" if nothing is
}

// OK reports whether nothing is lost, wrong or doubled.
func (c *Checked) OK() bool { return c.Lost+c.Wrong+c.Doubled == 0 }

// Check compares the numbers of all orders that were opened, and asks for up to 10,000 of them, each of
// which must be there with its one share. It takes a minute at the most. The error says that the server
// does not answer.
func (p *Plain) Check(ctx context.Context) (*Checked, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, plainAskTime,
		fmt.Errorf("the orders could not be asked for within %s", plainAskTime))
	defer cancel()
	c := new(Checked)
	c.compare(p.sources)
	asks := &asking{Options: &p.Options}
	defer asks.close()
	for _, s := range p.sources {
		for side, account := range []uint64{s.buyer, s.seller} {
			for ids := range slices.Chunk(s.some(side, plainAskedMax/(2*len(p.sources))+1), plainAtOnce) {
				if err := p.ask(ctx, asks, c, account, ids); err != nil {
					return c, fmt.Errorf("load: ask for orders: %w", err)
				}
			}
		}
	}
	return c, nil
}

// compare counts the orders, and those whose number another one has.
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

// some returns the numbers of up to most orders of a side, 0 buys and 1 sells, evenly from all of it.
func (s *plainSource) some(side, most int) (ids []uint64) {
	step := 2 * max(1, (len(s.ids)+2*most-1)/(2*most))
	for i := side; i < len(s.ids); i += step {
		if s.ids[i] != 0 {
			ids = append(ids, s.ids[i])
		}
	}
	return ids
}

// ask asks for a few orders of an account.
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
			c.Example = fmt.Sprintf("order %d was opened, and now: %.200q", ids[i], status.Text)
		case shares != 1:
			c.Wrong++
			c.Example = fmt.Sprintf("order %d of 1 share has %v, open and executed", ids[i], shares)
		}
	}
	return nil
}

// sharesOf adds up what is open of an order and what is executed.
func sharesOf(status *dialect.Element) (sum float64) {
	for _, part := range status.Children {
		if part.Name == "open" || part.Name == "executed" {
			text, _ := part.Attr("shares")
			n, _ := strconv.ParseFloat(text, 64) // 0 is wrong as well
			sum += math.Abs(n)
		}
	}
	return sum
}
