package script

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"outcry/internal/lab/dialect"
)

// Bounds of a conversation.
const (
	atOnceMax    = 256                   // connections of at-once
	writePause   = 20 * time.Millisecond // pause between two writes of one frame, so that they arrive separately
	sleepMax     = 5 * time.Second       // argument of sleep
	writesMax    = 100                   // argument of writes
	togetherMax  = 100                   // argument of together
	partsMax     = 16                    // values of parts
	connNumMax   = 64                    // connection number at the start of a line
	bodyBytesMax = 4 << 20               // bytes of a line with its repetitions expanded
)

// play is one conversation with a server: a case or one of its parts, played once. It is used by one
// goroutine.
type play struct {
	*Player
	c        *Case
	part     string            // value of {part}
	orderly  bool              // connections that would act at once act one after another
	names    map[string]string // values of {b} and {S} in this play
	vars     map[string]string // values of the $ names
	orders   map[string]string // by order id, a description of the order
	channels map[int]*channel
	strict   bool // connections ignore Habits.OneFrame and ErrorCloses
	trace    trace
	ledger   ledger
	left     time.Duration // remaining time of the case
}

// channel is a numbered connection of a case.
type channel struct {
	conn   *dialect.Conn
	owed   []owed // frames without a reply yet, oldest first
	pieces int    // number of writes for the next frame; 0 means one
	hold   int    // number of frames to collect before all are sent together; 0 means none
	held   []byte
}

// owed is a frame without a reply.
type owed struct {
	doc  string // empty if the frame was sent as bytes
	turn int    // number of the frame in the trace
}

// wrong is an error: the server did not do what the case requires.
type wrong struct{ message string } // message is a sentence or two for the author of the server

func (w *wrong) Error() string { return w.message }

// wrongf returns a *wrong with a formatted message.
func wrongf(format string, args ...any) *wrong { return &wrong{fmt.Sprintf(format, args...)} }

// skipped is an error: the case cannot be tried.
type skipped struct{ why string }

func (s *skipped) Error() string { return s.why }

// newPlay returns a play of a case, with no names used and nothing sent.
func (p *Player) newPlay(c *Case, part string, orderly bool) *play {
	return &play{Player: p, c: c, part: part, orderly: orderly, names: map[string]string{},
		vars: map[string]string{}, orders: map[string]string{}, channels: map[int]*channel{}, left: c.Time}
}

// rng returns a random number generator that depends only on the seed and stream.
func (p *play) rng(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(p.Seed, stream)) }

// Account returns an unused account id: digits, below 2^31, since some servers parse ids as numbers. Each
// of 10^5 salts has 10^4 accounts; a run that needs more uses those of the next salt.
func (p *Player) Account() string {
	p.fresh++
	return strconv.Itoa(1_000_000_000 + p.salt(100_000)*10_000 + p.fresh%100_000_000)
}

// Symbol returns an unused symbol: at most 8 capital letters, which every server accepts.
func (p *Player) Symbol() string {
	p.fresh++
	var letters []byte
	for n := p.salt(100_000)*10_000 + p.fresh; n > 0; n /= 26 {
		letters = append(letters, byte('A'+n%26))
	}
	return "S" + string(letters)
}

// salt returns the digits of Salt as a number, modulo below.
func (p *Player) salt(below int) int {
	n := 0
	for _, digit := range p.Salt {
		if '0' <= digit && digit <= '9' {
			n = (n*10 + int(digit-'0')) % below
		}
	}
	return n
}

// name returns the value of {name} in this play, an account or a symbol; the first use makes it.
func (p *play) name(name string) string {
	if p.names[name] == "" {
		if isSymbolName(name) {
			p.names[name] = p.Symbol()
		} else {
			p.names[name] = p.Account()
		}
	}
	return p.names[name]
}

// dial returns a new connection. The error is a *dialect.Broken.
func (p *play) dial(ctx context.Context) (*dialect.Conn, error) {
	conn, err := p.Dialer.Dial(ctx)
	if err == nil && p.strict {
		conn.Strict()
	}
	return conn, err
}

// channel returns connection n, and dials it if it is not open.
func (p *play) channel(ctx context.Context, n int) (*channel, error) {
	ch := p.channels[n]
	if ch == nil {
		ch = &channel{}
		p.channels[n] = ch
	}
	if ch.conn != nil {
		return ch, nil
	}
	conn, err := p.dial(ctx)
	if err != nil {
		return ch, err
	}
	ch.conn = conn
	return ch, nil
}

// send sends a document on connection n.
func (p *play) send(ctx context.Context, n int, doc string) error {
	turn := p.trace.sent(n, "", doc)
	ch, err := p.channel(ctx, n)
	if err != nil {
		return err
	}
	ch.owed = append(ch.owed, owed{doc, turn})
	if p.Habits.OneFrame && !p.strict { // each frame has its own connection, so none can be sent together
		ch.hold = 0
	}
	if ch.pieces == 0 && ch.hold == 0 {
		return ch.conn.Send(ctx, doc)
	}
	return ch.write(ctx, p.Habits.Frame(doc))
}

// write sends bytes in ch.pieces writes, or holds them back until it has all ch.hold frames.
func (ch *channel) write(ctx context.Context, b []byte) error {
	ch.held = append(ch.held, b...)
	if ch.hold > 1 {
		ch.hold--
		return nil
	}
	b, pieces := ch.held, max(ch.pieces, 1)
	ch.hold, ch.pieces, ch.held = 0, 0, nil
	for i := range pieces {
		if i > 0 {
			if err := pause(ctx, writePause); err != nil {
				return err
			}
		}
		if err := ch.conn.SendRaw(ctx, b[len(b)*i/pieces:len(b)*(i+1)/pieces]); err != nil {
			return err
		}
	}
	return nil
}

// receive returns the next reply on connection n, and the frame that it answers. The error is a *dialect.Broken.
func (p *play) receive(ctx context.Context, n int) (*dialect.Reply, owed, error) {
	from := owed{turn: p.trace.turn}
	ch, err := p.channel(ctx, n)
	if err != nil {
		return nil, from, err
	}
	if len(ch.owed) > 0 {
		from, ch.owed = ch.owed[0], ch.owed[1:]
	}
	reply, err := ch.conn.Receive(ctx)
	if err != nil {
		return nil, from, err
	}
	p.trace.got(n, from.turn, reply.Raw)
	p.recordReply(from.doc, reply)
	return reply, from, nil
}

// do sends a document on connection 1 and returns its reply. No earlier reply may be outstanding. The
// error is a *dialect.Broken.
func (p *play) do(ctx context.Context, doc string) (*dialect.Reply, error) {
	if err := p.send(ctx, 1, doc); err != nil {
		return nil, err
	}
	reply, _, err := p.receive(ctx, 1)
	return reply, err
}

// ask sends a document on connection 1, and compares its reply with wanted. Both are written as in a
// case. The error is a *wrong or a *dialect.Broken.
func (p *play) ask(ctx context.Context, text, wanted string) error {
	doc, err := p.expander("").expand(text)
	if err != nil {
		return err
	}
	if err := p.send(ctx, 1, doc); err != nil {
		return err
	}
	return p.expect(ctx, 1, wanted)
}

// kill kills the server and starts it again. Connections are closed, and dialed when they are next used.
// The error is a *skipped if the server cannot be killed, and a *wrong if it does not start.
func (p *play) kill(ctx context.Context) error {
	if p.Kill == nil {
		return cannotKill
	}
	p.close()
	p.trace.add(0, ">", 1, "the server is killed, and started again", "")
	if err := p.Kill(ctx); err != nil {
		return wrongf("After it was killed, the server did not start again: %v", err)
	}
	return nil
}

// close closes all connections.
func (p *play) close() {
	for _, ch := range p.channels {
		if ch.conn != nil {
			ch.conn.Close()
		}
	}
	p.channels = map[int]*channel{}
}

// pause waits for d. The error is that of ctx, if it ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
