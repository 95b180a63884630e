package wire

import (
	"strconv"

	"outcry/internal/exchange"
)

// appendOrderID appends an order id as an attribute.
func appendOrderID(dst []byte, name string, id exchange.OrderID) []byte {
	return appendNumber(dst, name, uint64(id))
}

// appendNumber appends a whole number as an attribute.
func appendNumber(dst []byte, name string, n uint64) []byte {
	dst = append(append(append(dst, ' '), name...), `="`...)
	return append(strconv.AppendUint(dst, n, 10), '"')
}

// decimalValue is a number that can append its shortest exact decimal form.
type decimalValue interface{ Append(dst []byte) []byte }

// appendValue appends a decimal as an attribute.
func appendValue[V decimalValue](dst []byte, name string, v V) []byte {
	dst = append(append(append(dst, ' '), name...), `="`...)
	return append(v.Append(dst), '"')
}

// appendTime appends a time, given in nanoseconds since the Unix epoch, as an attribute in whole seconds.
func appendTime(dst []byte, nanoseconds int64) []byte {
	dst = append(dst, ` time="`...)
	return append(strconv.AppendInt(dst, exchange.Seconds(nanoseconds), 10), '"')
}

// appendStatus appends <status> or <canceled>, as given by name.
func appendStatus(dst []byte, name string, e echo, c *exchange.Command, r *exchange.Result) []byte {
	dst = append(append(dst, '<'), name...)
	dst = e.append(dst)
	if c.Ref != "" {
		dst = appendOrderID(dst, "id", r.Order)
	}
	dst = append(dst, '>')
	dst = appendExecutions(appendState(dst, &r.Status), r.Status.Executions)
	dst = append(append(dst, "</"...), name...)
	return append(dst, '>')
}

// appendState appends the state of an order without its executions: open and canceled shares, and the
// effects of amends.
func appendState(dst []byte, s *exchange.Status) []byte {
	if s.Open > 0 {
		dst = append(dst, `<open shares="`...)
		dst = append(s.Open.Append(dst), `"/>`...)
	}
	if s.Canceled > 0 {
		dst = append(dst, `<canceled shares="`...)
		dst = append(s.Canceled.Append(dst), '"')
		dst = append(appendTime(dst, s.CanceledAt), "/>"...)
	}
	if s.Changes == nil {
		return dst
	}
	if s.Changes.Replaced > 0 {
		dst = appendOrderID(append(dst, "<replaced"...), "id", s.Changes.Replaced)
		dst = append(dst, "/>"...)
	}
	return appendReduced(dst, s.Changes.Reduced, s.Changes.ReducedAt)
}

// appendReduced appends the shares that amends removed in place, unless there are none.
func appendReduced(dst []byte, shares exchange.Shares, at int64) []byte {
	if shares == 0 {
		return dst
	}
	dst = append(dst, `<reduced shares="`...)
	dst = append(shares.Append(dst), '"')
	return append(appendTime(dst, at), "/>"...)
}

// appendExecutions appends executions, oldest first.
func appendExecutions(dst []byte, executions []exchange.Execution) []byte {
	for i := range executions {
		x := &executions[i]
		dst = append(dst, `<executed shares="`...)
		dst = append(x.Shares.Append(dst), `" price="`...)
		dst = append(x.Price.Append(dst), '"')
		dst = append(appendTime(dst, x.Time), "/>"...)
	}
	return dst
}

// appendReport appends the status of an order right after it was accepted. It contains at most
// ReportExecutionsMax executions, followed by <more/> if any were left out.
func appendReport(dst []byte, r *exchange.Result) []byte {
	executions := r.Status.Executions
	most := min(len(executions), exchange.ReportExecutionsMax)
	dst = appendExecutions(appendState(dst, &r.Status), executions[:most])
	if most < len(executions) || r.Cut {
		dst = append(dst, "<more/>"...)
	}
	return dst
}

// appendAmended appends <amended>.
func appendAmended(dst []byte, e echo, c *exchange.Command, r *exchange.Result) []byte {
	a, sent := r.Amended, e.sent
	dst = append(dst, "<amended"...)
	if c.Ref != "" {
		dst = appendOrderID(appendAttr(dst, "ref", sent.get("ref")), "id", r.Order)
	} else {
		dst = appendAttr(dst, "id", sent.get("id"))
	}
	if a.By > 0 {
		dst = appendOrderID(dst, "by", a.By)
	}
	for _, name := range [...]string{"amount", "limit", "report", "newref"} {
		if value := sent.get(name); value != "" {
			dst = appendAttr(dst, name, value)
		}
	}
	if a.By > 0 && !c.Report {
		return append(dst, "/>"...)
	}
	dst = append(dst, '>')
	if a.By > 0 {
		dst = appendReport(dst, r)
	} else {
		dst = append(appendValue(append(dst, "<open"...), "shares", a.Open), "/>"...)
		dst = appendReduced(dst, a.Reduced, a.Time)
	}
	return append(dst, "</amended>"...)
}
