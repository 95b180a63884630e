package model

import "math/big"

// What operators do, as the last section of docs/PROTOCOL.md tells it. The symbols and accounts
// exist.

// Halt makes a symbol take no orders, and reports whether it took them before.
func (x *Exchange) Halt(sym string) (changed bool) {
	changed = !x.halted[sym]
	x.halted[sym] = true
	return changed
}

// Resume makes a symbol take orders again, and reports whether it was halted.
func (x *Exchange) Resume(sym string) (changed bool) {
	changed = x.halted[sym]
	x.halted[sym] = false
	return changed
}

// Canceled is what a CancelAll took back of one symbol, with an exact decimal.
type Canceled struct {
	Orders int
	Shares string
}

// CancelAll cancels all that an account has open, of one symbol if sym is not
// empty, and returns what that was, by symbol.
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

// setSwitch makes all that an account has open be canceled after so many seconds; 0 undoes that.
func (x *Exchange) setSwitch(account string, seconds int, now int64) {
	delete(x.switches, account)
	if seconds > 0 {
		x.switches[account] = now + int64(seconds)
	}
}

// Pass cancels what the switches say that are due at now.
func (x *Exchange) Pass(now int64) {
	for account, due := range x.switches {
		if due <= now {
			delete(x.switches, account)
			x.CancelAll(account, "", now)
		}
	}
}
