package stream

import (
	"encoding/json"
	"hash/crc32"
	"slices"

	"outcry/clients/go/client"
)

// Level is a price of a book and the total open shares at it.
type Level struct{ Price, Shares client.Decimal }

// UnmarshalJSON reads ["price","shares"].
func (l *Level) UnmarshalJSON(b []byte) error {
	var pair [2]client.Decimal
	if err := json.Unmarshal(b, &pair); err != nil {
		return err
	}
	l.Price, l.Shares = pair[0], pair[1]
	return nil
}

// Book is a symbol's book: Bids highest first, Asks lowest first. It is changed in place by Stream.Next.
type Book struct {
	Seq        uint64 // newest record that changed the book
	Bids, Asks []Level
	// InStep is false while the book waits for a snapshot: after a lost connection, or when its chain or checksum did
	// not match. The levels are then those of the last valid state.
	InStep bool
}

// checkedLevels is the number of levels of each side that a checksum covers.
const checkedLevels = 10

// Checksum returns the CRC-32 of the ten best asks and the ten best bids, as the exchange computes it.
func (b *Book) Checksum() uint32 {
	var text []byte
	for _, side := range [][]Level{b.Asks, b.Bids} {
		for _, l := range side[:min(len(side), checkedLevels)] {
			text = append(append(append(append(text, l.Price.String()...), ':'), l.Shares.String()...), ';')
		}
	}
	return crc32.ChecksumIEEE(text)
}

// Change sets levels to new totals. A total of 0 removes the level.
func (b *Book) Change(bids, asks []Level) {
	b.Bids = change(b.Bids, bids, -1)
	b.Asks = change(b.Asks, asks, 1)
}

// change applies new totals to one side. Prices rise with sign 1 and fall with sign -1.
func change(side, changes []Level, sign int) []Level {
	for _, l := range changes {
		i, found := slices.BinarySearchFunc(side, l, func(a, b Level) int { return sign * a.Price.Cmp(b.Price) })
		switch {
		case l.Shares.Sign() != 0 && found:
			side[i] = l
		case l.Shares.Sign() != 0:
			side = slices.Insert(side, i, l)
		case found:
			side = slices.Delete(side, i, i+1)
		}
	}
	return side
}
