package wire

import "outcry/internal/exchange"

// scanner decodes a frame of the common form in one pass, without the tree of parseDocument and without
// allocations. The common form is what programs usually send: a document of the protocol in ASCII,
// without comments, references, stray text or mistakes. At the first byte that deviates from it, the
// scanner gives up, and parseDocument reads the frame from the start. The scanner therefore reports
// no errors. What it accepts has the same meaning in both decoders (FuzzScan).
type scanner struct {
	r     *Request
	xml   []byte
	names *exchange.Names // names of the sender
	at    int             // offset of the next byte to read

	elements int // number of elements begun so far

	// The contents of the last start tag. A value is valid only if has includes its attribute.
	has                                  attrSet
	empty                                bool // the tag is an empty-element tag, <name/>
	sym, amount, limit, id, balance, ref []byte
}

// attrSet is a set of attributes.
type attrSet uint8

// The attributes that the scanner knows. account is an older name of id; its value is stored in id.
const (
	symAttr attrSet = 1 << iota
	amountAttr
	limitAttr
	idAttr
	accountAttr
	balanceAttr
	refAttr
)

// skipToken skips token and returns true if the unread bytes begin with it.
func (s *scanner) skipToken(token string) bool {
	if rest := s.xml[s.at:]; len(rest) < len(token) || string(rest[:len(token)]) != token {
		return false
	}
	s.at += len(token)
	return true
}

// space skips white space.
func (s *scanner) space() { s.at = skipSpace(s.xml, s.at) }

// skipSpace returns the offset of the first byte from i on that is not white space.
func skipSpace(xml []byte, i int) int {
	for i < len(xml) && (xml[i] == ' ' || xml[i] == '\n' || xml[i] == '\t' || xml[i] == '\r') {
		i++
	}
	return i
}

// startTag reads the rest of a start tag, after the name of the element.
func (s *scanner) startTag() bool {
	s.elements++
	s.has = 0
	for s.elements <= ElementsMax {
		begin := s.at
		s.space()
		switch {
		case s.skipToken(">"):
			s.empty = false
			return true
		case s.skipToken("/>"):
			s.empty = true
			return true
		case s.at == begin || !s.attribute():
			return false
		}
	}
	return false
}

// attribute reads one attribute. It does not check the value; the Parse functions do that. They
// accept no character that has a special meaning in XML, so an accepted value needs no unescaping.
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

// keep stores the value of an attribute. It returns false if the attribute is unknown or occurred
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

// endTag reads an end tag. start is the tag without trailing white space and ">".
func (s *scanner) endTag(start string) bool {
	if !s.skipToken(start) {
		return false
	}
	s.space()
	return s.skipToken(">")
}

// leaf reads the rest of an element without content, after its name. end is the start of its end tag.
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

// account sets the request's lastAccount to the account named in the last start tag. It does not
// allocate if that is the same account as before.
func (s *scanner) account() bool {
	if len(s.id) > 0 && string(s.id) == string(s.r.lastAccount) {
		return true
	}
	id, err := s.names.Account(s.id)
	if err == nil {
		s.r.lastAccount = id
	}
	return err == nil
}

// symbol sets the request's lastSymbol to the symbol named in the last start tag, like account.
func (s *scanner) symbol() bool {
	if len(s.sym) > 0 && string(s.sym) == string(s.r.lastSymbol) {
		return true
	}
	symbol, err := s.names.Symbol(s.sym)
	if err == nil {
		s.r.lastSymbol = symbol
	}
	return err == nil
}

// echoRef copies the ref of the last start tag, if it has one, to the last command and to the attributes that the
// reply repeats.
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

// echo adds an attribute to those that the reply repeats. begin is the encoded attribute up to its value.
// The value needs no escaping, because a Parse function has accepted it.
func (s *scanner) echo(begin string, value []byte) {
	echoes := append(s.r.echoes, begin...)
	echoes = append(echoes, value...)
	s.r.echoes = append(echoes, '"')
}
