package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOnlyWaitsAreForgiven checks .ci/test: if at most three tests fail and then pass alone, it succeeds and
// reports them. It fails after any other failure, such as a data race or a panic.
func TestOnlyWaitsAreForgiven(t *testing.T) {
	const (
		passed = "ok  \toutcry/a\t1.0s\n"
		failed = "--- FAIL: TestA (0.04s)\n    a_test.go:1: EOF\nFAIL\nFAIL\toutcry/a\t1.0s\nFAIL\n"
		other  = "--- FAIL: TestB (0.04s)\n--- FAIL: TestC (0.04s)\nFAIL\nFAIL\toutcry/b\t1.0s\n"
	)
	for name, test := range map[string]struct {
		first, again string
		passes       bool
		unsteady     string
	}{
		"all pass":            {first: passed, passes: true},
		"one passes alone":    {first: passed + failed, again: passed, passes: true, unsteady: "TestA of outcry/a\n"},
		"one fails alone too": {first: failed, again: failed},
		"three pass alone": {first: other + failed, again: passed, passes: true,
			unsteady: "TestB of outcry/b\nTestC of outcry/b\nTestA of outcry/a\n"},
		"four are too many":  {first: "--- FAIL: TestD (0.00s)\n" + other + failed, again: passed},
		"a data race":        {first: "WARNING: DATA RACE\n" + failed, again: passed},
		"a panic":            {first: "--- FAIL: TestA (0.04s)\npanic: x\nFAIL\toutcry/a\t1.0s\n", again: passed},
		"a random test":      {first: "--- FAIL: TestA (0.04s)\n    seed 7\nFAIL\toutcry/a\t1.0s\n", again: passed},
		"what is no compile": {first: "FAIL\toutcry/a [build failed]\n", again: passed},
		"a package alone":    {first: failed + "FAIL\toutcry/b\t1.0s\n", again: passed},
		"nothing said":       {first: "FAIL\n", again: passed},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, content := range map[string]string{"first": test.first, "again": test.again, "go": `#!/bin/sh
cd "` + dir + `"
[ ! -e called ] || mv again first
touch called
cat first
! grep -q FAIL first
`} {
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(content), 0o755))
			}
			run := exec.Command(filepath.Join(root, ".ci/test"), filepath.Join(dir, "go"), "-flag", "--", "./...")
			run.Env = append(os.Environ(), "UNSTEADY_TESTS="+filepath.Join(dir, "unsteady"))
			out, err := run.CombinedOutput()
			require.Equal(t, test.passes, err == nil, string(out))
			unsteady, err := os.ReadFile(filepath.Join(dir, "unsteady"))
			if test.unsteady == "" {
				require.ErrorIs(t, err, os.ErrNotExist)
			}
			require.Equal(t, test.unsteady, string(unsteady))
		})
	}
}
