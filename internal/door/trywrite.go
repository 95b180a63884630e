package door

// trySend sends a reply from the pushing goroutine if the reply is durable and none waits before it: a switch
// to the writer costs more than most of what a query does. It reports whether the whole reply was sent. What
// the client has no room for is left to the writer, so trySend never waits.
func (c *session) trySend(r *reply) bool {
	if c.tryWriter == nil || r.last || c.ctx.Err() != nil || !c.server.exchange.MayTell(r.mark) {
		return false
	}
	if _, empty := c.unsent.silence(); !empty {
		return false
	}
	o := &c.server.options
	o.Metrics.lap(&r.watch, stageJournal)
	r.durable = true
	if len(c.sendSome(r)) > 0 {
		return false
	}
	c.unsent.passed()
	o.Metrics.answered(r)
	c.server.recycle(r)
	return true
}

// sendSome sends as much of a reply as the client has room for, and returns the rest. It sets no deadline,
// which would cost time; only writes that may wait need one.
func (c *session) sendSome(r *reply) []byte {
	if c.tryWriter != nil {
		rest := r.bytes[r.sent:]
		r.sent += c.tryWriter.Write(rest[:min(len(rest), writeBytesMax)])
	}
	return r.bytes[r.sent:]
}
