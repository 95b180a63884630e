package client

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"
)

// Options say how a connection is made and used. The zero value of each field means
// its default.
type Options struct {
	// encrypts the connection; nil means that it is not. Where ServerName is "" it is the host of the address
	TLS   *tls.Config
	Token string // proves with the first frame for which accounts the connection acts; "" is no token

	// InsecureToken lets the token go to another machine over a connection that is not
	// encrypted, with a warning to Log. Otherwise such a connection is an ErrInsecureToken.
	InsecureToken bool

	DialTimeout time.Duration // how long one try to connect may take, with TLS and the token; 10 seconds
	// how long the exchange may owe a reply, or take nothing, before the connection is taken for broken; 1 minute
	ReplyTimeout time.Duration

	// CancelOnDisconnect has the exchange cancel what is open of the orders of a connection when
	// that ends, for whatever reason, of all that do not say Stays. Each connection that is made
	// says so before anything else.
	CancelOnDisconnect bool
	// SilenceTime is, with CancelOnDisconnect, how long the connection may be silent before the
	// exchange takes it for ended, in whole seconds; 0 is the exchange's own time. A Client that
	// sends nothing for so long loses its orders.
	SilenceTime time.Duration

	// RetryTime is how long a command waits for a connection while none can be made, and
	// how long after its connection broke it may be sent again, however many more break;
	// 30 seconds. Below 0 a command that finds no connection fails with the first try to
	// make one, and nothing is sent again.
	RetryTime time.Duration
	// before the first try to connect again, more or less by chance; 50 milliseconds. Each further one is twice as long
	PauseMin time.Duration
	PauseMax time.Duration // but no longer than this; 2 seconds

	// SwitchTime is how long a reply may be owed before a Client with several addresses asks
	// the others whether one takes orders; 500 milliseconds. Below 0 it never asks while a
	// connection stands. A single address has no use for it.
	SwitchTime time.Duration

	Depth         int // frames under way at a time; callers that want to send another wait; 64
	FrameBytesMax int // a larger frame is refused before it is sent; 4 MiB, which is what an exchange takes
	ReplyBytesMax int // a larger reply breaks the connection; 64 MiB. Memory grows as bytes arrive

	// AutoRef gives every order, account and placement without a ref one of 128 random
	// bits, so that it can be sent again after a connection has broken. The exchange
	// keeps refs for as long as orders.
	AutoRef bool

	Log *slog.Logger // a line when a connection is lost, and when there is one again; nil means no log

	// dial makes the connection instead, in tests.
	dial func(ctx context.Context, addr string) (net.Conn, error)
}

func (o *Options) setDefaults() {
	setDefault(&o.DialTimeout, 10*time.Second)
	setDefault(&o.ReplyTimeout, time.Minute)
	setDefault(&o.RetryTime, 30*time.Second)
	setDefault(&o.PauseMin, 50*time.Millisecond)
	setDefault(&o.PauseMax, 2*time.Second)
	setDefault(&o.SwitchTime, switchTime)
	setDefault(&o.Depth, 64)
	setDefault(&o.FrameBytesMax, 4<<20)
	setDefault(&o.ReplyBytesMax, 64<<20)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

func setDefault[T comparable](value *T, standard T) {
	var zero T
	if *value == zero {
		*value = standard
	}
}

// Bounds that nobody needs to choose.
const (
	// flushBytesMax is about how much is sent with one write.
	flushBytesMax = 64 << 10

	// lastWordsTime is how long is read on after a write has failed: the replies to
	// what arrived, and the reason why the exchange closed the connection.
	lastWordsTime = time.Second
)
