package client_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"outcry/clients/go/client"
)

// exchangeAddr is the address of the exchange that the examples use. The default address of an exchange is
// 127.0.0.1:12345.
var exchangeAddr string

func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, exchangeAddr, client.Options{AutoRef: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	_ = c.OpenAccount(ctx, "1001", client.Whole(20000))
	_ = c.OpenAccount(ctx, "1002", client.Whole(0))
	_ = c.Place(ctx, "GLD", "1002", client.Whole(500))

	_, err = c.Sell(ctx, "1002", "GLD", client.Whole(100), client.MustDecimal("123.45"))
	if err != nil {
		fmt.Println(err)
		return
	}
	id, err := c.Buy(ctx, "1001", "GLD", client.Whole(40), client.Whole(150))
	if err != nil {
		fmt.Println(err)
		return
	}
	status, err := c.Query(ctx, "1001", id)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, x := range status.Executed {
		fmt.Println("bought", x.Shares, "at", x.Price)
	}
	// Output: bought 40 at 123.45
}

// Several commands go into one frame. Each has its own result.
func ExampleClient_Do() {
	ctx := context.Background()
	c, err := client.Dial(ctx, exchangeAddr, client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	results, err := c.Do(ctx,
		client.OpenAccount("2001", client.Whole(1000)),
		client.OpenAccount("2001", client.Whole(1000)),
		client.Place("IWM", "2001", client.MustDecimal("2.5")))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range results {
		if r.Refused != nil {
			fmt.Println("refused:", r.Refused.Text)
			continue
		}
		fmt.Println("done:", r.Command)
	}
	// Output:
	// done: open account 2001 with 1000
	// refused: account 2001 already exists
	// done: place 2.5 IWM with account 2001
}

// One goroutine can have many frames in flight. They take effect in the order in which they were sent.
func ExampleClient_Send() {
	ctx := context.Background()
	c, err := client.Dial(ctx, exchangeAddr, client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	_, _ = c.Do(ctx, client.OpenAccount("3001", client.Whole(1000)), client.MakeSymbol("DIA"))
	var calls []*client.Call
	for price := range int64(3) {
		call, err := c.Send(ctx, client.Buy("3001", "DIA", client.Whole(1), client.Whole(100+price)))
		if err != nil {
			fmt.Println(err)
			return
		}
		calls = append(calls, call)
	}
	for _, call := range calls {
		results, err := call.Wait(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(results[0].Command.Limit, results[0].Refused == nil)
	}
	// Output:
	// 100 true
	// 101 true
	// 102 true
}

// The kind of an order's error determines how to handle it.
func ExampleMaybeDone() {
	ctx := context.Background()
	c, err := client.Dial(ctx, exchangeAddr, client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	_ = c.OpenAccount(ctx, "4001", client.Whole(100))
	_ = c.MakeSymbol(ctx, "QQQ")
	_, err = c.Buy(ctx, "4001", "QQQ", client.Whole(10), client.Whole(11))
	var refused *client.Refused
	switch {
	case err == nil:
		fmt.Println("it is placed")
	case errors.As(err, &refused):
		fmt.Println("the exchange says no:", refused.Text)
	case client.MaybeDone(err):
		fmt.Println("it may be placed, or not: with a ref it would have been sent again")
	default:
		fmt.Println("it is not placed:", err)
	}
	// Output: the exchange says no: insufficient funds: buying 10 at 11 needs 110, account 4001 has 100
}

// A Conn sends the caller's XML, and returns the exchange's.
func ExampleConn() {
	conn, err := client.DialConn(context.Background(), exchangeAddr, client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	conn.SendFrame([]byte(`<create><account id="5001" balance="5"/></create>`))
	conn.SendFrame([]byte(`<create/>`))
	if err := conn.Flush(); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		reply, err := conn.NextReply()
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s\n", reply)
	}
	// Output:
	// <results><created id="5001"/></results>
	// <results/>
}
