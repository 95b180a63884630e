package exchange

// Instructed reports whether an order with these terms has instructions: not every program reads its records.
func (t *Terms) Instructed() bool { return !t.plain() }
