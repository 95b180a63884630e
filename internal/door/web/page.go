package web

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

// pageFiles has the files of the market page: all files in the folder page.
//
//go:embed page
var pageFiles embed.FS

// contentTypes maps the extensions of the page's files to content types. The system's table is not used, because it
// differs between machines.
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

// pagePolicy is the Content-Security-Policy: the page loads only what this server serves, and no inline scripts or
// styles.
const pagePolicy = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"

// page serves each file under /page/, index.html also at /, and the documents.
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
		panic(err) // strings can always be encoded
	}
	p.add(docsPrefix+"index.json", index)
	return p
}

// docsPrefix is the path of the documents and of index.json, which lists them.
const docsPrefix = "/page/docs/"

// addAll adds the files of a file system under a path prefix, and returns their names.
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
		panic(err) // embedded files can always be read
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

// serve sends a file. Browsers must check each time whether their copy is current, so that after an upgrade no old
// script uses the new server.
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
	_, _ = w.Write(f.bytes) // an error means that the client has disconnected
}
