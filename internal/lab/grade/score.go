package grade

import (
	"math"
	"slices"

	"outcry/internal/lab/dialect"
	"outcry/internal/lab/grade/script"
)

// formGroup is the group of cases that are judged by the remarks made during all other cases. loadGroup is
// the group of the throughput case.
const (
	formGroup = "form"
	loadGroup = "load"
)

// played is a case with its outcome.
type played struct {
	c       *script.Case
	outcome script.Outcome
	seconds float64
}

// score sets the cases, groups and score of r. all is in the order of the result.
func (r *Result) score(p *Profile, all []played) {
	r.Groups, r.Cases = []GroupResult{}, []CaseResult{}
	got, most := 0.0, 0.0
	for _, g := range script.Groups {
		own := slices.DeleteFunc(slices.Clone(all), func(of played) bool { return of.c.Group != g.Name })
		if len(own) == 0 {
			continue
		}
		of := scoreGroup(p, own)
		result := GroupResult{Name: g.Name}
		for i := range of {
			result.Points += of[i].Points
			result.Max += of[i].Max
			of[i].Points, of[i].Max = rounded(of[i].Points, places), rounded(of[i].Max, places)
		}
		got, most = got+result.Points, most+result.Max
		result.Points, result.Max = rounded(result.Points, places), rounded(result.Max, places)
		r.Groups, r.Cases = append(r.Groups, result), append(r.Cases, of...)
	}
	r.Best = p.Points
	if most > 0 {
		r.Score = rounded(p.Points*got/most, 2)
	}
}

// scoreGroup returns the results of a group's cases, with unrounded points.
func scoreGroup(p *Profile, group []played) []CaseResult {
	points := 0.0 // sum over the cases that are not skipped
	for _, of := range group {
		if of.outcome.Status != script.Skip {
			points += p.points(of.c)
		}
	}
	results := make([]CaseResult, 0, len(group))
	for _, of := range group {
		c, o := of.c, of.outcome
		result := CaseResult{Name: c.Name, Group: c.Group, Rule: c.Rule, Tell: c.Tell, Status: o.Status, Message: o.Message,
			Conversation: append([]string{}, o.Conversation...), Seconds: rounded(of.seconds, 3), Tries: o.Tries,
			Hidden: p.hidden(c)}
		if o.Status != script.Skip && points > 0 {
			result.Max = p.Weights[c.Group] * p.points(c) / points
			result.Points = result.Max * share(o)
		}
		results = append(results, result)
	}
	return results
}

// share returns the part of a case's points that it gets, from 0 to 1.
func share(o script.Outcome) float64 {
	switch o.Status {
	case script.Pass:
		return 1
	case script.Part:
		return min(max(o.Share, 0), 1)
	case script.Fail, script.Skip:
	}
	return 0
}

// places is the number of decimals of points: enough that the rounded points add up.
const places = 4

// rounded returns x rounded to a number of decimals.
func rounded(x float64, decimals int) float64 {
	unit := math.Pow10(decimals)
	return math.Round(x*unit) / unit
}

// judgeForm returns the outcome of a case of the group form. remarks has the remarks of all other cases, by form.
// any reports whether a case of another group got points.
func judgeForm(c *script.Case, remarks map[dialect.Form]dialect.Remark, any bool) script.Outcome {
	remark, seen := remarks[dialect.Form(c.Name[len(formGroup)+1:])]
	switch {
	case seen:
		return script.Outcome{Status: script.Fail, Message: remark.Detail, Tries: 1,
			Conversation: conversation(remark)}
	case !any:
		return script.Outcome{Status: script.Fail, Message: "No other case passes, so this cannot be judged."}
	}
	return script.Outcome{Status: script.Pass, Share: 1, Tries: 1}
}

// conversation returns the frames that show a remark, a line each.
func conversation(r dialect.Remark) (lines []string) {
	for _, part := range []struct{ direction, text string }{{"> ", r.Sent}, {"< ", r.Got}} {
		if part.text != "" {
			lines = append(lines, part.direction+part.text)
		}
	}
	return lines
}
