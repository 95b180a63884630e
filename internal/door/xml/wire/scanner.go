package wire

import "outcry/internal/exchange"

// scanner decodes a frame of the common form in one pass, without the tree that
// parseDocument builds, and without an allocation. The common form is what programs
// send: a document of the protocol in ASCII, without comments, references and texts
// of no meaning, and without a mistake. At the first byte that is another the scanner
// gives up, and parseDocument reads the frame from its start. So the scanner never
// says what is wrong, and what it takes means the same either way (FuzzScan).
type scanner struct {
	r   *Request
	xml []byte
	at  int // what is before it has been read

	elements int // how many have begun

	// The last start tag. A value means something where has says so.
	has                                  attrSet
	empty                                bool // it is an empty-element tag, <name/>
	sym, amount, limit, id, balance, ref []byte
}

// attrSet is a set of attributes.
type attrSet uint8

// The attributes that the protocol has. The value of account, the older name of id, is kept as id.
const (
	symAttr attrSet = 1 << iota
	amountAttr
	limitAttr
	idAttr
	accountAttr
	balanceAttr
	refAttr
)

// take reads a token, if it is the next.
func (s *scanner) take(token string) bool {
	if rest := s.xml[s.at:]; len(rest) < len(token) || string(rest[:len(token)]) != token {
		return false
	}
	s.at += len(token)
	return true
}

// space reads white space, if there is any.
func (s *scanner) space() { s.at = skipSpace(s.xml, s.at) }

// skipSpace returns where the white space ends that begins at i.
func skipSpace(xml []byte, i int) int {
	for i < len(xml) && (xml[i] == ' ' || xml[i] == '\n' || xml[i] == '\t' || xml[i] == '\r') {
		i++
	}
	return i
}

// startTag reads the rest of a start tag, behind the name of the element.
func (s *scanner) startTag() bool {
	s.elements++
	s.has = 0
	for s.elements <= ElementsMax {
		begin := s.at
		s.space()
		switch {
		case s.take(">"):
			s.empty = false
			return true
		case s.take("/>"):
			s.empty = true
			return true
		case s.at == begin || !s.attribute():
			return false
		}
	}
	return false
}

// attribute reads one attribute. Whether its value is right is for the Parse functions
// to say. They take no character that XML has a special meaning for, so that a value
// which they take means what it says.
func (s *scanner) attribute() bool {
	xml, i := s.xml, s.at
	for i < len(xml) && 'a' <= xml[i] && xml[i] <= 'z' {
		i++
	}
	name := xml[s.at:i]
	i = skipSpace(xml, i)
	if i == len(xml) || xml[i] != '=' {
		return false
	}
	i = skipSpace(xml, i+1)
	if i == len(xml) || xml[i] != '"' && xml[i] != '\'' {
		return false
	}
	quote := xml[i]
	i++
	begin := i
	for i < len(xml) && xml[i] != quote {
		i++
	}
	if i == len(xml) {
		return false
	}
	s.at = i + 1
	return s.keep(name, xml[begin:i])
}

// keep keeps the value of an attribute that the protocol has and that was not there
// before in the tag.
func (s *scanner) keep(name, value []byte) bool {
	var is attrSet
	switch string(name) {
	case "sym":
		is, s.sym = symAttr, value
	case "amount":
		is, s.amount = amountAttr, value
	case "limit":
		is, s.limit = limitAttr, value
	case "id":
		is, s.id = idAttr, value
	case "account":
		is, s.id = accountAttr, value
	case "balance":
		is, s.balance = balanceAttr, value
	case "ref":
		is, s.ref = refAttr, value
	default:
		return false
	}
	again := s.has&is != 0
	s.has |= is
	return !again
}

// endTag reads an end tag, of which start is all but white space and the last byte.
func (s *scanner) endTag(start string) bool {
	if !s.take(start) {
		return false
	}
	s.space()
	return s.take(">")
}

// leaf reads the rest of an element with nothing in it, behind its name. end is the
// start of its end tag.
func (s *scanner) leaf(end string) bool {
	if !s.startTag() {
		return false
	}
	if s.empty {
		return true
	}
	s.space()
	return s.endTag(end)
}

// account sets the request's lastAccount to the account that the last start tag names.
// The same name again is not allocated anew.
func (s *scanner) account() bool {
	if len(s.id) > 0 && string(s.id) == string(s.r.lastAccount) {
		return true
	}
	id, err := exchange.ParseAccountID(s.id)
	if err == nil {
		s.r.lastAccount = id
	}
	return err == nil
}

// symbol sets the request's lastSymbol likewise.
func (s *scanner) symbol() bool {
	if len(s.sym) > 0 && string(s.sym) == string(s.r.lastSymbol) {
		return true
	}
	symbol, err := exchange.ParseSymbol(s.sym)
	if err == nil {
		s.r.lastSymbol = symbol
	}
	return err == nil
}

// echoRef has the reply repeat the ref of the last start tag, if it has one, and gives it
// to the command that was added last.
func (s *scanner) echoRef() bool {
	if s.has&refAttr == 0 {
		return true
	}
	ref, err := exchange.ParseRef(s.ref)
	if err != nil {
		return false
	}
	s.echo(` ref="`, s.ref)
	s.r.slots[len(s.r.slots)-1].echoEnd = len(s.r.echoes)
	s.r.Commands[len(s.r.Commands)-1].Ref = ref
	return true
}

// echo has the reply repeat an attribute. begin is the attribute up to its value, in
// which nothing is to be escaped: a Parse function has taken it.
func (s *scanner) echo(begin string, value []byte) {
	echoes := append(s.r.echoes, begin...)
	echoes = append(echoes, value...)
	s.r.echoes = append(echoes, '"')
}
