package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"outcry/internal/lab/dialect"
)

// Plain is a load of orders that any server of the protocol accepts: no refs, whole numbers below 2^31,
// and alternating buys and sells of one share at one price, so that books stay small and no account
// trades with itself. During a run replies are only counted and order ids kept; Check queries the orders
// afterwards. Run and Check may be called several times, but not concurrently.
type Plain struct {
	Options
	Rate    int    // orders a second of all connections together; 0 means as many as possible
	Symbols int    // number of symbols traded
	Orders  uint64 // limit for all calls of Run together
	First   uint64 // id of the first account; each connection uses two. Must differ between Plains on one server
	Tag     string // prefix of the symbol names: letters and digits. Must differ between Plains on one server

	OneSymbol bool // each connection trades one of the symbols; otherwise it trades all of them in turn

	sent    atomic.Uint64
	sources []*plainSource // one for each connection
}

// plainRiches is the initial balance of an account in dollars, and its deposit in each symbol in shares.
// A share costs a dollar.
const plainRiches = "1000000000"

// symbol returns the name of symbol n.
func (p *Plain) symbol(n int) string { return p.Tag + strconv.Itoa(n) }

// transactions returns a frame for an account, as the server's habits require it.
func (p *Plain) transactions(account uint64, children string) []byte {
	name := "id"
	if p.Habits.AccountAttribute {
		name = "account"
	}
	return fmt.Appendf(nil, `<transactions %s="%d">%s</transactions>`, name, account, children)
}

// Prepare opens the accounts, which are not removed afterwards, and deposits shares of each symbol in every second
// account. The error says what was rejected, or why there is no reply.
func (p *Plain) Prepare(ctx context.Context) error {
	p.sources = nil
	asks := &asking{Options: &p.Options}
	defer asks.close()
	for n := range p.Connections {
		s := p.newSource(n)
		b := fmt.Appendf(nil, `<create><account id="%d" balance="%s"/><account id="%d" balance="%s"/>`,
			s.buyer, plainRiches, s.seller, plainRiches)
		for i := range p.Symbols {
			b = fmt.Appendf(b, `<symbol sym="%s"><account id="%d">%s</account></symbol>`, p.symbol(i), s.seller, plainRiches)
		}
		root, err := asks.do(ctx, append(b, "</create>"...), 2+p.Symbols)
		if err != nil {
			return fmt.Errorf("load: prepare: %w", err)
		}
		for _, c := range root.Children {
			if c.Name != "created" {
				return fmt.Errorf("load: prepare: an account or symbol is not created: %.200q", c.Text)
			}
		}
		p.sources = append(p.sources, s)
	}
	return nil
}

// Run sends orders for o.Duration and waits for their replies. It returns an error if a connection could not be made
// or broke; the Result, if not nil, then covers the orders answered before that.
func (p *Plain) Run(ctx context.Context) (*Result, error) {
	for _, s := range p.sources {
		s.next = len(s.ids) // unanswered orders of a broken run are not counted
	}
	return p.send(ctx, p.Options, func(n int) Source { return p.sources[n] })
}

// Blank sends the same orders as Run, in the same way, to an echo server at addr, and ignores the
// replies. It returns the errors of Run.
func (p *Plain) Blank(ctx context.Context, addr string) (*Result, error) {
	o := p.Options
	o.Addrs, o.Habits = []string{addr}, dialect.Habits{OneFrame: p.Habits.OneFrame}
	return p.send(ctx, o, func(n int) Source { return blank{p.newSource(n)} })
}

// errPaced means that a server which closes after each reply cannot be used in the open model.
var errPaced = errors.New("load: a server that closes after each reply cannot be measured at a rate")

// send runs the model that the server's habits allow.
func (p *Plain) send(ctx context.Context, o Options, source func(connection int) Source) (*Result, error) {
	switch {
	case p.Habits.OneFrame && p.Rate > 0:
		return nil, errPaced
	case p.Habits.OneFrame:
		return Each(ctx, o, source)
	case p.Rate > 0:
		return Open(ctx, o, p.Rate, source)
	}
	return Closed(ctx, o, source)
}

// plainSource sends the orders of one connection.
type plainSource struct {
	plain         *Plain
	buyer, seller uint64
	frames        [][]byte // order n is frames[n mod len(frames)]; even ones are buys
	next          int      // number of the next order
	ids           []uint64 // order ids by number; 0 if the order was not opened
}

func (p *Plain) newSource(n int) *plainSource {
	s := &plainSource{plain: p, buyer: p.First + uint64(2*n), seller: p.First + uint64(2*n) + 1}
	traded := p.Symbols
	if p.OneSymbol {
		traded = 1
	}
	for i := range traded {
		sym := p.symbol((n + i) % p.Symbols)
		s.frames = append(s.frames,
			p.transactions(s.buyer, fmt.Sprintf(`<order sym="%s" amount="1" limit="1"/>`, sym)),
			p.transactions(s.seller, fmt.Sprintf(`<order sym="%s" amount="-1" limit="1"/>`, sym)))
	}
	return s
}

// Next implements Source.
func (s *plainSource) Next() []byte {
	if s.plain.sent.Add(1) > s.plain.Orders {
		return nil
	}
	frame := s.frames[s.next%len(s.frames)]
	s.next++
	return frame
}

// Reply implements Source.
func (s *plainSource) Reply(xml []byte) error {
	id := openedID(xml)
	s.ids = append(s.ids, id)
	if id == 0 {
		return fmt.Errorf("no order is opened: %.200q", xml)
	}
	return nil
}

// blank is an endless source that accepts any reply.
type blank struct{ *plainSource }

// Next implements Source.
func (b blank) Next() []byte {
	frame := b.frames[b.next%len(b.frames)]
	b.next++
	return frame
}

// Reply implements Source.
func (blank) Reply([]byte) error { return nil }

// openedID returns the id in the first <opened> of a reply, or 0 if the reply has no <opened>.
func openedID(xml []byte) uint64 {
	_, tag, ok := bytes.Cut(xml, []byte("<opened"))
	if end := bytes.IndexByte(tag, '>'); ok && end >= 0 {
		tag = tag[:end]
	}
	for {
		at := bytes.Index(tag, []byte("id="))
		if at < 1 || at+4 >= len(tag) {
			return 0
		}
		before, value := tag[at-1], tag[at+4:]
		if end := bytes.IndexByte(value, tag[at+3]); bytes.IndexByte([]byte(" \t\r\n"), before) >= 0 && end > 0 {
			return number(value[:end])
		}
		tag = tag[at+3:]
	}
}

// number parses digits. It returns 0 if they are not a number below 2^63.
func number(digits []byte) (n uint64) {
	for _, c := range digits {
		if c < '0' || c > '9' || n >= 1<<63/10 {
			return 0
		}
		n = 10*n + uint64(c-'0')
	}
	return n
}

// asking sends queries one at a time over one connection, or over a new connection each if the server
// closes after each reply.
type asking struct {
	*Options
	conn link
}

func (a *asking) close() {
	if a.conn != nil {
		a.conn.Close()
		a.conn = nil
	}
}

// do sends a frame and returns the root of the reply, which must have the given number of children. It
// stops waiting when ctx ends.
func (a *asking) do(ctx context.Context, xml []byte, children int) (*dialect.Element, error) {
	if a.conn == nil {
		made, err := a.dial(ctx, 0)
		if err != nil {
			return nil, err
		}
		a.conn = made
	}
	conn := a.conn
	_ = conn.SetDeadline(time.Now().Add(replyTimeout)) // a failure shows in the next read or write
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	conn.SendFrame(xml)
	if err := conn.Flush(); err != nil {
		return nil, err
	}
	reply, err := conn.NextReply()
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	root, err := dialect.ParseDoc(string(reply))
	switch {
	case err != nil:
		return nil, err
	case len(root.Children) != children:
		return nil, fmt.Errorf("the reply to a frame of %d elements has %d: %.200q", children, len(root.Children), reply)
	}
	if a.Habits.OneFrame {
		a.close()
	}
	return root, nil
}

// HasRefs reports whether the server supports refs: opening an account twice with the same ref must
// succeed with the same answer. The account is not removed. It returns an error if there is no reply.
func HasRefs(ctx context.Context, o Options, account string) (bool, error) {
	asks := &asking{Options: &o}
	defer asks.close()
	once := fmt.Sprintf(`<account id="%s" balance="0" ref="bench"/>`, account)
	root, err := asks.do(ctx, []byte("<create>"+once+once+"</create>"), 2)
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(root.Children, func(c *dialect.Element) bool { return c.Name != "created" }), nil
}
