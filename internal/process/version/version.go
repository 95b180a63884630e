// Package version tells which version and commit a program was built from, however it was
// built: by make, by go build in a checkout, by go install from a module proxy, or from a
// source archive without git.
package version

import (
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
)

// Number is the version that this source is, or becomes when it is released. The
// Makefile reads it here.
const Number = "0.1.0"

// linked is what make had the linker say: the commit, and "-modified" behind it if files
// differed from it. It is empty without make, and without git.
var linked string

// hash is a whole commit, pseudo the end of a version that Go made of one.
var (
	hash   = regexp.MustCompile(`^[0-9a-f]{40}$`)
	pseudo = regexp.MustCompile(`-(?:0\.)?[0-9]{14}-([0-9a-f]{12})(?:\+.*)?$`)
)

// Commit returns the commit that the program was built from and reports whether files
// differed from it. The commit has 40 digits, 12 if a module proxy told it, and is empty if
// nothing knows it.
func Commit() (commit string, modified bool) {
	info, _ := debug.ReadBuildInfo()
	return commitOf(linked, info, archived)
}

// commitOf is Commit with what it knows as arguments. info may be nil.
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

// String returns the version, the commit, and what compiled it for which system, in one
// line: "0.1.0 commit 0123… go1.26.8 linux/amd64".
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
