package wire_test

import (
	"fmt"
	"strings"

	"outcry/internal/door/xml/wire"
	"outcry/internal/exchange"
)

// A server reads a frame, executes its commands, and appends the reply.
func ExampleRequest() {
	stream := strings.NewReader("97\n" +
		`<transactions id="1"><order sym="SPY" amount="100" limit="145.67"/><query id="x"/></transactions>`)
	frame, err := wire.NewFrameReader(stream, 4<<20).Next()
	if err != nil {
		fmt.Println(err)
		return
	}
	var r wire.Request
	r.Decode(frame, nil)
	for _, c := range r.Commands {
		fmt.Println(c.Kind, c.Account, c.Side, c.Shares, c.Symbol, c.Limit)
	}
	reply := string(r.AppendReply(nil, []exchange.Result{{Order: 7}}))
	fmt.Println(strings.ReplaceAll(reply, "><", ">\n<"))
	// Output:
	// order 1 buy 100 SPY 145.67
	// <results>
	// <opened sym="SPY" amount="100" limit="145.67" id="7"/>
	// <error id="x">order id "x" is not a whole number</error>
	// </results>
}

// A client builds a frame, sends it, and reads the answers.
func ExampleParseReply() {
	xml := wire.NewTransactions("1").Query("7").Append(nil)
	fmt.Printf("%s\n", wire.AppendFrame(nil, xml))

	answers, err := wire.ParseReply([]byte(`<results><status id="7"><open shares="100"/></status></results>`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range answers {
		fmt.Println(a.Kind, a.ID, "open:", a.Open)
	}
	// Output:
	// 51
	// <transactions id="1"><query id="7"/></transactions>
	// status 7 open: 100
}
