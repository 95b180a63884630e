package exchange

// Names keeps the names that a sender used last, so that reading one of them again makes no garbage. The zero Names is
// empty. A nil Names keeps nothing. It is for one goroutine at a time.
type Names struct {
	accounts recent[AccountID]
	symbols  recent[Symbol]
}

// Account is ParseAccountID, except that it returns a name that n has without a copy.
func (n *Names) Account(id []byte) (AccountID, error) {
	if n == nil {
		return ParseAccountID(id)
	}
	return n.accounts.parse(id, ParseAccountID[[]byte])
}

// Symbol is ParseSymbol, except that it returns a name that n has without a copy.
func (n *Names) Symbol(symbol []byte) (Symbol, error) {
	if n == nil {
		return ParseSymbol(symbol)
	}
	return n.symbols.parse(symbol, ParseSymbol[[]byte])
}

// recent has the last names of one kind. A new name replaces the oldest.
type recent[N ~string] struct {
	names  [4]N
	oldest uint8
}

func (r *recent[N]) parse(b []byte, parse func([]byte) (N, error)) (N, error) {
	for i := range r.names {
		if string(r.names[i]) == string(b) && len(b) > 0 {
			return r.names[i], nil
		}
	}
	name, err := parse(b)
	if err == nil {
		r.names[r.oldest] = name
		r.oldest = (r.oldest + 1) % uint8(len(r.names))
	}
	return name, err
}
