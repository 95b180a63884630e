package websocket

import (
	"runtime"
	"sync"
	"time"
)

const (
	// pacedWritesMax is the maximum number of writes of market data a second and processor, for all readers together: a
	// write costs as much as a part of an order does, and the changes of several records fit into one write.
	pacedWritesMax = 2500
	// paceEvery is the time between two rounds in which waiting connections write.
	paceEvery = 5 * time.Millisecond
	// pacedAtOnce is the number of waiting bytes from which a connection writes at once, without waiting for its turn.
	pacedAtOnce = 32 << 10
)

// pacer lets connections write market data in turns: immediately if there are few connections, otherwise less often
// and in larger pieces.
type pacer struct {
	rate float64 // writes a second

	mu     sync.Mutex // guards the fields below, and Conn.paced
	tokens float64    // number of writes allowed now, at most the number for two rounds
	filled time.Time
	queue  []*Conn // connections that wait, the next one first
	timed  bool    // a timer that calls serve is running
}

func newPacer() *pacer { return &pacer{rate: pacedWritesMax * float64(runtime.GOMAXPROCS(0))} }

// FlushSoon is like Flush, for events that many readers get. It sends the queue within a time that grows with the
// number of readers: about 200 ms for a thousand on two processors, at once for a few. While a connection waits for
// its turn, it is not cut for exceeding the queue's limit.
func (c *Conn) FlushSoon() {
	c.mu.Lock()
	waiting, served := c.waiting, c.writing || !c.hasWork()
	c.mu.Unlock()
	if served { // the running writer also writes frames that were queued since
		return
	}
	if waiting >= pacedAtOnce || c.server.pacer.enter(c) {
		c.Flush()
	}
}

// enter reports whether a connection may write now. If not, it queues the connection.
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

// fill adds the tokens for the time that has passed. Its caller holds mu.
func (p *pacer) fill() {
	now := time.Now()
	p.tokens = min(p.tokens+p.rate*now.Sub(p.filled).Seconds(), 2*p.rate*paceEvery.Seconds())
	p.filled = now
}

// serve lets the connections whose turn has come write.
func (p *pacer) serve() {
	for _, c := range p.next() {
		c.flushHere()
	}
}

// next removes the connections whose turn has come from the queue and returns them. It starts a timer for the others.
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
