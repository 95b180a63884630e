package dialect

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// clockMax is how far a server's clock may be off.
const clockMax = 24 * time.Hour

var (
	decimal = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)$`)
	seconds = regexp.MustCompile(`^[0-9]{10}$`)
)

// inspect returns the faults of form that the reply alone shows, at most one for each form. now is
// when the reply arrived.
func inspect(root *Element, h Habits, now time.Time) []Remark {
	f := findings{}
	if root.Name != "results" && !(h.ResultRoot && root.Name == "result") {
		f.add(Root, "the root of the reply is <%s> instead of <results>", excerpt(root.Name))
	}
	for _, e := range root.Children {
		switch e.Name {
		case "error":
			if e.Text == "" && len(e.Children) == 0 {
				f.add(ErrorText, "an <error> has no text that says what is wrong")
			}
		case "status", "canceled":
			f.parts(e, now)
		}
	}
	return f.remarks
}

// findings collects faults of form, at most one for each form.
type findings struct{ remarks []Remark }

// add adds a finding, unless there is already one of the same form.
func (f *findings) add(form Form, format string, args ...any) {
	for _, r := range f.remarks {
		if r.Form == form {
			return
		}
	}
	f.remarks = append(f.remarks, Remark{Form: form, Detail: fmt.Sprintf(format, args...)})
}

// parts checks the parts of a <status> or <canceled>.
func (f *findings) parts(status *Element, now time.Time) {
	last := int64(0)
	for _, e := range status.Children {
		switch e.Name {
		case "open":
			f.shares(e)
			if n, err := strconv.ParseFloat(value(e, "shares"), 64); err == nil && n == 0 {
				f.add(OpenZero, `<open shares="%s"/>: an order with nothing open must have no <open>`,
					value(e, "shares"))
			}
		case "canceled":
			f.shares(e)
			f.time(e, now)
		case "executed":
			f.shares(e)
			f.number(e, "price")
			at := f.time(e, now)
			if 0 < at && at < last {
				f.add(ExecutionsOrder, "an execution of time %d is listed before one of time %d: they must be oldest first",
					last, at)
			}
			last = max(last, at)
		}
	}
}

// shares checks the attribute shares of a part.
func (f *findings) shares(e *Element) {
	f.number(e, "shares")
	if s := value(e, "shares"); s != "" && s[0] == '-' {
		f.add(Sign, `<%s shares="%s"/>: shares are positive for buys and sells`, e.Name, excerpt(s))
	}
}

// number checks the form of an attribute whose number the server writes itself; a missing one is no fault.
func (f *findings) number(e *Element, name string) {
	if s, ok := e.Attr(name); ok && !decimal.MatchString(s) {
		f.add(Number, `<%s %s="%s"/>: %s is not a decimal number as the protocol writes them`, e.Name, name,
			excerpt(s), name)
	}
}

// time checks the attribute time of a part, and returns it in seconds since 1970, or 0 if it is malformed.
func (f *findings) time(e *Element, now time.Time) int64 {
	s, ok := e.Attr("time")
	if !ok {
		f.add(Time, "<%s> has no time", e.Name)
		return 0
	}
	if !seconds.MatchString(s) {
		f.add(Time, `time="%s" is not the seconds since 1970, in ten digits`, excerpt(s))
		return 0
	}
	at, _ := strconv.ParseInt(s, 10, 64)
	if now.Sub(time.Unix(at, 0)).Abs() > clockMax {
		f.add(Time, `time="%s" is more than a day away from now, %d`, s, now.Unix())
	}
	return at
}

// value returns an attribute's value, or "" if e does not have it.
func value(e *Element, name string) string {
	s, _ := e.Attr(name)
	return s
}
