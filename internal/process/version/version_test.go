package version

import (
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/postgres"
)

const whole = "0123456789abcdef0123456789abcdef01234567"

func TestTheCommitIsToldHoweverAProgramWasBuilt(t *testing.T) {
	module := func(version string) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}}
	}
	checkout := func(modified string) *debug.BuildInfo {
		info := module("v0.0.0-20261122220156-aaaaaaaaaaaa")
		info.Settings = []debug.BuildSetting{
			{Key: "vcs.revision", Value: whole},
			{Key: "vcs.modified", Value: modified},
		}
		return info
	}
	for name, c := range map[string]struct {
		linked   string
		info     *debug.BuildInfo
		archived string
		commit   string
		modified bool
	}{
		"make":                           {linked: whole, info: module("(devel)"), commit: whole},
		"make with changes":              {linked: whole + "-modified", commit: whole, modified: true},
		"go build":                       {info: checkout("false"), commit: whole},
		"go build with changes":          {info: checkout("true"), commit: whole, modified: true},
		"go install of a commit":         {info: module("v0.0.0-20261122220156-0123456789ab"), commit: "0123456789ab"},
		"go install after a tag":         {info: module("v0.1.1-0.20261122220156-0123456789ab"), commit: "0123456789ab"},
		"go install of a tag":            {info: module("v0.1.0"), archived: "$Format", commit: ""},
		"a source archive":               {info: module("(devel)"), archived: whole, commit: whole},
		"a folder of which nobody knows": {info: module("(devel)"), archived: "$Format"},
		"no build info":                  {},
	} {
		t.Run(name, func(t *testing.T) {
			commit, modified := commitOf(c.linked, c.info, c.archived)
			require.Equal(t, c.commit, commit)
			require.Equal(t, c.modified, modified)
		})
	}
}

// The Python client, and the changelog, repeat the version and must agree with it.
func TestWhatNamesTheVersionNamesThisOne(t *testing.T) {
	python, err := os.ReadFile("../../../clients/python/outcry.py")
	require.NoError(t, err)
	require.Contains(t, string(python), "\n__version__ = \""+Number+"\"\n")
	changes, err := os.ReadFile("../../../CHANGELOG.md")
	require.NoError(t, err)
	reads := fmt.Sprintf("reads journals up to version %d and databases up to schema version %d.",
		exchange.EventVersion, postgres.SchemaVersion())
	require.Contains(t, string(changes), "\n## "+Number+"\n")
	newest := regexp.MustCompile(`reads journals up to[^.]*\.`).
		FindString(string(changes))
		// the first match is in the newest section, which may be that of the next release
	require.Equal(t, reads, newest)
}

func TestTheVersionIsOneOfSemanticVersioning(t *testing.T) {
	require.Regexp(t, `^\d+\.\d+\.\d+$`, Number)
	require.True(t, strings.HasPrefix(String(), Number+" commit "), String())
}
