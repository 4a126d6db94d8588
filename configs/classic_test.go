package configs

import (
	"slices"
	"strings"
	"testing"
)

func TestClassicModels(t *testing.T) {
	s := New()
	if err := s.Decode("a.yml", []byte("classic:\n  - path: m/churn.ubj\n    version: \"2\"\n  - {path: x.txt, name: other, max_batch: 8}\n")); err != nil {
		t.Fatal(err)
	}
	for _, m := range []string{"flowers=a/iris.json", "b/wine.v2.json"} {
		if err := s.SetFlag("classic", m); err != nil {
			t.Fatal(err)
		}
	}
	c, err := s.Config()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range c.ClassicModels() {
		got = append(got, m.Name+" "+m.Version+" "+m.Path)
	}
	want := []string{"flowers 1 a/iris.json", "wine.v2 1 b/wine.v2.json", "churn 2 m/churn.ubj", "other 1 x.txt"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if c.ServesLanguage() || !Default().ServesLanguage() {
		t.Error("classical models alone serve a language model, or nothing does not")
	}
	c.Model.Path = "x.gguf"
	if !c.ServesLanguage() {
		t.Error("a GGUF file beside classical models is not served")
	}
}

func TestWrongClassicModels(t *testing.T) {
	for text, want := range map[string]string{
		"classic: [{name: a}]":                           "no path",
		"classic: [{path: a.json, name: b/c}]":           "without slashes",
		"classic: [{path: a.json, max_batch: 0}]":        "max_batch",
		"classic: [{path: a.json}, {path: b/a.json}]":    "another name or version",
		"predict: {models: [a=b.json, a=c.json]}":        "another name or version",
		"classic: [{path: a.json, max_queue_delay: 1h}]": "max_queue_delay",
		"predict: {models: [\"=b\"]}":                    "NAME=FILE",
	} {
		s := New()
		err := s.Decode("a.yml", []byte(text))
		if err == nil {
			_, err = s.Config()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
