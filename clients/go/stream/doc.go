// Package stream reads an exchange's market data over WebSocket: books whose chain and checksum are verified, trades
// without a gap and, with a token for it, an account's events without a gap.
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
// If a connection is lost, [Stream.Next] reconnects, to the next address if there are several, and subscribes to all
// channels again: a book starts with a snapshot, and an account's events continue after the last one received. A book
// whose chain or checksum does not match is restarted with a snapshot as well.
//
// Orders are placed with package client, or with [Stream.Call].
package stream
