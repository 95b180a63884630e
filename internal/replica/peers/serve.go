package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"outcry/internal/journal"
)

// AskBytesMax limits the answer to an Ask, AskRequestMax its request. Both are in bytes.
const (
	AskBytesMax   = 1 << 20
	AskRequestMax = 64 << 10
)

// Tags of the frames of an answer.
const (
	tagData  = 'D'
	tagKeep  = 'K' // keep-alive while the answer is computed
	tagEnd   = 'E' // the answer is complete
	tagError = 'X' // a failure as JSON; also the last frame
)

// failure is the form in which an error is sent to a peer.
type failure struct {
	Gone bool   `json:"gone,omitempty"` // the error is journal.ErrGone
	Text string `json:"text"`
}

// fetchRequest is the range of records of a Fetch.
type fetchRequest struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

// serves reports whether this node serves requests of this kind.
func (n *Net) serves(use purpose) bool {
	switch use {
	case forFetch:
		return n.o.Journal != nil
	case forBackup:
		return n.o.Backup != nil
	case forAsk:
		return n.o.Ask != nil
	case forMessages, forEntries:
	}
	return false
}

// errBusy is sent to a peer that has too many requests in progress.
var errBusy = errors.New("peers: busy with other requests: try again")

// begin counts a request of a peer, or returns errBusy at the limit.
func (n *Net) begin(p *peer, use purpose) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.served == servedMax || use == forBackup && n.backups == backupsMax {
		return errBusy
	}
	p.served++
	if use == forBackup {
		n.backups++
	}
	return nil
}

func (n *Net) end(p *peer, use purpose) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p.served--
	if use == forBackup {
		n.backups--
	}
}

// serveRequest answers one request.
func (v *visit) serveRequest() {
	n, use := v.n, v.hello.For
	out := &sender{conn: v.conn}
	if err := n.begin(v.peer, use); err != nil {
		_ = out.finish(err) // best effort
		return
	}
	ctx, cancel := context.WithCancel(v.peer.ctx)
	var around sync.WaitGroup
	around.Go(func() { // the peer sends nothing more, so a read returns only when the connection ends
		_, _ = v.conn.Read(make([]byte, 1))
		cancel()
	})
	around.Go(func() { out.keep(ctx) })
	var err error
	switch use {
	case forFetch:
		err = n.serveFetch(ctx, out, v.hello.Request)
	case forBackup:
		err = n.o.Backup(ctx, out)
	case forAsk:
		var reply []byte
		if reply, err = n.o.Ask(ctx, v.peer.id, v.hello.Request); err == nil && len(reply) > AskBytesMax {
			err = fmt.Errorf("peers: an answer has %d bytes, more than %d", len(reply), AskBytesMax)
		}
		if err == nil {
			_, err = out.Write(reply)
		}
	case forMessages, forEntries:
	}
	n.end(v.peer, use) // before the peer receives the end, so that its next request is not refused
	if err := out.finish(err); err != nil {
		n.o.Log.Debug("a peer's request was not answered", "peer", v.peer.id, "request", use, "error", err)
	}
	_ = v.conn.Close()
	around.Wait()
}

// serveFetch sends records of the journal, each as one frame. Its reader keeps the records from
// being deleted. A peer that reads less than writeBytes in writeTimeout is disconnected.
func (n *Net) serveFetch(ctx context.Context, out *sender, request []byte) error {
	var r fetchRequest
	if err := json.Unmarshal(request, &r); err != nil {
		return fmt.Errorf("peers: fetch: %w", err)
	}
	if synced := n.o.Journal.Synced(); r.First == 0 || r.Last > synced {
		return fmt.Errorf("peers: records %d to %d: this journal has synced those up to %d", r.First, r.Last, synced)
	}
	reader, err := n.o.Journal.NewReader(r.First)
	if err != nil {
		return err
	}
	defer reader.Close()
	for seq := r.First; seq <= r.Last; seq++ {
		_, record, err := reader.Next(ctx)
		if err == nil {
			_, err = out.Write(record)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sender writes the frames of an answer. It implements io.Writer.
type sender struct {
	conn net.Conn

	mu     sync.Mutex // guards the fields below and the order of writes
	buffer []byte
	ended  bool
}

// Write adds a data frame, which may wait in the buffer for further ones. An error is final.
func (s *sender) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buffer = appendFrame(s.buffer, tagData, p)
	if len(s.buffer) < readStep {
		return len(p), nil
	}
	if err := s.flush(); err != nil {
		return 0, err
	}
	return len(p), nil
}

// flush writes the buffer. Callers hold s.mu.
func (s *sender) flush() error {
	err := writeInTime(s.conn, s.buffer)
	if s.buffer = s.buffer[:0]; cap(s.buffer) > keepBytesMax {
		s.buffer = nil
	}
	return err
}

// keep sends a keep-alive frame every keepEvery until ctx ends.
func (s *sender) keep(ctx context.Context) {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		if !s.ended {
			s.buffer = appendFrame(s.buffer, tagKeep, nil)
			if s.flush() != nil {
				_ = s.conn.Close()
			}
		}
		s.mu.Unlock()
	}
}

// finish ends the answer: with the end frame if err is nil, otherwise with err.
func (s *sender) finish(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if err == nil {
		s.buffer = appendFrame(s.buffer, tagEnd, nil)
		return s.flush()
	}
	text, _ := json.Marshal(failure{errors.Is(err, journal.ErrGone), reason(err)}) // cannot fail
	s.buffer = appendFrame(s.buffer, tagError, text)
	return errors.Join(err, s.flush())
}
