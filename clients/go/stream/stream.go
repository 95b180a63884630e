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

// Options configure a stream. A field with its zero value has the default that its comment names last.
type Options struct {
	TLS   *tls.Config // encrypts the connection; nil means no encryption
	Token string      // authenticates the client; "" means no token
	// allows sending the token to another machine without TLS; if false, that is client.ErrInsecureToken
	InsecureToken bool
	DialTimeout   time.Duration // bounds one attempt to connect; 10 seconds
	Silence       time.Duration // a connection without a message or ping for this time counts as lost; 45 seconds
	// the pause before the first attempt to reconnect, doubled for each further one; 50 milliseconds
	PauseMin time.Duration
	PauseMax time.Duration // the longest pause; 2 seconds
}

const (
	// messageBytesMax is the maximum size of a message. The exchange sends none that is larger.
	messageBytesMax = 1 << 20
	// queueMax is the maximum number of updates that may arrive before the result of a Call.
	queueMax = 100_000
	// subscribeMax is the maximum number of channels in one request.
	subscribeMax = 100
	// codeCannotNow is the code of temporary refusals.
	codeCannotNow = 1002
	// statusToken is the close code for a token that is wrong, has expired or was revoked.
	statusToken websocket.StatusCode = 4001
)

var (
	// ErrClosed means that the stream is closed.
	ErrClosed = errors.New("stream: closed")
	// ErrUnauthorized is wrapped if the exchange does not accept the token.
	ErrUnauthorized = errors.New("stream: the token is not accepted")
	// ErrLost is wrapped if the connection ended before a result. The request was executed completely or not at all.
	ErrLost = errors.New("stream: the connection was lost")
	// ErrProtocol is wrapped if a message violates the protocol. The connection was closed.
	ErrProtocol = errors.New("stream: a message violates the protocol")
)

// Refused means that the exchange refused a request. Nothing has changed.
type Refused struct {
	Code   int    // class of the reason
	Reason string // name of the reason, for programs; names never change
	Text   string // description for people
}

// Error returns the text.
func (r *Refused) Error() string { return "stream: refused: " + r.Text }

// Stats counts lost connections and restarted channels.
type Stats struct {
	Lost     int // connections that were lost
	Restarts int // restarts of channels whose chain or checksum did not match
	// Why describes the last mismatch, for people.
	Why string
}

// Stream reads channels. Its methods are for one goroutine; only Close may be called from any. If a context
// ends while a method reads, the connection is lost and the next call reconnects.
type Stream struct {
	options   Options
	addresses []string // the next one to try is first
	conn      *conn    // nil while disconnected
	nextID    uint64
	queue     []*Update
	channels  map[string]*channel
	stats     Stats
	closed    context.Context
	close     context.CancelFunc
}

// Dial connects to an exchange's HTTP address. addresses may be several separated by commas; Dial tries
// each once and uses the first that accepts the connection. The error is that of the last one.
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

// Close ends the stream. A method in progress returns ErrClosed unless it has finished.
func (s *Stream) Close() { s.close() }

// Stats returns the counts so far.
func (s *Stream) Stats() Stats { return s.stats }

// Book returns the current book of a subscribed channel, or nil if there is no such book.
func (s *Stream) Book(name string) *Book {
	if c := s.channels[name]; c != nil {
		return c.book
	}
	return nil
}

// Subscribe subscribes to channels; Next returns their updates. The error is a *Refused or one of Call's;
// after an error none of the channels is subscribed.
func (s *Stream) Subscribe(ctx context.Context, names ...string) error {
	for _, name := range names {
		s.channels[name] = newChannel(name)
	}
	return s.add(ctx, map[string]any{"channels": names}, names...)
}

// SubscribeAfter subscribes to an account's private channel after event n and fill lastFill, the last ones
// that the caller knows; Next returns those that follow. If the exchange no longer has these events, it
// sends a snapshot instead.
func (s *Stream) SubscribeAfter(ctx context.Context, account string, n, lastFill uint64) error {
	c := newChannel("account." + account)
	c.known, c.n, c.lastFill = true, n, lastFill
	s.channels[c.name] = c
	return s.add(ctx, c.params(), c.name)
}

// add subscribes to channels, and removes them on an error.
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

// start restarts subscribed channels on the current connection.
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

// Unsubscribe ends channels. Next may still return updates that were received before.
func (s *Stream) Unsubscribe(ctx context.Context, names ...string) error {
	for _, name := range names {
		delete(s.channels, name)
	}
	return s.Call(ctx, "unsubscribe", map[string]any{"channels": names}, nil)
}

// Call sends a request and waits for its result, which it decodes unless result is nil. The error is a *Refused, wraps
// ErrLost (the request may have been executed), or says that no connection could be made.
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

// Next returns the next update; the updates of a channel are in order. It reconnects until ctx ends. The
// error is ctx's, ErrClosed, a *Refused for a channel that no longer exists, or wraps ErrUnauthorized or
// ErrProtocol.
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

// within returns a context that also ends when the stream is closed.
func (s *Stream) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.closed, func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// why returns ErrClosed if the stream is closed and err is not nil, otherwise err.
func (s *Stream) why(err error) error {
	if err != nil && s.closed.Err() != nil {
		s.lose()
		return ErrClosed
	}
	return err
}

// reconnect retries with pauses until it is connected or ctx ends, and subscribes to all channels.
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
		if c.waits { // not started yet
			if err := s.start(ctx, c.params(), c.name); err != nil {
				return err
			}
		}
	}
	return nil
}

// again restarts the broken channels.
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

// lose closes the connection; all channels must then restart.
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

// rotate moves the first address to the end of the list.
func (s *Stream) rotate() { s.addresses = append(s.addresses[1:], s.addresses[0]) }

// ask sends a request on the current connection and reads until its result arrives.
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

// read reads one message and queues its update, if any. On an error the connection is lost.
func (s *Stream) read(ctx context.Context) (*message, error) {
	text, err := s.conn.read(ctx)
	var m message
	if err == nil {
		if err = json.Unmarshal(text, &m); err != nil {
			err = fmt.Errorf("%w: %w", ErrProtocol, err)
		} else if m.Method == "subscription" {
			err = s.receive(&m)
		}
	}
	if err != nil {
		s.lose()
		return nil, err
	}
	return &m, nil
}

// receive passes a message to its channel and queues the resulting update, if any.
func (s *Stream) receive(m *message) error {
	c := s.channels[m.Params.Channel]
	if c == nil {
		return nil // unsubscribed
	}
	u, err := c.apply(m.Params.Data)
	if u != nil {
		s.queue = append(s.queue, u)
	}
	return err
}
