package mutation

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
	"time"

	"outcry/internal/lab/harness"
	"outcry/internal/lab/torture"
)

//go:embed mutations.txt
var text string

// read parses mutations. The error names the malformed line.
func read(text string) (all []Mutation, err error) {
	for n, line := range strings.Split(text, "\n") {
		key, value, _ := strings.Cut(line, " ")
		if value = strings.TrimSpace(value); key == "" || key == "#" {
			continue
		}
		if key == "mutation" {
			all = append(all, Mutation{Name: value})
			continue
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("mutation: line %d: %q is outside any mutation", n+1, line)
		}
		if err := all[len(all)-1].addLine(key, value, line); err != nil {
			return nil, fmt.Errorf("mutation: line %d: %w", n+1, err)
		}
	}
	return all, nil
}

// addLine processes a line.
func (m *Mutation) addLine(key, value, line string) (err error) {
	switch key {
	case "breaks":
		m.Promise = value
	case "torture":
		m.plan, err = torture.Server.ParsePlan(value)
	case "cluster":
		m.cluster, err = torture.Cluster.ParsePlan(value)
	case "books":
		m.books, err = time.ParseDuration(value)
	case "tests":
		m.pkg, m.test, _ = strings.Cut(value, " ")
	case "noticed":
		pattern, err := regexp.Compile(value)
		m.noticed = append(m.noticed, pattern)
		return err
	case "in":
		m.edits = append(m.edits, harness.Edit{File: value})
	case "import", "-", "+":
		if len(m.edits) == 0 {
			return fmt.Errorf("%q is in no file", line)
		}
		e := &m.edits[len(m.edits)-1]
		switch key {
		case "import":
			e.Imports = append(e.Imports, strings.Fields(value)...)
		case "-":
			e.Old += strings.TrimPrefix(line[1:], " ") + "\n"
		case "+":
			e.New += strings.TrimPrefix(line[1:], " ") + "\n"
		}
	default:
		err = fmt.Errorf("%q is not a field of a mutation", key)
	}
	return err
}
