package door

// trySend sends a reply that is durable, if none waits before it: a switch to the
// writer costs more than most of what a query does. The client must have room for it.
// What it has no room for is left to the writer, so that the reader never waits here.
func (c *session) trySend(r *reply) bool {
	if c.tryWriter == nil || r.last || c.ctx.Err() != nil || !c.server.exchange.MayTell(r.mark) {
		return false
	}
	if _, empty := c.unsent.silence(); !empty {
		return false
	}
	o := &c.server.options
	o.Metrics.lap(&r.clock, stageJournal)
	r.durable = true
	if len(c.sendSome(r)) > 0 {
		return false
	}
	c.unsent.passed()
	o.Metrics.answered(r)
	c.server.recycle(r)
	return true
}

// sendSome sends what the client has room for, and returns the rest of a reply. A
// deadline, which is not free, is left to those that have to wait.
func (c *session) sendSome(r *reply) []byte {
	if c.tryWriter != nil {
		rest := r.bytes[r.sent:]
		r.sent += c.tryWriter.Write(rest[:min(len(rest), writeBytesMax)])
	}
	return r.bytes[r.sent:]
}
