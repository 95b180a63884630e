package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"outcry/internal/testing/exchangetest"
	"outcry/internal/testing/pgtest"
)

func TestMain(m *testing.M) {
	if args := os.Getenv(runVariable); args != "" {
		os.Exit(run(strings.Fields(args), os.Stdin, os.Stdout, os.Stderr))
	}
	status := pgtest.Main(m)
	exchangetest.RemoveBuilt()
	os.Exit(status)
}

// runVariable makes the test program run as outcry-lab itself, so that tests can stop it.
const runVariable = "OUTCRY_TEST_RUN"

// lab runs a command line and returns its output, with times replaced by T.
func lab(stdin string, args ...string) (stdout, stderr string, status int) {
	var out, err strings.Builder
	status = run(args, strings.NewReader(stdin), &out, &err)
	times := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|time="\d+"`)
	return times.ReplaceAllString(out.String(), "T"), err.String(), status
}
