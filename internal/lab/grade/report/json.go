package report

import (
	"encoding/json"
	"io"

	"outcry/internal/lab/grade"
)

// WriteJSON writes the file of --json: r itself.
func WriteJSON(w io.Writer, r *grade.Result) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}
