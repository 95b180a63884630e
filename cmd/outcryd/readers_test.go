//go:build browser

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"outcry/docs"
)

// TestThePageOfTheAPIHasTheWholeDescription compares the API page for people with the description for programs.
func TestThePageOfTheAPIHasTheWholeDescription(t *testing.T) {
	flags, _ := dataFlags(t)
	server := start(t, flags...)
	var d map[string]any
	require.NoError(t, yaml.NewDecoder(get(t, server, "/api/v1/openapi.yaml").Body).Decode(&d))
	p := open(t, server, "page/api.html")
	p.until(`document.readyState === "complete" && document.getElementById("text").textContent !== "Loading"`)
	p.quiet()
	flat := func(s string) string { return strings.Join(strings.Fields(strings.ReplaceAll(s, "`", "")), "") }
	shown := flat(value[string](p, `document.getElementById("text").textContent`))
	headings := value[[]string](p, `[...document.querySelectorAll("#text h3")].map((h) => h.textContent)`)
	components := d["components"].(map[string]any)
	for path := range d["paths"].(map[string]any) {
		require.Contains(t, headings, "GET "+path)
		require.Contains(t, p.text("contents"), strings.TrimPrefix(path, "/api/v1"))
	}
	for name := range components["schemas"].(map[string]any) {
		require.Contains(t, headings, name)
	}
	for path, methods := range d["paths"].(map[string]any) {
		operation := methods.(map[string]any)["get"].(map[string]any)
		want := slices.Collect(maps.Keys(operation["responses"].(map[string]any)))
		parameters, _ := operation["parameters"].([]any)
		for _, one := range parameters {
			want = append(want, one.(map[string]any)["name"].(string))
		}
		events, _ := operation["responses"].(map[string]any)["200"].(map[string]any)["x-events"].(map[string]any)
		want = slices.AppendSeq(want, maps.Keys(events))
		require.ElementsMatch(t, want, firstCells(p, "path-"+operation["operationId"].(string)), path)
	}
	for name, schema := range components["schemas"].(map[string]any) {
		require.ElementsMatch(t, membersOf(schema, ""), firstCells(p, "schema-"+name), name)
	}
	// The page must have every text of the description, and every name of a parameter and of a member.
	var texts []string
	var walk func(key string, v any)
	walk = func(key string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, member := range v {
				if key == "properties" || key == "x-events" {
					texts = append(texts, k)
				}
				walk(k, member)
			}
		case []any:
			for _, item := range v {
				walk(key, item)
			}
		case string:
			if slices.Contains([]string{"description", "summary", "name", "pattern"}, key) {
				texts = append(texts, flat(v))
			}
		}
	}
	walk("", d)
	require.Greater(t, len(texts), 100)
	for _, text := range texts {
		require.Contains(t, shown, text)
	}
	require.Contains(t, shown, "curl'http://"+server.http+"/api/v1/book/SPY?depth=2'")
	for _, width := range []int64{390, 1366} {
		p.picture(fmt.Sprintf("api-%d", width), width, 844, "light")
	}
	p.do(chromedp.Evaluate[chromedp.Void](`location.hash = "#path-getBook"`))
	p.until(`scrollY > 500`)
	p.picture("api-book", 1366, 844, "dark")
	broken := value[[]string](p, `[...document.querySelectorAll("a[href^='#']")].map((a) => a.getAttribute("href"))`+
		`.filter((href) => document.getElementById(href.slice(1)) === null)`)
	require.Empty(t, broken)
	p.quiet()
}

// firstCells returns the text in the first cell of each table row, for the tables in the element with an id.
func firstCells(p *tab, id string) []string {
	p.t.Helper()
	return value[[]string](p, fmt.Sprintf(
		`[...document.querySelectorAll("#%s td:first-child code")].map((code) => code.textContent)`, id))
}

// membersOf returns the names of a schema's members. Members of nested objects follow the object's name and a dot.
func membersOf(schema any, before string) (names []string) {
	s := schema.(map[string]any)
	if items, ok := s["items"]; ok && before != "" {
		return membersOf(items, before)
	}
	members, _ := s["properties"].(map[string]any)
	for name, member := range members {
		names = append(append(names, before+name), membersOf(member, before+name+".")...)
	}
	return names
}

// TestThePageOfTheDocumentsShowsThemAll opens each document through its link, as people do.
func TestThePageOfTheDocumentsShowsThemAll(t *testing.T) {
	flags, _ := dataFlags(t)
	server := start(t, flags...)
	p := open(t, server, "page/docs.html")
	p.until(`document.querySelector("#text h1") !== null`)
	require.Equal(t, "Documents", value[string](p, `document.querySelector("#text h1").textContent`))
	var names []string
	fetch(t, server.http, "/page/docs/index.json", &names)
	require.Contains(t, names, "GUIDE.md")
	require.Contains(t, names, "decisions/0007-rows-know-their-record.md")
	for _, name := range names {
		text, err := docs.Pages.ReadFile(name)
		require.NoError(t, err)
		title, _, _ := strings.Cut(strings.TrimPrefix(string(text), "# "), "\n")
		title = strings.ReplaceAll(title, "`", "")
		p.do(chromedp.Evaluate[chromedp.Void](`location.hash = "#` + strings.TrimSuffix(name, ".md") + `"`))
		p.until(fmt.Sprintf(`document.querySelector("#text h1")?.textContent === %q`, title))
		// No Markdown syntax is left, and links to headings within the document work.
		require.Empty(t, value[[]string](p, leftOver), name)
	}
	p.do(chromedp.Evaluate[chromedp.Void](`location.hash = "#GUIDE:a-living-market"`))
	p.until(`document.getElementById("a-living-market")?.getBoundingClientRect().top < 40`)
	for _, width := range []int64{390, 1366} {
		p.picture(fmt.Sprintf("docs-%d", width), width, 844, "light")
	}
	p.do(chromedp.Evaluate[chromedp.Void](`location.hash = "#../../etc/passwd"`))
	p.until(`document.getElementById("text").textContent.startsWith("There is no document")`)
	p.do(chromedp.Evaluate[chromedp.Void](`location.hash = "#100%"`))
	p.until(`document.getElementById("text").textContent.startsWith("There is no document 100% here")`)

	// A slow answer must not replace the result of a later request.
	p.do(chromedp.Evaluate[chromedp.Void](`{
		const real = window.fetch;
		window.fetch = (path, options) => !path.endsWith("/GUIDE.md") ? real(path, options) : new Promise((answer) => {
			window.answerGuide = async () => answer(await real(path, options));
		});
		location.hash = "#GUIDE";
	}`))
	p.until(`window.answerGuide !== undefined`)
	p.do(chromedp.Evaluate[chromedp.Void](`location.hash = "#OPERATIONS"`))
	p.until(`document.querySelector("#text h1")?.textContent === "Operations"`)
	p.do(chromedp.Evaluate[chromedp.Void](`answerGuide().then(() => setTimeout(() => { window.answered = true; }, 300))`))
	p.until(`window.answered === true`)
	require.Equal(t, "Operations", value[string](p, `document.querySelector("#text h1").textContent`))
	p.quiet()
}

const leftOver = `(() => {
	const bad = [];
	for (const e of document.querySelectorAll("#text :is(p, li, td, th, h1, h2, h3, h4)")) {
		for (const node of e.childNodes) {
			if (node.nodeType === Node.TEXT_NODE && /\]\(|\*\*|^#|^ *\|/.test(node.textContent)) bad.push(node.textContent);
		}
	}
	const name = location.hash.slice(1);
	for (const a of document.querySelectorAll("#text a[href^='#']")) {
		const [to, heading] = a.getAttribute("href").slice(1).split(":");
		if (to === name && heading !== undefined && document.getElementById(heading) === null) bad.push(a.href);
	}
	return bad;
})()`
