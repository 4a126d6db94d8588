package main

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func TestNumbered(t *testing.T) {
	for described, want := range map[string]string{
		"v0.1.0":                   "0.1.0",
		"v1.0.0-rc.1":              "1.0.0-rc.1",
		"v0.1.0-5-g0123abc":        "0.1.0+5.g0123abc",
		"v0.1.0-5-g0123abc-dirty":  "0.1.0+5.g0123abc.dirty",
		"0123abc":                  "0.0.0+g0123abc",
		"0123abcdef01-dirty":       "0.0.0+g0123abcdef01.dirty",
		"v0.1.0-dirty":             "0.1.0+dirty",
		"":                         "",
		"unknown":                  "",
		"v1":                       "",
		"v0.1.0 && rm":             "",
		"v0.1.0-rc.1-2-g0123abcd":  "0.1.0-rc.1+2.g0123abcd",
		"v0.1.0-rc.1-2-g0123abcd ": "",
	} {
		got, err := numbered(described)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("numbered(%q) = %q, %v, want %q", described, got, err, want)
		}
	}
}

var linked = regexp.MustCompile(`\]\(([^)#\s:]+)[)#]`)

// What the pages of a release link to is in it: they are read where there is no checkout.
// The tag that a release is made of is the newest release of the changelog: here, and for the checkout as it is.
func TestTagsAreTheNewestReleaseOfTheChangelog(t *testing.T) {
	own := release{source: filepath.Join("..", "..")}
	text, err := os.ReadFile(filepath.Join(own.source, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	newest := heading.FindSubmatch(text)
	if newest == nil {
		t.Fatal("CHANGELOG.md has no release")
	}
	own.described = "v" + string(newest[1])
	if err := own.checkHeading(); err != nil {
		t.Error(err)
	}
	for described, fits := range map[string]bool{
		"v1.2.3": true, "v1.2.3-dirty": true, "v1.2.3-4-gabcdef0": true, "abcdef0": true, "v1.2.4": false, "v1.2.2": false, "v1.2.3-rc.1": false,
	} {
		r := release{source: t.TempDir(), described: described}
		if err := os.WriteFile(filepath.Join(r.source, "CHANGELOG.md"), []byte("# C\n\n## [Unreleased]\n\n## [1.2.3] - 2026-01-02\n\n## [1.2.2] - 2026-01-01\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := r.checkHeading(); (err == nil) != fits {
			t.Errorf("%s: %v", described, err)
		}
	}
	r := release{source: t.TempDir(), described: "v1.2.3"}
	if err := os.WriteFile(filepath.Join(r.source, "CHANGELOG.md"), []byte("## [Unreleased]\n"), 0o600); err != nil || r.checkHeading() == nil {
		t.Error("a tag without a release in the changelog is built", err)
	}
}

func TestLinksOfCarriedPages(t *testing.T) {
	r := &release{source: filepath.Join("..", "..")}
	if err := r.carry(); err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, f := range r.shared {
		for at := f.name; at != "."; at = path.Dir(at) {
			there[at] = true // folders, too
		}
	}
	for _, f := range r.shared {
		if !strings.HasSuffix(f.name, ".md") || strings.HasPrefix(f.name, "docs/rfcs/") { // which tell of their day
			continue
		}
		for _, m := range linked.FindAllSubmatch(f.data, -1) {
			if to := path.Join(path.Dir(f.name), string(m[1])); !there[to] {
				t.Errorf("%s links to %s, which is not in a release", f.name, to)
			}
		}
	}
}

// Two releases of one commit have the same bytes, whatever the folders, the times of the files and the umask.
func TestSameBytes(t *testing.T) {
	at := time.Date(2026, 11, 27, 3, 0, 0, 0, time.UTC)
	artefacts := func(mode os.FileMode, touched time.Time) map[string][]byte {
		t.Helper()
		r := &release{source: filepath.Join("..", ".."), out: t.TempDir(), work: t.TempDir(), number: "0.1.0", commit: "0123456789ab", at: at}
		r.shared = sharedFiles(t)
		var linux []built
		for _, p := range []platform{{"linux", "amd64"}, {"windows", "arm64"}} {
			b := built{p, filepath.Join(r.work, p.String(), "weir")}
			binary(t, b.path, mode, touched)
			if err := r.pack(b); err != nil {
				t.Fatal(err)
			}
			if p.system == "linux" {
				linux = append(linux, b)
			}
		}
		if err := r.image(linux); err != nil {
			t.Fatal(err)
		}
		if err := r.sums(); err != nil {
			t.Fatal(err)
		}
		found := map[string][]byte{}
		entries, _ := os.ReadDir(r.out)
		for _, e := range entries {
			found[e.Name()], _ = os.ReadFile(filepath.Join(r.out, e.Name()))
		}
		return found
	}
	first := artefacts(0o755, at)
	second := artefacts(0o700, at.Add(time.Hour))
	for _, name := range []string{
		"weir_0.1.0_linux_amd64.tar.gz", "weir_0.1.0_windows_arm64.zip", "weir_0.1.0_linux_amd64.cdx.json", "weir_0.1.0-1_amd64.deb",
		"weir-0.1.0-1.x86_64.rpm", "weir_0.1.0_image.tar", sumsName,
	} {
		if len(first[name]) == 0 || !bytes.Equal(first[name], second[name]) {
			t.Errorf("%s has %d bytes, then %d, and they differ", name, len(first[name]), len(second[name]))
		}
	}
	if bom := first["weir_0.1.0_linux_amd64.cdx.json"]; !bytes.Contains(bom, []byte(`"pkg:golang/github.com/goreleaser/nfpm/v2@`)) || !json.Valid(bom) {
		t.Errorf("the bill of materials lacks a module that is linked in: %.300s", bom)
	}
}

// binary is a Go program: this one.
func binary(t *testing.T, to string, mode os.FileMode, at time.Time) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(to, at, at); err != nil {
		t.Fatal(err)
	}
}

func sharedFiles(t *testing.T) []file {
	t.Helper()
	var files []file
	for _, name := range []string{"LICENSE", "NOTICE", "configs/weir.example.yml", "configs/systemd/weir.service"} {
		data, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file{name, 0o644, data})
	}
	return append(files, file{"man/man1/weir.1", 0o644, []byte(".TH WEIR 1\n")}, file{"completions/weir.bash", 0o644, []byte("complete weir\n")})
}

// The image starts as the Containerfile says, and has all files that it copies.
func TestContainerfile(t *testing.T) {
	text, err := os.ReadFile("../../configs/kubernetes/Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	r, err := parseContainerfile(text)
	if err != nil {
		t.Fatal(err)
	}
	want := []copied{{"weir", "weir"}, {"LICENSE", "licenses/LICENSE"}, {"NOTICE", "licenses/NOTICE"},
		{"ca-certificates.crt", "etc/ssl/certs/ca-certificates.crt"}}
	if !reflect.DeepEqual(r.copies, want) {
		t.Errorf("copies %v, want %v", r.copies, want)
	}
	r.config.Labels = nil
	config := v1.Config{User: "65532:65532", Entrypoint: []string{"/weir"}, Cmd: []string{"serve", "--host", "0.0.0.0"},
		ExposedPorts: map[string]struct{}{"8000/tcp": {}}}
	if !reflect.DeepEqual(r.config, config) {
		t.Errorf("config %+v, want %+v", r.config, config)
	}
	for _, line := range []string{
		"RUN true", "FROM alpine", "COPY --chown=1 weir /weir", "ENTRYPOINT /weir", "ADD x /", "COPY a b /c", "ENV A=$B", "LABEL a", "COPY weir \\",
	} {
		if _, err := parseContainerfile([]byte("FROM scratch\nCOPY weir /weir\nENTRYPOINT [\"/weir\"]\n" + line)); err == nil || !strings.Contains(err.Error(), "line 4") {
			t.Errorf("%s: %v, want an error that names its line", line, err)
		}
	}
	if _, err := parseContainerfile([]byte("FROM scratch")); err == nil {
		t.Error("an image of nothing is made")
	}
}

// The image has the certificates that TLS to hubs, registries and providers needs, in the one order that makes images the same.
func TestAuthorities(t *testing.T) {
	data := authorities()
	if n := bytes.Count(data, []byte("BEGIN CERTIFICATE")); n < 100 || !x509.NewCertPool().AppendCertsFromPEM(data) || !bytes.Equal(data, authorities()) {
		t.Errorf("%d certificates: want more than 100 that can be read, and the same bytes again", n)
	}
}

// A folder with something else in it is not emptied.
func TestForeignFolderStays(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "letter"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := emptied(folder); err == nil {
		t.Error("it is taken for a folder of artefacts")
	}
	if err := os.Remove(filepath.Join(folder, "letter")); err != nil {
		t.Fatal(err)
	}
	if _, err := emptied(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "artefact"), nil, 0o600); err != nil { // of a release that failed half-way
		t.Fatal(err)
	}
	if _, err := emptied(folder); err != nil {
		t.Error(err)
	}
}
