package wire

import (
	"bytes"

	"outcry/internal/exchange"
)

// declarations are the usual forms of the XML declaration.
var declarations = [...]string{
	`<?xml version="1.0" encoding="UTF-8"?>`,
	`<?xml version="1.0" encoding="utf-8"?>`,
	`<?xml version="1.0"?>`,
}

// scan decodes the frame into the request, which must be empty. It returns false if it gives up; the
// contents of the request are then invalid. The methods below each read one element whose
// name was just read, and return false to give up.
func (s *scanner) scan() bool {
	for _, d := range declarations {
		if s.skipToken(d) {
			break
		}
	}
	s.space()
	done := false
	switch {
	case s.skipToken("<transactions"):
		done = s.transactions()
	case s.skipToken("<create"):
		done = s.create()
	}
	s.space()
	return done && s.at == len(s.xml)
}

// AccountOf returns the account of a frame of <transactions> from the frame's first bytes. ok is false if they do not
// show it, and for other frames. The decoder may still find the frame wrong.
func AccountOf(head []byte) (account exchange.AccountID, ok bool) {
	s := scanner{xml: head}
	for s.space(); s.skipThrough("<?", "?>") || s.skipThrough("<!--", "-->"); {
		s.space()
	}
	if !s.skipToken("<transactions") {
		return "", false
	}
	for s.has&(idAttr|accountAttr) == 0 {
		if s.space(); !s.attribute() {
			return "", false
		}
	}
	account, err := exchange.ParseAccountID(string(s.id))
	return account, err == nil
}

// skipThrough returns true if the unread bytes begin with begin. It then skips what follows up to and including end, or
// all bytes if there is no end.
func (s *scanner) skipThrough(begin, end string) bool {
	if !s.skipToken(begin) {
		return false
	}
	_, rest, _ := bytes.Cut(s.xml[s.at:], []byte(end))
	s.at = len(s.xml) - len(rest)
	return true
}

// transactions reads <transactions>.
func (s *scanner) transactions() bool {
	if !s.startTag() || s.has != idAttr && s.has != accountAttr || !s.account() {
		return false
	}
	if s.empty {
		return true
	}
	account := s.r.lastAccount
	for {
		s.space()
		done := false
		switch {
		case s.skipToken("<order"):
			done = s.order(account)
		case s.skipToken("<query"):
			done = s.leaf("</query") && s.orderID(exchange.Command{Kind: exchange.QueryOrder, Account: account})
		case s.skipToken("<cancel"):
			done = s.leaf("</cancel") && s.orderID(exchange.Command{Kind: exchange.CancelOrder, Account: account})
		default:
			return s.endTag("</transactions")
		}
		if !done {
			return false
		}
	}
}

// order reads an <order>.
func (s *scanner) order(account exchange.AccountID) bool {
	if !s.leaf("</order") || s.has&^refAttr != symAttr|amountAttr|limitAttr || !s.symbol() {
		return false
	}
	side, shares, err := exchange.ParseAmount(s.amount)
	if err != nil {
		return false
	}
	limit, err := exchange.ParseLimit(s.limit)
	if err != nil {
		return false
	}
	s.echo(` sym="`, s.sym)
	s.echo(` amount="`, s.amount)
	s.echo(` limit="`, s.limit)
	s.r.do(exchange.Command{Kind: exchange.PlaceOrder, Account: account, Symbol: s.r.lastSymbol,
		Terms:  exchange.Terms{Side: side, Limit: limit},
		Shares: shares, OnDisconnect: s.r.onDisconnect}, nil)
	return s.echoRef()
}

// orderID adds the command c for the order that the last element names by id or ref.
func (s *scanner) orderID(c exchange.Command) bool {
	if s.has == refAttr {
		s.r.do(c, nil)
		return s.echoRef()
	}
	id, err := exchange.ParseOrderID(s.id)
	if err != nil || s.has != idAttr {
		return false
	}
	c.Order = id
	s.echo(` id="`, s.id)
	s.r.do(c, nil)
	return true
}

// create reads <create>.
func (s *scanner) create() bool {
	if !s.startTag() || s.has != 0 {
		return false
	}
	if s.empty {
		return true
	}
	for {
		s.space()
		done := false
		switch {
		case s.skipToken("<account"):
			done = s.open()
		case s.skipToken("<symbol"):
			done = s.list()
		default:
			return s.endTag("</create")
		}
		if !done {
			return false
		}
	}
}

// open reads an <account> element, which opens an account.
func (s *scanner) open() bool {
	if !s.leaf("</account") || s.has&^refAttr != idAttr|balanceAttr || !s.account() {
		return false
	}
	balance, err := exchange.ParseBalance(s.balance)
	if err != nil {
		return false
	}
	s.echo(` id="`, s.id)
	s.r.do(exchange.Command{Kind: exchange.OpenAccount, Account: s.r.lastAccount, Balance: balance}, nil)
	return s.echoRef()
}

// list reads a <symbol> and the deposits in it.
func (s *scanner) list() bool {
	if !s.startTag() || s.has != symAttr || !s.symbol() {
		return false
	}
	list := exchange.Command{Kind: exchange.MakeSymbol, Symbol: s.r.lastSymbol}
	sym, empty, made := s.sym, s.empty, -1
	for !empty {
		s.space()
		if !s.skipToken("<account") {
			if !s.endTag("</symbol") {
				return false
			}
			break
		}
		if made < 0 {
			made = len(s.r.Commands)
			s.r.Commands = append(s.r.Commands, list)
		}
		if !s.placement(made, sym) {
			return false
		}
	}
	if made < 0 {
		s.echo(` sym="`, sym)
		s.r.do(list, nil)
	}
	return true
}

// placement reads an <account> in a <symbol>, a deposit. made is the index of the command that makes the
// symbol.
func (s *scanner) placement(made int, sym []byte) bool {
	if !s.startTag() || s.has&^refAttr != idAttr || !s.account() || s.empty {
		return false
	}
	length := bytes.IndexByte(s.xml[s.at:], '<')
	if length < 0 {
		return false
	}
	placed, err := exchange.ParseDeposit(bytes.Trim(s.xml[s.at:s.at+length], whiteSpace))
	s.at += length
	if err != nil || !s.endTag("</account") {
		return false
	}
	s.echo(` sym="`, sym)
	s.echo(` id="`, s.id)
	s.r.doIn(made, exchange.Command{Kind: exchange.DepositShares, Account: s.r.lastAccount, Symbol: s.r.lastSymbol,
		Deposited: placed}, nil)
	return s.echoRef()
}
