package market

import (
	"hash/crc32"

	"outcry/internal/exchange"
)

// checksumLevels is how many of the best levels of each side are in a checksum.
const checksumLevels = 10

// Checksum returns the checksum of the book: that of BookChecksum for all its levels.
func (m *Market) Checksum() uint32 {
	m.checked = m.s.bids.appendChecked(m.s.asks.appendChecked(m.checked[:0]))
	return crc32.ChecksumIEEE(m.checked)
}

// BookChecksum returns the checksum of a book of which asks and bids are levels, each best first and ten if there
// are so many: the CRC-32 (IEEE 802.3) of price, colon, shares and semicolon of the ten best asks, and then of the
// ten best bids. It is 0 for a book without levels.
func BookChecksum(asks, bids []Level) uint32 {
	var b []byte
	for _, side := range [][]Level{asks, bids} {
		for _, l := range side[:min(len(side), checksumLevels)] {
			b = appendChecked(b, l.Price, l.Shares)
		}
	}
	return crc32.ChecksumIEEE(b)
}

// appendChecked appends what the checksum is of, of one side.
func (l *levels) appendChecked(b []byte) []byte {
	l.best(checksumLevels, func(p exchange.Price, n exchange.Position) { b = appendChecked(b, p, n) })
	return b
}

// appendChecked appends what the checksum is of, of one level.
func appendChecked(b []byte, p exchange.Price, n exchange.Position) []byte {
	return append(n.Append(append(p.Append(b), ':')), ';')
}
