package grade

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/dialect"
	"outcry/internal/lab/grade/script"
)

// Students see the cases of the group form, which must not reveal the input of a hidden case. A remark from a visible
// case takes precedence.
func TestAHiddenCaseIsNotShownByItsForm(t *testing.T) {
	remark := func(form dialect.Form, by string) dialect.Remark {
		return dialect.Remark{Form: form, Detail: by + " tells", Sent: "<" + by + "/>", Got: "<results/>"}
	}
	var r *runner
	remarks := func(all ...dialect.Remark) func(context.Context, *server, *script.Case) script.Outcome {
		return func(context.Context, *server, *script.Case) script.Outcome {
			for _, each := range all {
				r.remark(each)
			}
			return passed
		}
	}
	s := &server{t: t, does: map[string]func(context.Context, *server, *script.Case) script.Outcome{
		"create/1": remarks(remark(dialect.Sign, "visible")),
		"create/2": remarks(remark(dialect.Sign, "x"), remark(dialect.Echo, "x"), remark(dialect.Number, "x")),
		"create/3": remarks(remark(dialect.Number, "visible again")),
		"create/4": remarks(remark(dialect.Number, "y"), remark(dialect.Time, "y")),
	}}
	cases := named("create/1", "create/2", "create/3", "create/4", "form/echo", "form/number", "form/sign", "form/time")
	cases[1].Hidden = true
	p, err := ReadProfile([]byte("[case.\"create/4\"]\nhidden = true\n"), cases)
	require.NoError(t, err)
	r = newRunner(Options{Target: s, Cases: cases, Profile: p})
	r.driver = s
	result, err := r.run(t.Context())
	require.NoError(t, err)
	got := outcomes(result)
	require.Equal(t, "fail Seen in a hidden case.", got["form/echo"])
	require.Equal(t, "fail visible again tells", got["form/number"])
	require.Equal(t, "fail visible tells", got["form/sign"])
	require.Equal(t, "fail Seen in a hidden case.", got["form/time"])
	shown := map[string][]string{}
	for _, c := range result.Cases {
		if c.Group == formGroup {
			shown[c.Name] = c.Conversation
		}
	}
	require.Equal(t, map[string][]string{"form/echo": {}, "form/time": {},
		"form/number": {"> <visible again/>", "< <results/>"}, "form/sign": {"> <visible/>", "< <results/>"}}, shown)
}

// Cases that were not run after a hidden case do not name it.
func TestAHiddenCaseIsNotNamedByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{t: t, does: map[string]func(context.Context, *server, *script.Case) script.Outcome{
			"create/secret": crashes(script.Outcome{Status: script.Fail, Tries: 1, Trouble: true})}}
		cases := named("create/secret", "create/two")
		cases[0].Hidden = true
		r, err := graded(t.Context(), s, Options{Cases: cases})
		require.NoError(t, err)
		require.Equal(t, "fail Not run: the server has not answered since a hidden case.", outcomes(r)["create/two"])
	})
}
