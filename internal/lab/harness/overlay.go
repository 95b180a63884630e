package harness

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Edit replaces a piece of a source file for a build: Old, which must occur exactly once, becomes New.
// Differences in white space are ignored when Old is searched. The file on disk is not changed.
type Edit struct {
	File     string // relative to the repository; or a directory, in which any file except a test may contain Old
	Old, New string
	Imports  []string // packages that New needs imported
}

// Overlay writes the edited files below dir and returns the path of a file for the go command's -overlay
// flag. The error names an edit whose Old does not occur exactly once, because the source has changed.
func Overlay(root, dir string, edits []Edit) (string, error) {
	texts := map[string]string{}
	for _, e := range edits {
		if err := e.apply(root, texts); err != nil {
			return "", fmt.Errorf("harness: edit %s: %w", e.File, err)
		}
	}
	replace := map[string]string{}
	for path, text := range texts {
		replace[path] = filepath.Join(dir, fmt.Sprintf("edited-%d.go", len(replace)))
		if err := os.WriteFile(replace[path], []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("harness: edit: %w", err)
		}
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("harness: edit: %w", err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, b, 0o600); err != nil {
		return "", fmt.Errorf("harness: edit: %w", err)
	}
	return overlay, nil
}

// pattern returns a regular expression that matches Old.
func (e *Edit) pattern() *regexp.Regexp {
	words := strings.Fields(e.Old)
	for i, w := range words {
		words[i] = regexp.QuoteMeta(w)
	}
	return regexp.MustCompile(strings.Join(words, `\s+`))
}

// apply applies the edit and stores the edited file in texts, by path. Files already in texts are not read
// from disk.
func (e *Edit) apply(root string, texts map[string]string) error {
	paths := []string{filepath.Join(root, filepath.FromSlash(e.File))}
	if !strings.HasSuffix(e.File, ".go") {
		paths, _ = filepath.Glob(filepath.Join(paths[0], "*.go")) // no matches if the directory does not exist
		paths = slices.DeleteFunc(paths, func(path string) bool { return strings.HasSuffix(path, "_test.go") })
	}
	pattern, found, in, edited := e.pattern(), 0, "", ""
	for _, path := range paths {
		text, ok := texts[path]
		if !ok {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(b)
		}
		places := pattern.FindAllStringIndex(text, -1)
		found += len(places)
		for _, at := range places {
			in, edited = path, text[:at[0]]+strings.TrimSpace(e.New)+text[at[1]:]
		}
	}
	if found != 1 {
		return fmt.Errorf("%q occurs %d times, not once", e.Old, found)
	}
	for _, path := range e.Imports {
		if line := fmt.Sprintf("%q\n", path); !strings.Contains(edited, line) {
			clause := regexp.MustCompile(`(?m)^package \w+$`).FindStringIndex(edited)
			edited = edited[:clause[1]] + "\n\nimport " + line + edited[clause[1]:]
		}
	}
	texts[in] = edited
	return nil
}
