package postgres

import "outcry/internal/exchange"

// The statements that record rules of accounts and symbols. In the tables that people read, NULL means that a
// rule is not set.
const (
	ruleAccounts = `UPDATE people.accounts a
		SET blocked_at = CASE WHEN d.blocked THEN d.at END, blocked_nanos = CASE WHEN d.blocked THEN d.nanos END,
			block_reason = CASE WHEN d.blocked THEN d.reason END, stp = nullif(d.stp, 'none'),
			shares_max = nullif(d.shares_max, 0), notional_max = nullif(d.notional_max, 0), open_max = nullif(d.open_max, 0)
		FROM unnest($1::text[], $2::boolean[], $3::bigint[], $4::integer[], $5::text[], $6::text[], $7::numeric[],
		            $8::numeric[], $9::bigint[])
			AS d (id, blocked, at, nanos, reason, stp, shares_max, notional_max, open_max) WHERE a.id = d.id`
	switchAccounts = `UPDATE people.accounts a SET cancel_at_ns = nullif(d.due, 0)
		FROM unnest($1::text[], $2::bigint[]) AS d (id, due) WHERE a.id = d.id`
	ruleSymbols = `UPDATE people.symbols s
		SET tick = nullif(d.tick, 0), lot = nullif(d.lot, 0), protect = nullif(d.protect, 0), band = nullif(d.band, 0)
		FROM unnest($1::text[], $2::numeric[], $3::numeric[], $4::numeric[], $5::numeric[])
			AS d (sym, tick, lot, protect, band)
		WHERE s.sym = d.sym`
)

// rules records the rules that were set for accounts and symbols.
func (w *writer) rules(b *batch) {
	if len(b.accountRules) > 0 {
		w.accountRules(b)
	}
	if len(b.switches) > 0 {
		ids, dues := newArray(texts), newArray(bigints)
		for id, due := range b.switches {
			ids.text(string(id))
			dues.bigint(due)
		}
		w.expect(ids.n, w.run(switchAccounts, ids.bytes(), dues.bytes()), "accounts with a switch")
	}
	if len(b.symbolRules) > 0 {
		names, ticks, lots := newArray(texts), newArray(numerics), newArray(numerics)
		protects, bands := newArray(numerics), newArray(numerics)
		for sym, r := range b.symbolRules {
			names.text(string(sym))
			ticks.position(exchange.Shares(r.Tick).Position())
			lots.position(r.Lot.Position())
			protects.position(exchange.Shares(r.Protect).Position())
			bands.position(exchange.Shares(r.Band).Position())
		}
		w.expect(names.n, w.run(ruleSymbols, names.bytes(), ticks.bytes(), lots.bytes(), protects.bytes(), bands.bytes()),
			"symbols with rules")
	}
}

// accountRules records the rules that were set for accounts.
func (w *writer) accountRules(b *batch) {
	ids, blocked, at, nanos := newArray(texts), newArray(booleans), newArray(bigints), newArray(integers)
	reasons, stps := newArray(texts), newArray(texts)
	shares, notionals, opens := newArray(numerics), newArray(numerics), newArray(bigints)
	for id, r := range b.accountRules {
		block := exchange.Halt{}
		if r.Block != nil {
			block = *r.Block
		}
		ids.text(string(id))
		blocked.boolean(r.Block != nil)
		at.bigint(exchange.Seconds(block.Since))
		nanos.integer(nanosOf(block.Since))
		reasons.text(block.Reason)
		stps.text(r.STP.String())
		shares.position(r.SharesMax.Position())
		notionals.cash(r.NotionalMax)
		opens.bigint(r.OpenMax)
	}
	w.expect(ids.n, w.run(ruleAccounts, ids.bytes(), blocked.bytes(), at.bytes(), nanos.bytes(), reasons.bytes(),
		stps.bytes(), shares.bytes(), notionals.bytes(), opens.bytes()), "accounts with rules")
}
