package scenario

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"outcry/internal/door/xml/wire"
	"outcry/internal/lab/load"
)

// Asker is the account that sends Verify's queries.
const Asker = "31415926535"

const (
	askedMax   = 5000 // orders queried, at most
	askedFrame = 50   // orders in a frame
)

// Verify queries a sample of the orders whose ids clients have received. The error names an order that
// the exchange does not know.
func (t *Tally) Verify(ctx context.Context, addrs ...string) error {
	if len(t.IDs) == 0 {
		return nil
	}
	asked := &sample{ids: t.IDs[:min(len(t.IDs), askedMax)]}
	o := load.Options{Addrs: addrs[:1], Connections: 1, Depth: 4}
	result, err := load.Closed(ctx, o, func(int) load.Source { return asked })
	switch {
	case err != nil:
		return err
	case result.Errors > 0:
		return errors.New(result.Examples[0])
	}
	return nil
}

// sample queries orders and checks that each exists.
type sample struct {
	opened bool
	ids    []uint64
}

func (s *sample) Next() []byte {
	if !s.opened {
		s.opened = true
		return new(wire.Create).Account(wire.Account{ID: Asker, Balance: "0"}).Append(nil)
	}
	if len(s.ids) == 0 {
		return nil
	}
	n := min(askedFrame, len(s.ids))
	t := wire.NewTransactions(Asker)
	for _, id := range s.ids[:n] {
		t.Query(strconv.FormatUint(id, 10))
	}
	s.ids = s.ids[n:]
	return t.Append(nil)
}

func (s *sample) Reply(xml []byte) error {
	answers, err := wire.ParseReply(xml)
	if err != nil {
		return err
	}
	for _, a := range answers {
		if a.Error == "account "+Asker+" already exists" {
			continue // an earlier frame has opened the account
		}
		if a.Kind != "status" && a.Kind != "created" {
			return fmt.Errorf("order %s, which was accepted, is answered with: %s", a.ID, a.Error)
		}
	}
	return nil
}
