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

// journal is a file of the frames that a server got. It is not synced, since only the process is killed,
// not the machine. A nil journal records nothing.
type journal struct {
	o *Options
	f *os.File
}

// entry is one frame, with the time at which it was executed.
type entry struct {
	Now int64
	Doc []byte
}

// lateTime is how long after the reply the fault late-journal records a frame.
const lateTime = 300 * time.Millisecond

// restore executes the frames of a journal, and returns it for further frames.
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
	if err != io.EOF { // the last entry may be torn
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

// add records a frame. The caller holds x.mu.
func (j *journal) add(x *exchange, e entry) error {
	switch {
	case j == nil, j.o.has("nothing-kept"), j.o.has("orders-lost") && !bytes.Contains(e.Doc, []byte("<create")):
		return nil
	case j.o.has("late-journal"):
		time.AfterFunc(lateTime, func() {
			x.mu.Lock()
			defer x.mu.Unlock()
			_ = j.write(e) // it fails if the server has ended
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
