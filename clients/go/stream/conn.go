package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"outcry/clients/go/client"
)

// conn is one connection. It is closed when it has been silent for too long.
type conn struct {
	ws      *websocket.Conn
	silence time.Duration
	alive   *time.Timer // closes the connection after silence
	stop    func() bool // detaches the connection from the end of the stream
}

// dial connects to one address. The connection is closed when the context closed ends.
func dial(ctx, closed context.Context, address string, o *Options) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
	defer cancel()
	c := &conn{silence: o.Silence}
	header, scheme := http.Header{}, "ws"
	if o.Token != "" {
		header.Set("Authorization", "Bearer "+o.Token)
	}
	if o.TLS != nil {
		scheme = "wss"
	}
	transport := &http.Transport{TLSClientConfig: o.TLS, DialContext: o.dial}
	defer transport.CloseIdleConnections() // closes the connection of a failed handshake
	ws, response, err := websocket.Dial(ctx, scheme+"://"+address+"/api/v1/ws", &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport},
		HTTPHeader: header,
		OnPingReceived: func(context.Context, []byte) bool {
			c.alive.Reset(c.silence)
			return true
		},
	})
	if err != nil {
		if response != nil && response.StatusCode == http.StatusUnauthorized {
			return nil, fmt.Errorf("%w: %s", ErrUnauthorized, address)
		}
		return nil, fmt.Errorf("stream: %s: %w", address, err)
	}
	ws.SetReadLimit(messageBytesMax)
	c.ws = ws
	end := func() { _ = ws.CloseNow() } // a pending read then fails
	c.alive, c.stop = time.AfterFunc(c.silence, end), context.AfterFunc(closed, end)
	return c, nil
}

// dial makes the TCP connection, and refuses one over which the token would go to another machine without encryption.
func (o *Options) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, address)
	if err == nil && !o.permits(c.RemoteAddr()) {
		_ = c.Close() // nothing was sent
		return nil, client.ErrInsecureToken
	}
	return c, err
}

// permits reports whether the token may be sent to an address.
func (o *Options) permits(to net.Addr) bool {
	if o.Token == "" || o.TLS != nil || o.InsecureToken {
		return true
	}
	tcp, ok := to.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// request is a JSON-RPC 2.0 request. message is any message of the exchange.
type request struct {
	Version string `json:"jsonrpc"`
	ID      uint64 `json:"id"`
	Method  string `json:"method"`
	Params  any    `json:"params,omitempty"`
}

type message struct {
	ID     *uint64         `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    struct {
			Reason string `json:"reason"`
		} `json:"data"`
	} `json:"error"`
	Method string `json:"method"`
	Params struct {
		Channel string          `json:"channel"`
		Data    json.RawMessage `json:"data"`
	} `json:"params"`
}

// write sends a message.
func (c *conn) write(ctx context.Context, text []byte) error {
	ctx, cancel := context.WithTimeout(ctx, c.silence)
	defer cancel()
	return c.ws.Write(ctx, websocket.MessageText, text)
}

// read returns the next message.
func (c *conn) read(ctx context.Context) ([]byte, error) {
	kind, text, err := c.ws.Read(ctx)
	if websocket.CloseStatus(err) == statusToken {
		return nil, fmt.Errorf("%w: %w", ErrUnauthorized, err)
	}
	if err == nil && kind != websocket.MessageText {
		err = fmt.Errorf("%w: a binary message", ErrProtocol)
	}
	c.alive.Reset(c.silence)
	return text, err
}

// end closes the connection at once.
func (c *conn) end() {
	c.alive.Stop()
	c.stop()
	_ = c.ws.CloseNow() // an error means that it had ended before
}
