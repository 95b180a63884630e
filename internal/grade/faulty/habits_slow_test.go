//go:build slow

package faulty

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/grade/dialog"
	"outcry/internal/grade/script"
)

// TestAHabitCostsItsOwnCase grades servers that are right but for how they speak.
func TestAHabitCostsItsOwnCase(t *testing.T) {
	for _, c := range []struct {
		habits dialog.Habits
		costs  []string
	}{
		{dialog.Habits{AccountAttribute: true}, []string{"form/account-attribute"}},
		{dialog.Habits{CRLF: true}, []string{"form/length-line"}},
		{dialog.Habits{Bare: true}, []string{"form/length-line"}},
		{dialog.Habits{WrongLength: true}, []string{"form/length"}},
		{dialog.Habits{OneFrame: true}, []string{"frames/two-on-one-connection"}},
		{dialog.Habits{ErrorCloses: true}, []string{"frames/two-on-one-connection"}},
		{dialog.Habits{ResultRoot: true}, []string{"form/root"}},
		{dialog.Habits{Whole: true}, []string{"money/fractions"}},
		{dialog.Habits{AccountAttribute: true, CRLF: true, WrongLength: true, OneFrame: true, ResultRoot: true},
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
