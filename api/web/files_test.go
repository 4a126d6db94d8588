package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// vendored are files of others, as their packages have them: name, SHA-256, and the package with its version, which NOTICE names.
var vendored = map[string][2]string{
	"lib/preact.js": {"72284e8e9079c87817145df1110f74e8a2aa040b2fc384922e18dfcb46fc1fd7", "htm 3.1.1"},
}

func TestVendoredFilesAreAsPublished(t *testing.T) {
	notice, err := os.ReadFile("../../NOTICE")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range vendored {
		f := everything().files[name]
		if f == nil {
			t.Errorf("%s is not embedded", name)
			continue
		}
		sum := sha256.Sum256(f.plain)
		if got := hex.EncodeToString(sum[:]); got != want[0] {
			t.Errorf("%s has the SHA-256 %s, want %s", name, got, want[0])
		}
		if !bytes.Contains(notice, []byte("\n"+want[1]+"\n")) {
			t.Errorf("NOTICE does not name %s", want[1])
		}
	}
}

// maxPackedBytes is what all files together may take when they are sent.
const maxPackedBytes = 200_000

func TestFilesAreSmall(t *testing.T) {
	total := 0
	for _, f := range everything().files {
		body, _ := f.in("gzip")
		total += len(body)
	}
	t.Logf("%d bytes with gzip", total)
	if total > maxPackedBytes {
		t.Errorf("all files take %d bytes with gzip, and %d are allowed", total, maxPackedBytes)
	}
}

// What files of ours must not have: a name of a host, and what the policy would forbid.
var forbidden = map[string]*regexp.Regexp{
	"another host":    regexp.MustCompile(`(?i)\b(?:https?|wss?):\/\/|["'(=]\s*\/\/[a-z]`),
	"text as HTML":    regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerously|srcdoc|DOMParser|createContextualFragment`),
	"text as code":    regexp.MustCompile(`\beval\(|new Function|setTimeout\("|import\([^"]`),
	"inline handlers": regexp.MustCompile(`<[a-z][^>$]*\son[a-z]+="`),
}

// hosts are names that no request goes to: of namespaces, and of examples that people copy.
var hosts = regexp.MustCompile(`http://www\.w3\.org/[a-z0-9/]+`)

func TestFilesNeedNothingElse(t *testing.T) {
	tree := everything()
	for _, name := range slices.Sorted(maps.Keys(tree.files)) {
		if vendored[name][0] != "" {
			continue
		}
		text := hosts.ReplaceAllString(string(tree.files[name].plain), "")
		for what, pattern := range forbidden {
			if at := pattern.FindString(text); at != "" {
				t.Errorf("%s has %s: %q", name, what, at)
			}
		}
		if path.Ext(name) == ".html" {
			checkDocument(t, name, text)
		}
	}
}

// checkDocument holds a page to scripts and styles from files alone.
func checkDocument(t *testing.T, name, text string) {
	t.Helper()
	for _, tag := range regexp.MustCompile(`<script[^>]*>([^<]*)`).FindAllStringSubmatch(text, -1) {
		if !strings.Contains(tag[0], "src=") || strings.TrimSpace(tag[1]) != "" {
			t.Errorf("%s has a script of its own: %s", name, tag[0])
		}
	}
	if strings.Contains(text, "<style") || strings.Contains(text, "style=") {
		t.Errorf("%s has a style of its own", name)
	}
}

// TestModulesAreThere follows the imports of all scripts, and what pages ask for.
func TestModulesAreThere(t *testing.T) {
	tree := everything()
	imports := regexp.MustCompile(`(?m)^(?:import .*|export .*|\} )from "([^"]+)"`)
	assets := regexp.MustCompile(`\{\{assets\}\}/([^"]+)"`)
	for name, f := range tree.files {
		for _, m := range imports.FindAllSubmatch(f.plain, -1) {
			if to := path.Join(path.Dir(name), string(m[1])); tree.files[to] == nil {
				t.Errorf("%s imports %s, which is not there", name, m[1])
			}
		}
		for _, m := range assets.FindAllSubmatch(f.plain, -1) {
			if tree.files[string(m[1])] == nil {
				t.Errorf("%s asks for %s, which is not there", name, m[1])
			}
		}
	}
}
