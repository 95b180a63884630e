// Package version reports the version and the commit that a program was built from, however it was built: by
// make, by go build in a checkout, by go install from a module proxy, or from a source archive without git.
package version

import (
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
)

// Number is the version of this source, or the one that it will be released as. The Makefile reads it from
// here.
const Number = "0.1.0"

// linked is set by make through the linker: the commit, followed by "-modified" if files differed from it. It
// is empty without make or without git.
var linked string

// hash matches a full commit, pseudo the end of a pseudo-version of Go.
var (
	hash   = regexp.MustCompile(`^[0-9a-f]{40}$`)
	pseudo = regexp.MustCompile(`-(?:0\.)?[0-9]{14}-([0-9a-f]{12})(?:\+.*)?$`)
)

// Commit returns the commit that the program was built from and reports whether files differed from it. The
// commit has 40 digits, or 12 if it comes from a module proxy. It is empty if it is unknown.
func Commit() (commit string, modified bool) {
	info, _ := debug.ReadBuildInfo()
	return commitOf(linked, info, archived)
}

// commitOf is Commit with its sources as arguments. info may be nil.
func commitOf(linked string, info *debug.BuildInfo, archived string) (commit string, modified bool) {
	if commit, modified = strings.CutSuffix(linked, "-modified"); commit != "" {
		return commit, modified
	}
	if info != nil {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				commit = s.Value
			case "vcs.modified":
				modified = s.Value == "true"
			}
		}
		if commit != "" {
			return commit, modified
		}
		if found := pseudo.FindStringSubmatch(info.Main.Version); found != nil {
			return found[1], false
		}
	}
	if hash.MatchString(archived) {
		return archived, false
	}
	return "", false
}

// String returns the version, the commit, the Go version and the platform in one line: "0.1.0 commit 0123…
// go1.26.8 linux/amd64".
func String() string {
	commit, modified := Commit()
	switch {
	case commit == "":
		commit = "unknown"
	case modified:
		commit += " with changes"
	}
	return Number + " commit " + commit + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}
