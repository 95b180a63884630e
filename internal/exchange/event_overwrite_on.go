//go:build race

package exchange

// overwrite overwrites memory that readers must not use any more, so that a test fails if a reader has kept it.
func (m *keptMore) overwrite() {
	const wrong = -0x55
	for i := range m.fills {
		m.fills[i] = Fill{Resting: 1 << 60, Account: "recycled", Shares: wrong, Price: wrong}
	}
	for _, list := range [][]Cancel{m.own[:cap(m.own)], m.cancels[:cap(m.cancels)]} {
		for i := range list {
			list[i] = Cancel{Order: 1 << 60, Symbol: "recycled", Shares: wrong}
		}
	}
	for i := range m.text {
		m.text[i] = '#'
	}
	m.amend, m.rules, m.block = Amendment{Executed: wrong}, AccountRules{OpenMax: wrong}, Halt{Since: wrong}
	m.symbol = SymbolRules{Tick: wrong}
	m.event = Event{Kind: eventKindMax + 1}
}
