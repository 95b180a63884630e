package exchange

// Instructed reports whether the terms contain order instructions. Old programs cannot read records of such orders.
func (t *Terms) Instructed() bool { return !t.plain() }
