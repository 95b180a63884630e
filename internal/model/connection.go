package model

// Connection is a client's connection: its end cancels the orders that said so. Not safe for
// concurrent use with its exchange.
type Connection struct {
	x       *Exchange
	cancels bool // orders that do not say otherwise are canceled when it ends
}

// Connect returns a new connection.
func (x *Exchange) Connect() *Connection { return &Connection{x: x} }

// Close ends a connection, and cancels its orders and what replaced them.
func (c *Connection) Close(now int64) {
	for _, o := range c.x.orders {
		if o.cod == c && o.open.Sign() > 0 {
			c.x.takeBack(o, now)
		}
	}
}

// session answers a <session>, whose attributes are those that it may have.
func (c *Connection) session(root *node) []byte {
	switch {
	case root.get("cancel") != "disconnect":
		return []byte("<results><error>not to be canceled at the end of the connection</error></results>")
	case root.has("timeout") && (wholeOf(root, "timeout") < 1 || wholeOf(root, "timeout") > 86_400):
		return []byte("<results><error>bad timeout</error></results>")
	case !root.empty():
		return []byte("<results><error>content</error></results>")
	}
	c.cancels = true
	s := `<results><session cancel="disconnect"`
	if root.has("timeout") {
		s += ` timeout="` + root.get("timeout") + `"`
	}
	return []byte(s + `/></results>`)
}
