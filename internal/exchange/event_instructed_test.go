package exchange

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDecodeRefusesInstructionsThatNoCommandLeadsTo makes one invalid change at a time to valid events.
func TestDecodeRefusesInstructionsThatNoCommandLeadsTo(t *testing.T) {
	seeds := instructedSeeds()
	const both, oldest, fok, market, post, stopped, reduced, forRef, replaced, ruled = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
	for name, row := range map[string]struct {
		seed   int
		change func(e *Event)
	}{
		"a smaller rest":                   {both, func(e *Event) { e.Rest-- }},
		"a larger rest":                    {both, func(e *Event) { e.Rest++ }},
		"a rest of an order that may rest": {oldest, func(e *Event) { e.Rest = e.Shares }},
		"two own orders with stp both":     {both, func(e *Event) { e.Own = append(e.Own, e.Own[0]); e.Own[1].Order = 2 }},
		"an own order without stp":         {both, func(e *Event) { e.STP = TradeWithSelf; e.Unsent = 0 }},
		"an own order with stp newest":     {both, func(e *Event) { e.STP = CancelNewest }},
		"stp both without a stop":          {both, func(e *Event) { e.Rest = 0 }},
		"an own order of the same side":    {oldest, func(e *Event) { e.Own[0].Side = Buy }},
		"an own order that is newer":       {oldest, func(e *Event) { e.Own[0].Order = 4 }},
		"an own order that may not rest":   {oldest, func(e *Event) { e.Own[0].TIF = IOC }},
		"an own order without shares":      {oldest, func(e *Event) { e.Own[0].Shares = 0 }},
		"an unsent stp that is none":       {post, func(e *Event) { e.Unsent = UnsentSTP }},
		"an unsent limit of a limit order": {post, func(e *Event) { e.Unsent = UnsentLimit }},
		"a market order that rests":        {fok, func(e *Event) { e.TIF = GTC }},
		"a post that may not rest":         {post, func(e *Event) { e.TIF = IOC }},
		"a hold of a finished order":       {fok, func(e *Event) { e.Hold.Lo = 1 }},
		"a negative hold":                  {market, func(e *Event) { e.Hold.Hi = -1 }},
		"a hold of a limited order":        {post, func(e *Event) { e.Hold.Lo = 1 }},
		"a part that does nothing":         {stopped, func(e *Event) { e.Rest = 0 }},
		"a part after nothing":             {stopped, func(e *Event) { e.Before = 0 }},
		"reduced by nothing":               {reduced, func(e *Event) { e.Shares = 0 }},
		"reduced to nothing":               {reduced, func(e *Event) { e.Amend.Open = 0 }},
		"reduced to another total":         {reduced, func(e *Event) { e.Amend.Amount++ }},
		"reduced at another limit":         {reduced, func(e *Event) { e.Amend.Limit = 6 }},
		"reduced without an amount":        {reduced, func(e *Event) { e.Amend.Amount = 0 }},
		"reduced in a later chain":         {reduced, func(e *Event) { e.Amend.First = 2 }},
		"reduced without a chain":          {reduced, func(e *Event) { e.Amend.First = 0 }},
		"a reduced IOC":                    {reduced, func(e *Event) { e.TIF = IOC }},
		"executed negative shares":         {reduced, func(e *Event) { e.Amend.Executed, e.Amend.Amount = -1, 59 }},
		"nothing changed, without ref":     {forRef, func(e *Event) { e.Ref = "" }},
		"replaced by another side":         {replaced, func(e *Event) { e.Amend.Old.Side = Buy }},
		"replaced by another stp":          {replaced, func(e *Event) { e.Amend.Old.STP = CancelBoth }},
		"replaced by another post":         {replaced, func(e *Event) { e.Amend.Old.Post = true }},
		"replaced by an older":             {replaced, func(e *Event) { e.Amend.Old.Order = 4 }},
		"replaced at another limit":        {replaced, func(e *Event) { e.Amend.Limit = 3 }},
		"replaced, limit not sent":         {replaced, func(e *Event) { e.Amend.Limit = 0 }},
		"replaced, amount not sent":        {replaced, func(e *Event) { e.Amend.Amount = 0 }},
		"replaced in a later chain":        {replaced, func(e *Event) { e.Amend.First = 2 }},
		"rules with an unknown stp":        {ruled, func(e *Event) { e.AccountRules.STP = 4 }},
		"a negative limit of orders":       {ruled, func(e *Event) { e.AccountRules.OpenMax = -1 }},
		"a negative limit of dollars":      {ruled, func(e *Event) { e.AccountRules.NotionalMax.Hi = -1 }},
		"a reason of two lines":            {ruled, func(e *Event) { e.AccountRules.Block.Reason = "x\n" }},
		"a tick too large":                 {11, func(e *Event) { e.SymbolRules.Tick = orderUnitsMax }},
		"a lot too large":                  {11, func(e *Event) { e.SymbolRules.Lot = orderUnitsMax }},
		"a switch due before the epoch":    {13, func(e *Event) { e.Due = -1 }},
		"a disconnect without cancels":     {14, func(e *Event) { e.Cause = ByDisconnect }},
	} {
		e := decoded(t, AppendEvent(nil, &seeds[row.seed])) // a copy
		row.change(&e)
		b := AppendEvent(nil, &e)
		require.ErrorIs(t, DecodeEvent(b, new(Event)), ErrEvent, name)
	}
	for cause := ByBlock + 1; cause > 0; cause <<= 1 {
		e := seeds[15]
		e.Cause = cause
		require.ErrorContains(t, DecodeEvent(AppendEvent(nil, &e), new(Event)), "unknown flags")
	}
}
