package main

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/cmd/internal/cli"
)

// update makes the test write the files generated from the table of commands.
var update = flag.Bool("update", false, "write the reference and the completions")

// TestReferenceOfCommands compares the reference and the completions with the table of commands.
func TestReferenceOfCommands(t *testing.T) {
	var page strings.Builder
	cli.PrintReference(&page, newLab(), false)
	files := map[string]string{"docs/reference/LAB.md": page.String()}
	shells := map[string]string{"bash": "outcry-lab.bash", "zsh": "_outcry-lab", "fish": "outcry-lab.fish"}
	for shell, file := range shells {
		text, _, status := lab("", "completion", shell)
		require.Equal(t, cli.ExitOK, status)
		files["deploy/completion/"+file] = text
	}
	for file, text := range files {
		if *update {
			require.NoError(t, os.WriteFile("../../"+file, []byte(text), 0o644))
		}
		got, err := os.ReadFile("../../" + file)
		require.NoError(t, err)
		require.Equal(t, text, string(got), "%s is out of date: run make reference", file)
	}
}
