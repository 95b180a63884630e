//go:build slow

package faulty

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/dialect"
	"outcry/internal/lab/grade/script"
)

// The test grades servers that are correct except for their habits.
func TestAHabitCostsItsOwnCase(t *testing.T) {
	for _, c := range []struct {
		habits dialect.Habits
		costs  []string
	}{
		{dialect.Habits{AccountAttribute: true}, []string{"form/account-attribute"}},
		{dialect.Habits{CRLF: true}, []string{"form/length-line"}},
		{dialect.Habits{Bare: true}, []string{"form/length-line"}},
		{dialect.Habits{WrongLength: true}, []string{"form/length"}},
		{dialect.Habits{OneFrame: true}, []string{"frames/two-on-one-connection"}},
		{dialect.Habits{ErrorCloses: true}, []string{"frames/two-on-one-connection"}},
		{dialect.Habits{ResultRoot: true}, []string{"form/root"}},
		{dialect.Habits{Whole: true}, []string{"money/fractions"}},
		{dialect.Habits{AccountAttribute: true, CRLF: true, WrongLength: true, OneFrame: true, ResultRoot: true},
			[]string{"frames/two-on-one-connection", "form/account-attribute", "form/length", "form/length-line", "form/root"}},
	} {
		t.Run(fmt.Sprintf("%+v", c.habits), func(t *testing.T) {
			r := gradeOf(t, attached(t, Options{Habits: c.habits}), gradeTime)
			require.Equal(t, c.habits, r.Habits)
			var failed []string
			for _, played := range r.Cases {
				if played.Status != script.Pass && played.Status != script.Skip {
					failed = append(failed, played.Name)
				}
			}
			require.ElementsMatch(t, c.costs, failed, failures(r, ""))
		})
	}
}
