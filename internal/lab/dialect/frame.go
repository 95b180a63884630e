package dialect

// Frame returns a document as the bytes that a server of these habits takes as a frame.
func (h Habits) Frame(doc string) []byte {
	if h.AccountAttribute {
		doc = withAccount(doc)
	}
	return Frame(doc, h.CRLF)
}
