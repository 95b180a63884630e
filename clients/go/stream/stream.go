package stream

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// Options say how a stream connects. The zero value of each field means its default.
type Options struct {
	TLS           *tls.Config   // encrypts the connection; nil means that it is not
	Token         string        // says who asks; "" is no token
	InsecureToken bool          // lets the token go to another machine without TLS; else client.ErrInsecureToken
	DialTimeout   time.Duration // of one try to connect; 10 seconds
	Silence       time.Duration // without a message or a ping, after which a connection is taken for lost; 45 seconds
	PauseMin      time.Duration // before the first try to connect again, doubled for each further one; 50 milliseconds
	PauseMax      time.Duration // but no longer than this; 2 seconds
}

const (
	// messageBytesMax is the largest message; the exchange sends none that is larger.
	messageBytesMax = 1 << 20
	// queueMax is how many updates may come before the result of a Call.
	queueMax = 100_000
	// subscribeMax is how many channels one request names.
	subscribeMax = 100
	// codeCannotNow is the class of refusals that pass by themselves.
	codeCannotNow = 1002
	// statusToken is the close code of a token that is wrong, has ended or was revoked.
	statusToken websocket.StatusCode = 4001
)

var (
	// ErrClosed says that the stream is closed.
	ErrClosed = errors.New("stream: closed")
	// ErrUnauthorized is wrapped where the exchange does not take the token.
	ErrUnauthorized = errors.New("stream: the token is not taken")
	// ErrLost is wrapped where the connection ended before a result: the request was done whole or
	// not at all.
	ErrLost = errors.New("stream: the connection was lost")
	// ErrProtocol is wrapped where what came is not of the protocol. The connection was given up.
	ErrProtocol = errors.New("stream: what came is not of the protocol")
)

// Refused is a request that the exchange refused. As things stood, nothing was done.
type Refused struct {
	Code   int    // the class of the reason
	Reason string // for programs; it never changes
	Text   string // for people
}

// Error returns the text.
func (r *Refused) Error() string { return "stream: refused: " + r.Text }

// Stats count what a stream had to do again.
type Stats struct {
	Lost     int // connections that were lost
	Restarts int // channels that began anew since their chain or checksum did not fit
	// Why says what did not fit the last time, for people.
	Why string
}

// Stream is a reader of channels. Its methods are for one goroutine; only Close may be called from
// any. A context that ends while a method reads costs the connection, which the next call makes again.
type Stream struct {
	options   Options
	addresses []string // next one first
	conn      *conn    // nil: there is none
	nextID    uint64
	queue     []*Update
	channels  map[string]*channel
	stats     Stats
	closed    context.Context
	close     context.CancelFunc
}

// Dial connects to an exchange's HTTP address, or, of several with commas between them, to the first that
// takes the connection. The error is of the last one.
func Dial(ctx context.Context, addresses string, o Options) (*Stream, error) {
	o.DialTimeout = cmp.Or(o.DialTimeout, 10*time.Second)
	o.Silence = cmp.Or(o.Silence, 45*time.Second)
	o.PauseMin, o.PauseMax = cmp.Or(o.PauseMin, 50*time.Millisecond), cmp.Or(o.PauseMax, 2*time.Second)
	s := &Stream{options: o, addresses: strings.Split(addresses, ","), channels: map[string]*channel{}}
	s.closed, s.close = context.WithCancel(context.Background())
	var err error
	for range s.addresses {
		if s.conn, err = dial(ctx, s.closed, s.addresses[0], &s.options); err == nil {
			return s, nil
		}
		s.rotate()
	}
	s.close()
	return nil, err
}

// Close ends the stream. A method that is under way returns ErrClosed, if it is not done.
func (s *Stream) Close() { s.close() }

// Stats returns what was done again so far.
func (s *Stream) Stats() Stats { return s.stats }

// Book returns the present book of a subscribed channel, nil if there is none.
func (s *Stream) Book(name string) *Book {
	if c := s.channels[name]; c != nil {
		return c.book
	}
	return nil
}

// Subscribe adds channels, each once. What they send comes from Next. An error is a *Refused, and then none
// is added; or that of Call.
func (s *Stream) Subscribe(ctx context.Context, names ...string) error {
	for _, name := range names {
		s.channels[name] = newChannel(name)
	}
	return s.add(ctx, map[string]any{"channels": names}, names...)
}

// SubscribeAfter adds the private channel of an account, whose last known events and fills have these numbers:
// what followed comes from Next. If the exchange keeps too few events, a snapshot comes instead.
func (s *Stream) SubscribeAfter(ctx context.Context, account string, n, lastFill uint64) error {
	c := newChannel("account." + account)
	c.known, c.n, c.lastFill = true, n, lastFill
	s.channels[c.name] = c
	return s.add(ctx, c.params(), c.name)
}

// add subscribes to channels, which are forgotten on an error.
func (s *Stream) add(ctx context.Context, params map[string]any, names ...string) error {
	err := s.Call(ctx, "subscribe", params, nil)
	for _, name := range names {
		if err != nil {
			delete(s.channels, name)
		} else {
			s.channels[name].answered()
		}
	}
	return err
}

// start has channels begin anew that were added, on the connection that there is.
func (s *Stream) start(ctx context.Context, params map[string]any, names ...string) error {
	for _, name := range names {
		s.channels[name].begin()
	}
	err := s.ask(ctx, "subscribe", params, nil)
	if err == nil {
		for _, name := range names {
			s.channels[name].answered()
		}
	}
	return err
}

// Unsubscribe ends channels. Updates that are here already may still come.
func (s *Stream) Unsubscribe(ctx context.Context, names ...string) error {
	for _, name := range names {
		delete(s.channels, name)
	}
	return s.Call(ctx, "unsubscribe", map[string]any{"channels": names}, nil)
}

// Call sends a request and waits for its result, which it decodes unless result is nil. An error is a
// *Refused; or wraps ErrLost, after which it may have been done; or is of a connection that could not be made.
func (s *Stream) Call(ctx context.Context, method string, params, result any) error {
	ctx, cancel := s.within(ctx)
	defer cancel()
	if s.conn == nil {
		if err := s.reconnect(ctx); err != nil {
			return s.why(err)
		}
	}
	return s.why(s.ask(ctx, method, params, result))
}

// Next returns the next update, in the order of its channel. It makes lost connections again until ctx ends.
// An error is ctx's, ErrClosed, a *Refused of a channel that is gone, or wraps ErrUnauthorized or ErrProtocol.
func (s *Stream) Next(ctx context.Context) (*Update, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	for {
		if len(s.queue) > 0 {
			u := s.queue[0]
			if s.queue = s.queue[1:]; len(s.queue) == 0 {
				s.queue = nil
			}
			return u, nil
		}
		if s.conn == nil {
			if err := s.reconnect(ctx); err != nil {
				return nil, s.why(err)
			}
			continue
		}
		if err := s.again(ctx); err != nil {
			return nil, s.why(err)
		}
		if s.conn == nil || len(s.queue) > 0 {
			continue
		}
		if _, err := s.read(ctx); err != nil {
			if ctx.Err() != nil || errors.Is(err, ErrUnauthorized) || errors.Is(err, ErrProtocol) {
				return nil, s.why(err)
			}
		}
	}
}

// within returns a context that ends with the stream as well.
func (s *Stream) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.closed, func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// why returns ErrClosed for an error of a closed stream.
func (s *Stream) why(err error) error {
	if err != nil && s.closed.Err() != nil {
		s.lose()
		return ErrClosed
	}
	return err
}

// reconnect makes a connection, with pauses until ctx ends, and subscribes to everything.
func (s *Stream) reconnect(ctx context.Context) error {
	for pause := s.options.PauseMin; ; pause = min(2*pause, s.options.PauseMax) {
		var err error
		s.conn, err = dial(ctx, s.closed, s.addresses[0], &s.options)
		if err == nil {
			err = s.restore(ctx)
		}
		if err == nil {
			return nil
		}
		s.lose()
		var refused *Refused
		if errors.Is(err, ErrUnauthorized) || errors.As(err, &refused) && refused.Code != codeCannotNow {
			return err
		}
		s.rotate()
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		}
	}
}

// restore subscribes to all channels on a new connection.
func (s *Stream) restore(ctx context.Context) error {
	var plain []string
	for name, c := range s.channels {
		c.begin()
		if !c.known {
			plain = append(plain, name)
		}
	}
	for some := range slices.Chunk(plain, subscribeMax) {
		if err := s.start(ctx, map[string]any{"channels": some}, some...); err != nil {
			return err
		}
	}
	for _, c := range s.channels {
		if c.waits { // still
			if err := s.start(ctx, c.params(), c.name); err != nil {
				return err
			}
		}
	}
	return nil
}

// again starts the channels anew that do not fit.
func (s *Stream) again(ctx context.Context) error {
	for _, c := range s.channels {
		if !c.broken {
			continue
		}
		s.stats.Restarts, s.stats.Why = s.stats.Restarts+1, c.why
		err := s.start(ctx, c.params(), c.name)
		var refused *Refused
		if errors.As(err, &refused) && refused.Code == codeCannotNow || errors.Is(err, ErrLost) && ctx.Err() == nil {
			s.lose()
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lose gives the connection up.
func (s *Stream) lose() {
	if s.conn != nil {
		s.conn.end()
		s.conn = nil
		s.stats.Lost++
		for _, c := range s.channels {
			c.begin()
		}
	}
}

// rotate takes the next address first.
func (s *Stream) rotate() { s.addresses = append(s.addresses[1:], s.addresses[0]) }

// ask sends a request on the connection that there is, and reads until its result.
func (s *Stream) ask(ctx context.Context, method string, params, result any) error {
	s.nextID++
	id := s.nextID
	b, err := json.Marshal(request{"2.0", id, method, params})
	if err != nil {
		return fmt.Errorf("stream: %s: %w", method, err)
	}
	if err := s.conn.write(ctx, b); err != nil {
		s.lose()
		return fmt.Errorf("%w: %s: %w", ErrLost, method, err)
	}
	for {
		m, err := s.read(ctx)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrLost, method, err)
		}
		if m.ID == nil || *m.ID != id {
			if len(s.queue) > queueMax {
				s.lose()
				return fmt.Errorf("%w: %s: more than %d updates came before its result", ErrLost, method, queueMax)
			}
			continue
		}
		if m.Error != nil {
			return &Refused{m.Error.Code, m.Error.Data.Reason, m.Error.Message}
		}
		if result == nil {
			return nil
		}
		if err := json.Unmarshal(m.Result, result); err != nil {
			return fmt.Errorf("stream: result of %s: %w", method, err)
		}
		return nil
	}
}

// read takes one message. Updates go to the queue. On an error the connection is lost.
func (s *Stream) read(ctx context.Context) (*message, error) {
	text, err := s.conn.read(ctx)
	var m message
	if err == nil {
		if err = json.Unmarshal(text, &m); err != nil {
			err = fmt.Errorf("%w: %w", ErrProtocol, err)
		} else if m.Method == "subscription" {
			err = s.take(&m)
		}
	}
	if err != nil {
		s.lose()
		return nil, err
	}
	return &m, nil
}

// take gives an event to its channel, and queues the update that it makes, if any.
func (s *Stream) take(m *message) error {
	c := s.channels[m.Params.Channel]
	if c == nil {
		return nil // unsubscribed
	}
	u, err := c.take(m.Params.Data)
	if u != nil {
		s.queue = append(s.queue, u)
	}
	return err
}
