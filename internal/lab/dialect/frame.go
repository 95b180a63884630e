package dialect

// Frame returns doc as a frame in these habits.
func (h Habits) Frame(doc string) []byte {
	if h.AccountAttribute {
		doc = withAccount(doc)
	}
	return Frame(doc, h.CRLF)
}
