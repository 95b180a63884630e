package market

import (
	"hash/crc32"

	"outcry/internal/exchange"
)

// checksumLevels is the number of best levels of each side that a checksum covers.
const checksumLevels = 10

// Checksum returns the checksum of the book, as BookChecksum defines it.
func (m *Market) Checksum() uint32 {
	m.checked = m.s.bids.appendChecked(m.s.asks.appendChecked(m.checked[:0]))
	return crc32.ChecksumIEEE(m.checked)
}

// BookChecksum returns the checksum of a book: the CRC-32 (IEEE 802.3) of the ten best asks and then the ten best bids,
// each written as price, colon, shares, semicolon. asks and bids are sorted best first and must have at least the ten
// best levels, or all if there are fewer. The checksum of an empty book is 0.
func BookChecksum(asks, bids []Level) uint32 {
	var b []byte
	for _, side := range [][]Level{asks, bids} {
		for _, l := range side[:min(len(side), checksumLevels)] {
			b = appendChecked(b, l.Price, l.Shares)
		}
	}
	return crc32.ChecksumIEEE(b)
}

// appendChecked appends the text of the best levels of one side that the checksum covers.
func (l *levels) appendChecked(b []byte) []byte {
	l.best(checksumLevels, func(p exchange.Price, n exchange.Position) { b = appendChecked(b, p, n) })
	return b
}

// appendChecked appends the text of one level that the checksum covers.
func appendChecked(b []byte, p exchange.Price, n exchange.Position) []byte {
	return append(n.Append(append(p.Append(b), ':')), ';')
}
