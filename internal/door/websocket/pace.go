package websocket

import (
	"runtime"
	"sync"
	"time"
)

const (
	// pacedWritesMax is how many writes a second of market data there are for each processor, whatever the number of
	// readers: a write costs as much as a part of an order does, and what several records changed fits into one.
	pacedWritesMax = 2500
	// paceEvery is how often connections are served that wait for their turn.
	paceEvery = 5 * time.Millisecond
	// pacedAtOnce is how much may wait before a connection has its turn at once.
	pacedAtOnce = 32 << 10
)

// pacer lets connections write market data in turns: at once while there are few, and in larger pieces the more there
// are.
type pacer struct {
	rate float64 // writes a second

	mu     sync.Mutex // guards what follows, and Conn.paced
	tokens float64    // writes that may be made now, at most those of two paceEvery
	filled time.Time
	queue  []*Conn // in their turns
	timed  bool    // serve is on its way
}

func newPacer() *pacer { return &pacer{rate: pacedWritesMax * float64(runtime.GOMAXPROCS(0))} }

// FlushSoon is Flush for what many readers get: it has sent what waits within a time that grows with their number,
// about 200 ms for a thousand readers on two processors, and none for a few. What waits before is no reason to be cut.
func (c *Conn) FlushSoon() {
	if c.Waiting() >= pacedAtOnce || c.server.pacer.enter(c) {
		c.Flush()
	}
}

// enter reports whether it is a connection's turn; else it will be.
func (p *pacer) enter(c *Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.paced {
		return false
	}
	p.fill()
	if len(p.queue) == 0 && p.tokens >= 1 {
		p.tokens--
		return true
	}
	c.paced = true
	p.queue = append(p.queue, c)
	if !p.timed {
		p.timed = true
		time.AfterFunc(paceEvery, p.serve)
	}
	return false
}

// fill adds the tokens of the time that has passed. Its caller holds mu.
func (p *pacer) fill() {
	now := time.Now()
	p.tokens = min(p.tokens+p.rate*now.Sub(p.filled).Seconds(), 2*p.rate*paceEvery.Seconds())
	p.filled = now
}

// serve lets connections write whose turn it is.
func (p *pacer) serve() {
	for _, c := range p.next() {
		c.flushHere()
	}
}

// next takes those out whose turn it is, and sees to it that the others have theirs.
func (p *pacer) next() (due []*Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fill()
	n := min(len(p.queue), int(p.tokens))
	p.tokens -= float64(n)
	due = p.queue[:n:n]
	p.queue = p.queue[n:]
	for _, c := range due {
		c.paced = false
	}
	if p.timed = len(p.queue) > 0; p.timed {
		time.AfterFunc(paceEvery, p.serve)
	} else {
		p.queue = nil
	}
	return due
}
