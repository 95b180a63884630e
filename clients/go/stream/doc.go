// Package stream reads an exchange's market data over WebSocket, and keeps it in step: books
// whose chain and checksum are checked, trades without a gap, and, with a token for it, an
// account's events without a gap.
//
//	s, err := stream.Dial(ctx, "127.0.0.1:8080", stream.Options{})
//	…
//	defer s.Close()
//	err = s.Subscribe(ctx, "book.SPY", "trades.SPY")
//	…
//	for {
//		u, err := s.Next(ctx)
//		…
//		if u.Book != nil {
//			fmt.Println(u.Channel, u.Book.Bids[0], u.Book.Asks[0])
//		}
//	}
//
// [Stream.Next] makes a lost connection again, of several addresses to the next, and subscribes
// anew: a book begins with a snapshot, the events of an account go on after the last one. A book
// whose chain or checksum does not fit begins anew as well.
//
// Orders go through package client, or [Stream.Call].
package stream
