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
	writePause   = 20 * time.Millisecond // between two writes of one frame, so that they arrive apart
	sleepMax     = 5 * time.Second       // of sleep
	writesMax    = 100                   // of writes
	togetherMax  = 100                   // of together
	partsMax     = 16                    // of parts
	connNumMax   = 64                    // the number in front of a line
	bodyBytesMax = 4 << 20               // of a line when its repetitions are written out
)

// play is one conversation with a server: one playing of a case, or one part of it. It is used by
// one goroutine.
type play struct {
	*Player
	c        *Case
	part     string            // {part}
	orderly  bool              // what is at once is done one after another
	names    map[string]string // of {b} and {S}: what they are in this play
	vars     map[string]string // of $1
	orders   map[string]string // what each order is, in words
	channels map[int]*channel
	strict   bool // connections are made without regard for Habits.OneFrame and ErrorCloses
	trace    trace
	ledger   ledger
	left     time.Duration // of the case's time
}

// channel is a connection that a case numbers.
type channel struct {
	conn   *dialect.Conn
	owed   []owed // frames without a reply so far, oldest first
	pieces int    // the next frame is sent in so many writes; 0 is one
	hold   int    // so many frames are still to come until all that is held is sent
	held   []byte
}

// owed is a frame without a reply.
type owed struct {
	doc  string // empty if it was sent as bytes
	turn int    // its number in the trace
}

// wrong says that the server did not do what the case wants.
type wrong struct{ message string } // a sentence or two for the author of the server

func (w *wrong) Error() string { return w.message }

// wrongf returns a *wrong of a message.
func wrongf(format string, args ...any) *wrong { return &wrong{fmt.Sprintf(format, args...)} }

// skipped says why a case cannot be tried.
type skipped struct{ why string }

func (s *skipped) Error() string { return s.why }

// newPlay returns a play of a case, with its own names, and nothing sent.
func (p *Player) newPlay(c *Case, part string, orderly bool) *play {
	return &play{Player: p, c: c, part: part, orderly: orderly, names: map[string]string{},
		vars: map[string]string{}, orders: map[string]string{}, channels: map[int]*channel{}, left: c.Time}
}

// rng returns random numbers that are the same for the same seed and case.
func (p *play) rng(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(p.Seed, stream)) }

// Account returns an account id that nobody has used: digits, below 2^31, since some servers read
// ids as numbers. 10^5 salts have 10^4 accounts each; one that needs more takes those of the next.
func (p *Player) Account() string {
	p.fresh++
	return strconv.Itoa(1_000_000_000 + p.salt(100_000)*10_000 + p.fresh%100_000_000)
}

// Symbol returns a symbol that nobody has used: at most 8 capital letters, which every server takes.
func (p *Player) Symbol() string {
	p.fresh++
	var letters []byte
	for n := p.salt(100_000)*10_000 + p.fresh; n > 0; n /= 26 {
		letters = append(letters, byte('A'+n%26))
	}
	return "S" + string(letters)
}

// salt returns the last digits of Salt.
func (p *Player) salt(below int) int {
	n := 0
	for _, digit := range p.Salt {
		if '0' <= digit && digit <= '9' {
			n = (n*10 + int(digit-'0')) % below
		}
	}
	return n
}

// name returns what {name} is in this play: an account or a symbol, made when it is first asked for.
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

// dial returns a new connection.
func (p *play) dial(ctx context.Context) (*dialect.Conn, error) {
	conn, err := p.Dialer.Dial(ctx)
	if err == nil && p.strict {
		conn.Strict()
	}
	return conn, err
}

// channel returns the connection with a number, and makes it if it is new.
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
	if p.Habits.OneFrame && !p.strict { // each frame has its own connection
		ch.hold = 0
	}
	if ch.pieces == 0 && ch.hold == 0 {
		return ch.conn.Send(ctx, doc)
	}
	return ch.write(ctx, p.Habits.Frame(doc))
}

// write sends bytes in as many writes as were asked for, or holds them back until all that belong
// together are there.
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

// receive returns the next reply on connection n, and what it answers. The error is a *dialect.Broken.
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
	p.note(from.doc, reply)
	return reply, from, nil
}

// do sends a document on connection 1 and returns its reply. Every reply before it has to be received.
// The error is a *dialect.Broken.
func (p *play) do(ctx context.Context, doc string) (*dialect.Reply, error) {
	if err := p.send(ctx, 1, doc); err != nil {
		return nil, err
	}
	reply, _, err := p.receive(ctx, 1)
	return reply, err
}

// ask sends a document on connection 1, and compares its reply with what is wanted of it. Both are
// written as in a case. The error is a *wrong or a *dialect.Broken.
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

// kill kills the server and starts it again. Connections are made anew when they are next used. The
// error is a *skipped if it cannot be killed, and a *wrong if it does not start.
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

// pause waits. The error is ctx's.
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
