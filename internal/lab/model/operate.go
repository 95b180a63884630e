package model

import "math/big"

// The operators' commands, as specified in the last section of docs/PROTOCOL.md. Symbols and accounts
// must exist.

// Halt stops a symbol from accepting orders. It returns false if the symbol was halted already.
func (x *Exchange) Halt(sym string) (changed bool) {
	changed = !x.halted[sym]
	x.halted[sym] = true
	return changed
}

// Resume lets a halted symbol accept orders. It returns false if the symbol was not halted.
func (x *Exchange) Resume(sym string) (changed bool) {
	changed = x.halted[sym]
	x.halted[sym] = false
	return changed
}

// Canceled counts what CancelAll canceled for one symbol. Shares is an exact decimal.
type Canceled struct {
	Orders int
	Shares string
}

// CancelAll cancels all open orders of an account, or only those for sym if sym is not empty. It returns
// what was canceled, by symbol.
func (x *Exchange) CancelAll(account, sym string, now int64) map[string]Canceled {
	orders, shares := map[string]int{}, map[string]*big.Int{}
	for _, o := range x.orders {
		if o.account != account || o.open.Sign() == 0 || sym != "" && o.sym != sym {
			continue
		}
		orders[o.sym]++
		add(shares, o.sym, o.open)
		x.takeBack(o, now)
	}
	if len(orders) > 0 {
		x.happened(account)
	}
	all := map[string]Canceled{}
	for sym, n := range orders {
		all[sym] = Canceled{n, show(shares[sym])}
	}
	return all
}

// setSwitch arms a dead man's switch: all open orders of the account are canceled after the given number
// of seconds. 0 disarms it.
func (x *Exchange) setSwitch(account string, seconds int, now int64) {
	delete(x.switches, account)
	if seconds > 0 {
		x.switches[account] = now + int64(seconds)
	}
}

// Pass cancels the orders of all accounts whose switches are due at now.
func (x *Exchange) Pass(now int64) {
	for account, due := range x.switches {
		if due <= now {
			delete(x.switches, account)
			x.CancelAll(account, "", now)
		}
	}
}
