// Package migrations holds the database schema as numbered SQL files. They are
// applied in order, each once, by internal/postgres. A file that has been
// released is never changed: a change is a further file.
//
// From 0008 on each statement names the schema of a relation: outcry, or people, which internal/postgres replaces by
// the schema for readers.
package migrations

import "embed"

// FS holds the migrations, named NNNN_name.sql.
//
//go:embed *.sql
var FS embed.FS
