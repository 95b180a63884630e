package recovery

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/journal"
	"outcry/internal/operate/settings"
	"outcry/internal/postgres"
)

// TestAStartJudgesTheJournalByTheDatabase covers every combination of journal and database.
func TestAStartJudgesTheJournalByTheDatabase(t *testing.T) {
	ours, other := [16]byte{1}, [16]byte{2}
	const refuse, lost, older = "this data directory belongs to another database", "records that were answered may be " +
		"lost", "the database is older than the journal's start"
	none := journal.Summary{}
	of := func(id [16]byte, first, last uint64) journal.Summary {
		return journal.Summary{ID: id, Segments: 1, First: first, Last: last}
	}
	const proceed, aside = "go on", "aside"
	for name, c := range map[string]struct {
		found      journal.Summary
		registered [16]byte
		applied    uint64
		kept       string // expected result if no loss is accepted
		mayLose    string
	}{
		"both new":                                {none, [16]byte{}, 0, proceed, proceed},
		"database new":                            {of(ours, 1, 100), [16]byte{}, 0, proceed, proceed},
		"database new, journal begun later":       {of(ours, 5, 100), [16]byte{}, 0, older, older},
		"no journal":                              {none, ours, 100, lost, proceed},
		"no journal, none applied":                {none, ours, 0, lost, proceed},
		"no journal, none registered":             {none, [16]byte{}, 100, lost, proceed},
		"ahead":                                   {of(ours, 1, 120), ours, 100, proceed, proceed},
		"level":                                   {of(ours, 1, 100), ours, 100, proceed, proceed},
		"next":                                    {of(ours, 101, 120), ours, 100, proceed, proceed},
		"gap":                                     {of(ours, 102, 120), ours, 100, older, older},
		"gap, without a record":                   {of(ours, 102, 101), ours, 100, older, older},
		"behind":                                  {of(ours, 1, 99), ours, 100, lost, aside},
		"behind, none registered":                 {of(ours, 1, 99), [16]byte{}, 100, lost, aside},
		"behind, without a record":                {of(ours, 1, 0), ours, 100, lost, aside},
		"without a record":                        {of(ours, 101, 100), ours, 100, proceed, proceed},
		"another, ahead":                          {of(other, 1, 120), ours, 100, refuse, refuse},
		"another, behind":                         {of(other, 1, 99), ours, 100, refuse, refuse},
		"another, without a record":               {of(other, 101, 100), ours, 100, lost, proceed},
		"another, behind and without a record":    {of(other, 1, 0), ours, 100, lost, aside},
		"another, none applied":                   {of(other, 1, 3), ours, 0, refuse, refuse},
		"another without a record, none applied":  {of(other, 1, 0), ours, 0, lost, proceed},
		"another's later part, without a record":  {of(other, 200, 199), ours, 100, older, older},
		"another's later part, which has records": {of(other, 200, 300), ours, 100, refuse, refuse},
	} {
		t.Run(name, func(t *testing.T) {
			judged := func(accept bool, ack string) string {
				setAside, err := judge(&settings.Config{Data: "/data", AcceptJournalLoss: accept}, c.found,
					postgres.Position{Applied: c.applied, Journal: c.registered, Ack: ack})
				switch {
				case err != nil:
					require.False(t, setAside)
					return err.Error()
				case setAside:
					return aside
				}
				return proceed
			}
			require.Contains(t, judged(false, settings.AckJournal), c.kept)
			require.Contains(t, judged(true, settings.AckJournal), c.mayLose)
			require.Contains(t, judged(false, settings.AckPostgres), c.mayLose)
		})
	}
}
