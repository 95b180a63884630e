package market

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"outcry/docs"
)

// pageFiles are the files of the market page: whatever is in the folder page.
//
//go:embed page
var pageFiles embed.FS

// contentTypes are those of the files that a page is made of. The table of the
// machine is not asked: it may say anything.
var contentTypes = map[string]string{
	".css":  "text/css; charset=utf-8",
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".mjs":  "text/javascript; charset=utf-8",
	".json": "application/json",
	".svg":  "image/svg+xml",
	".png":  "image/png",
	".ico":  "image/x-icon",
	".txt":  "text/plain; charset=utf-8",
	".md":   "text/plain; charset=utf-8",
}

// pagePolicy lets the page load what this server serves and nothing else, and no
// script or style that is not a file.
const pagePolicy = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"

// page serves the files, each under /page/, index.html at / too, and the documents.
type page struct{ files map[string]pageFile }

type pageFile struct {
	bytes     []byte
	kind, tag string
}

func newPage() *page {
	p := &page{files: make(map[string]pageFile)}
	p.addAll(pageFiles, "/")
	names := p.addAll(docs.Pages, docsPrefix)
	index, err := json.Marshal(names)
	if err != nil {
		panic(err) // they are strings
	}
	p.add(docsPrefix+"index.json", index)
	return p
}

// docsPrefix is where the documents are served, and index.json, which lists them.
const docsPrefix = "/page/docs/"

// addAll adds the files of a file system below a prefix, and returns their names.
func (p *page) addAll(files embed.FS, prefix string) (names []string) {
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		p.add(prefix+name, b)
		names = append(names, name)
		return nil
	})
	if err != nil {
		panic(err) // the files are in the program
	}
	return names
}

func (p *page) add(name string, b []byte) {
	kind := contentTypes[path.Ext(name)]
	if kind == "" {
		kind = "application/octet-stream"
	}
	sum := sha256.Sum256(b)
	p.files[name] = pageFile{b, kind, `"` + hex.EncodeToString(sum[:16]) + `"`}
}

func (p *page) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, "/page/index.html") })
	mux.HandleFunc("GET /page/", func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, r.URL.Path) })
}

// serve answers with a file. Browsers ask each time whether theirs is still the one:
// after an upgrade no old script meets a new server.
func (p *page) serve(w http.ResponseWriter, r *http.Request, name string) {
	f, ok := p.files[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", f.tag)
	if strings.Contains(r.Header.Get("If-None-Match"), f.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(f.bytes) // a client that is gone misses it
}
