package report

import (
	"encoding/json"
	"io"

	"outcry/internal/lab/grade"
)

// WriteJSON writes r as JSON, the file of --json.
func WriteJSON(w io.Writer, r *grade.Result) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}
