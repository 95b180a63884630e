package model

import "slices"

// Connection is a client's connection: its end cancels the orders that said so. Not safe for
// concurrent use with its exchange.
type Connection struct {
	x       *Exchange
	cancels bool // orders that do not say otherwise are canceled when it ends
}

// Connect returns a new connection.
func (x *Exchange) Connect() *Connection { return &Connection{x: x} }

// Close ends a connection, and cancels its orders and what replaced them.
func (c *Connection) Close(now int64) { c.x.Disconnect(now, c) }

// Disconnect closes connections at once, as an exchange that is killed does.
func (x *Exchange) Disconnect(now int64, ended ...*Connection) {
	of := map[[2]string]bool{}
	for _, o := range x.orders {
		if slices.Contains(ended, o.cod) && o.open.Sign() > 0 {
			x.takeBack(o, now)
			of[[2]string{o.account, o.sym}] = true
		}
	}
	for key := range of { // the orders of an account for a symbol go together
		x.happened(key[0])
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
