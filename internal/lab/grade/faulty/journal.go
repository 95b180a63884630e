package faulty

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"time"
)

// journal is a file of what a server was sent. What is killed is the process, not the machine: it
// is not synced. A nil journal keeps nothing.
type journal struct {
	o *Options
	f *os.File
}

// entry is one frame, and when it was done.
type entry struct {
	Now int64
	Doc []byte
}

// lateTime is how much later the fault late-journal keeps what is answered.
const lateTime = 300 * time.Millisecond

// restore does what a journal has, and returns it for what follows.
func (s *server) restore(path string) (*journal, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("faulty: %w", err)
	}
	s.x.restored = true
	d := json.NewDecoder(f)
	var e entry
	for err = d.Decode(&e); err == nil; err = d.Decode(&e) {
		_, _ = s.do(e.Doc, e.Now)
		e = entry{}
	}
	s.x.restored = false
	if err != io.EOF { // the last one may be torn
		if err := f.Truncate(d.InputOffset()); err != nil {
			return nil, fmt.Errorf("faulty: %w", err)
		}
	}
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		return nil, fmt.Errorf("faulty: %w", err)
	}
	if s.o.has("ids-again") {
		s.x.last = map[string]int{}
	}
	if s.o.has("money-lost") {
		for _, a := range s.x.accounts {
			a.cash, a.shares = a.opened, maps.Clone(a.placed)
		}
	}
	return &journal{s.o, f}, nil
}

// add keeps a frame. The caller holds x.mu.
func (j *journal) add(x *exchange, e entry) error {
	switch {
	case j == nil, j.o.has("nothing-kept"), j.o.has("orders-lost") && !bytes.Contains(e.Doc, []byte("<create")):
		return nil
	case j.o.has("late-journal"):
		time.AfterFunc(lateTime, func() {
			x.mu.Lock()
			defer x.mu.Unlock()
			_ = j.write(e) // the server may have ended
		})
		return nil
	}
	return j.write(e)
}

func (j *journal) write(e entry) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = j.f.Write(append(b, '\n'))
	return err
}

func (j *journal) close() {
	if j != nil {
		_ = j.f.Close()
	}
}
