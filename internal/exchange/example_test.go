package exchange_test

import (
	"fmt"

	"outcry/internal/exchange"
)

// A buy executes against the cheaper of two resting sells first, pays the limit of each,
// and rests with the remainder.
func ExampleBook() {
	seller, buyer := &exchange.Account{ID: "1"}, &exchange.Account{ID: "2"}
	const share, dollar = 100_000_000, 100_000_000 // units of 10^-8
	book := exchange.NewBook()
	book.Submit(exchange.NewOrder(1, seller, exchange.Sell, 100*share, 12*dollar), 1519348326, nil)
	book.Submit(exchange.NewOrder(2, seller, exchange.Sell, 100*share, 11*dollar), 1519348326, nil)

	order := exchange.NewOrder(3, buyer, exchange.Buy, 250*share, 12.5*dollar)
	for _, f := range book.Submit(order, 1519348327, nil) {
		fmt.Println("filled", f)
	}
	fmt.Println(order.Open, "open at", book.Best(exchange.Buy))

	_, reason := book.Cancel(3, "2", 1519348328)
	fmt.Println("cancel:", reason, "then:", book.Resting(), "resting")
	_, reason = book.Cancel(1, "1", 1519348328)
	fmt.Println("cancel:", reason)
	// Output:
	// filled 100 at 11 with order 2 of account 1
	// filled 100 at 12 with order 1 of account 1
	// 50 open at 12.5
	// cancel: ok then: 0 resting
	// cancel: already_executed
}

// A negative amount sells. Errors name the value.
func ExampleParseAmount() {
	for _, s := range []string{"100", "-0.50", "0", "1.123456789"} {
		side, shares, err := exchange.ParseAmount(s)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(side, shares)
	}
	// Output:
	// buy 100
	// sell 0.5
	// amount "0" is 0
	// amount "1.123456789" has more than 8 fractional digits
}
