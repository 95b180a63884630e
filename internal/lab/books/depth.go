package books

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/coder/websocket"

	"outcry/clients/go/stream"
)

// depth keeps books as Binance's documentation prescribes: a snapshot over REST, and differences applied
// by their numbers U and u.
type depth struct {
	w *Watchers

	mu    sync.Mutex // guards books
	books map[string]*diffed
}

// diffed is a book with applied differences.
type diffed struct {
	stream.Book      // Seq is the u of the newest difference, or the snapshot's lastUpdateId
	snapshot    bool // a snapshot was received
	follows     bool // a difference was applied, so the next one must begin after it
}

// difference is a depthUpdate message.
type difference struct {
	Event  string         `json:"e"`
	Time   int64          `json:"E"` // tagged, since encoding/json would match it to e
	Symbol string         `json:"s"`
	First  uint64         `json:"U"`
	Last   uint64         `json:"u"`
	Bids   []stream.Level `json:"b"`
	Asks   []stream.Level `json:"a"`
}

const (
	// quote is the quote currency of the Binance-shaped API.
	quote = "USD"
	// depthMax is the most levels of a side in a snapshot.
	depthMax = 5000
	// depthBytesMax is the largest message or snapshot accepted.
	depthBytesMax = 4 << 20
)

// connected reads a connection until it or ctx ends.
func (d *depth) connected(ctx context.Context, addresses []string) error {
	ws, _, err := websocket.Dial(ctx, "ws://"+addresses[0]+"/binance/ws", nil)
	if err != nil {
		return err
	}
	defer func() { _ = ws.CloseNow() }()
	ws.SetReadLimit(depthBytesMax)
	d.w.connections.Add(1)
	var names []string
	for _, sym := range d.w.o.Symbols {
		names = append(names, strings.ToLower(sym+quote)+"@depth@100ms")
	}
	request, err := json.Marshal(map[string]any{"method": "SUBSCRIBE", "params": names, "id": 1})
	if err != nil {
		return err
	}
	if err := ws.Write(ctx, websocket.MessageText, request); err != nil {
		return err
	}
	books := map[string]*diffed{}
	for {
		_, b, err := ws.Read(ctx)
		if err != nil {
			return err
		}
		var m struct {
			ID    *int            `json:"id"`
			Error json.RawMessage `json:"error"`
			difference
		}
		if err := json.Unmarshal(b, &m); err != nil {
			return fmt.Errorf("%w: %s: %w", errWrong, b, err)
		}
		switch {
		case m.Error != nil: // the node is starting, or is a standby that lags
			return fmt.Errorf("SUBSCRIBE of %v: %s", names, b)
		case m.ID != nil: // from now on the differences are complete, so snapshots may be requested
			for _, sym := range d.w.o.Symbols {
				if books[sym], err = d.snapshot(ctx, addresses[0], sym); err != nil {
					return err
				}
			}
		case m.Event == "depthUpdate":
			sym := strings.TrimSuffix(m.Symbol, quote)
			if books[sym], err = d.apply(ctx, addresses[0], books[sym], &m.difference); err != nil {
				return err
			}
		}
		d.publish(books)
	}
}

// snapshot requests a book.
func (d *depth) snapshot(ctx context.Context, address, sym string) (*diffed, error) {
	url := fmt.Sprintf("http://%s/binance/api/v3/depth?symbol=%s&limit=%d", address, sym+quote, depthMax)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	var s struct {
		LastUpdateID uint64 `json:"lastUpdateId"`
		Bids, Asks   []stream.Level
	}
	if err := json.NewDecoder(http.MaxBytesReader(nil, reply.Body, depthBytesMax)).Decode(&s); err != nil {
		return nil, fmt.Errorf("depth of %s: %s: %w", sym, reply.Status, err)
	}
	if reply.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("depth of %s: %s", sym, reply.Status)
	}
	return &diffed{Book: stream.Book{Seq: s.LastUpdateID, Bids: s.Bids, Asks: s.Asks}, snapshot: true}, nil
}

// apply applies a difference by the documented rule: differences that end before the snapshot are
// dropped, the first applied one must reach it, and each later one must begin right after the previous
// one.
func (d *depth) apply(ctx context.Context, address string, b *diffed, x *difference) (*diffed, error) {
	if b == nil || !b.snapshot {
		return b, nil // the message belongs to another stream, or arrived before the answer to SUBSCRIBE
	}
	for !b.follows && x.First > b.Seq+1 { // the snapshot is older than the stream
		next, err := d.snapshot(ctx, address, strings.TrimSuffix(x.Symbol, quote))
		if err != nil {
			return b, err
		}
		if next.Seq < b.Seq {
			return b, fmt.Errorf("%w: lastUpdateId of %s went back from %d to %d", errWrong, x.Symbol, b.Seq, next.Seq)
		}
		b = next
	}
	if b.follows && x.First != b.Seq+1 || x.First > x.Last {
		return b, fmt.Errorf("%w: depth of %s: U %d and u %d follow u %d", errWrong, x.Symbol, x.First, x.Last, b.Seq)
	}
	if x.Last <= b.Seq {
		return b, nil
	}
	b.Change(x.Bids, x.Asks)
	b.Seq, b.follows = x.Last, true
	d.w.updates.Add(1)
	return b, nil
}

// publish makes the books visible to Check. It copies them, since they are changed in place.
func (d *depth) publish(books map[string]*diffed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for sym, b := range books {
		if had := d.books[sym]; had == nil || had.Seq != b.Seq {
			c := *b
			c.Bids, c.Asks = append([]stream.Level(nil), b.Bids...), append([]stream.Level(nil), b.Asks...)
			d.books[sym] = &c
		}
	}
}

// compare compares a book with the tables.
func (d *depth) compare(sym string, want *stream.Book) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	got := d.books[sym]
	if got == nil {
		return fmt.Errorf("depth of %s: nothing has arrived", sym)
	}
	return sameBook("depth of "+sym, &got.Book, want)
}
