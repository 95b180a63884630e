package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/cmd/internal/cli"
	"outcry/internal/process/version"
)

func TestTheVersionIsPrinted(t *testing.T) {
	var stdout, stderr strings.Builder
	require.Equal(t, cli.ExitOK, run([]string{"version"}, strings.NewReader(""), &stdout, &stderr))
	require.Equal(t, "outcry "+version.String()+"\n", stdout.String())
	require.Empty(t, stderr.String())
}
