package model

import "slices"

// Connection is a client's connection. When it ends, its orders with cancel on disconnect are canceled. A
// connection and its exchange must not be used concurrently.
type Connection struct {
	x       *Exchange
	cancels bool // default for orders without cod: cancel them when the connection ends
}

// Connect returns a new connection.
func (x *Exchange) Connect() *Connection { return &Connection{x: x} }

// Close ends the connection: it cancels the open orders bound to it, and the open orders that replaced
// them.
func (c *Connection) Close(now int64) { c.x.Disconnect(now, c) }

// Disconnect closes several connections in one step, as when the server is killed.
func (x *Exchange) Disconnect(now int64, ended ...*Connection) {
	of := map[[2]string]bool{}
	for _, o := range x.orders {
		if slices.Contains(ended, o.cod) && o.open.Sign() > 0 {
			x.takeBack(o, now)
			of[[2]string{o.account, o.sym}] = true
		}
	}
	for key := range of { // all orders of one account for one symbol are one event
		x.happened(key[0])
	}
}

// session answers a <session> and sets the connection's default for cod.
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
