package client

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"
)

// Options configure a connection. The zero value of a field means its default, which the field's comment names after a
// semicolon.
type Options struct {
	// TLS encrypts the connection; nil means no encryption. An empty ServerName means the host of the
	// address.
	TLS   *tls.Config
	Token string // sent in the first frame, authorizes the connection for its accounts; "" means no token

	// InsecureToken allows sending the token to another machine over an unencrypted connection, with a
	// warning to Log. Otherwise such a connection fails with ErrInsecureToken.
	InsecureToken bool

	DialTimeout time.Duration // bounds one attempt to connect, including TLS and the token; 10 seconds
	// ReplyTimeout is how long a reply may be missing or a write may block before the connection counts as
	// broken; 1 minute.
	ReplyTimeout time.Duration

	// CancelOnDisconnect makes the exchange cancel a connection's open orders when the connection ends for
	// any reason, except orders with COD Stays. Each new connection requests it first.
	CancelOnDisconnect bool
	// SilenceTime is, with CancelOnDisconnect, how long the connection may be silent before the exchange closes it, in
	// whole seconds; 0 means the exchange's own limit. A Client that sends nothing for that time loses its orders.
	SilenceTime time.Duration

	// RetryTime is how long a command waits while no connection can be made, and how long after its connection first
	// broke it may be resent; 30 seconds. If it is negative, a command without a connection fails with the first attempt
	// to connect, and nothing is resent.
	RetryTime time.Duration
	// PauseMin is the pause before the first attempt to reconnect, partly random; 50 milliseconds. Each
	// further pause is twice as long, up to PauseMax.
	PauseMin time.Duration
	PauseMax time.Duration // the longest pause; 2 seconds

	// SwitchTime is how long a reply may be missing before a Client with several addresses asks the other
	// addresses whether one accepts orders; 500 milliseconds. If it is negative, the Client never asks
	// while it is connected. It has no effect with a single address.
	SwitchTime time.Duration

	Depth         int // frames in flight at a time; further senders wait; 64
	FrameBytesMax int // a larger frame is refused before it is sent; 4 MiB, the exchange's default limit
	ReplyBytesMax int // a larger reply breaks the connection; 64 MiB. Memory grows as bytes arrive

	// AutoRef gives each order, account and placement without a ref a random one of 128 bits, so that it can be resent
	// after a connection breaks. The exchange keeps refs as long as orders.
	AutoRef bool

	Log *slog.Logger // logs lost and restored connections; nil means no log

	// dial replaces the network connection in tests.
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

// Fixed limits.
const (
	// flushBytesMax is the approximate number of bytes sent with one write.
	flushBytesMax = 64 << 10

	// lastWordsTime is how long reading continues after a failed write, to receive replies and the reason
	// why the exchange closed the connection.
	lastWordsTime = time.Second
)
