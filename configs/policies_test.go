package configs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPoliciesOfTheFile(t *testing.T) {
	dir := t.TempDir()
	list := filepath.Join(dir, "words.txt")
	if err := os.WriteFile(list, []byte("# words\nfuse\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rule := func(more string) string {
		return "policies:\n  - name: house\n    rules:\n      - {id: a, " + more + "}\n"
	}
	local, remote := "models:\n  - {name: chat, path: builtin, safety: house}\n", "models:\n  - {name: chat, safety: house, replicas: [{url: \"http://127.0.0.1:1/v1\"}]}\n"
	for _, c := range []struct{ name, text, wrong string }{
		{"all of it", "policies:\n  - name: house\n    hold_back_tokens: 8\n    roles: [user]\n    rules:\n      - {id: a, category: violence, words: [x, y z], words_file: " + list +
			", patterns: ['a{1,5}b, c'], case_sensitive: true, input: block, output: redact, replacement: '#'}\n      - {id: b, pii: [email, key], output: flag}\n" + local, ""},
		{"input of a relayed model", rule("words: [x], input: block") + remote, ""},
		{"output of a relayed model", rule("words: [x], output: block") + remote, "computed by its replicas"},
		{"none", "models:\n  - {name: chat, path: builtin, safety: none}\n", ""},
		{"unknown", local, `there is no policy "house"`},
		{"unbounded", rule("patterns: ['a.*b'], input: block") + local, "no longest length"},
		{"file", rule("words_file: "+filepath.Join(dir, "none")+", input: block") + local, "no such file"},
		{"key", rule("wods: [x], input: block") + local, "unknown key policies[0].rules[0].wods"},
		{"redact input", rule("words: [x], input: redact") + local, "input is redact"},
		{"twice", strings.Replace(rule("words: [x], input: flag"), "policies:\n", rule("words: [x], input: flag"), 1) + local, "two policies"},
		{"name", strings.Replace(rule("words: [x], input: flag"), "house", "none", 1), "another one"},
		{"pii", rule("pii: [shoe], input: flag") + local, "is not accepted"},
		{"classifier", rule("classifier: {model: m, question: q, threshold: 0.5}, output: block") + local, "output must be ignore"},
		{"no such classifier", rule("classifier: {model: m, question: q, threshold: 0.5}, input: block") + local, `asks the classifier "m"`},
		{"no such predictor", rule("classifier: {model: chat, predictor: q, threshold: 0.5}, input: block") + local, `asks the classical model "q"`},
	} {
		path := filepath.Join(dir, "weir.yml")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := New()
		err := s.ReadFile(path)
		var config Config
		if err == nil {
			config, err = s.Config()
		}
		switch {
		case c.wrong == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s: %v; want %q", c.name, err, c.wrong)
		}
		if c.name == "all of it" && err == nil {
			p := config.Policies[0]
			if p.HoldBackTokens != 8 || len(p.Rules) != 2 || p.Rules[0].Patterns[0] != "a{1,5}b, c" || len(p.Rules[0].Words) != 2 {
				t.Errorf("read as %+v", p)
			}
			for _, m := range config.ServedModels() {
				if q, err := config.SafetyOf(m, nil); m.Name == "chat" && (err != nil || q.Name() != "house" || !q.FiltersOutput()) {
					t.Errorf("the model's policy is %v, %v", q, err)
				}
			}
			m := NewServedModel("x", "builtin")
			m.OwnSafety = `{"rules":[{"id":"a","words":["x"],"input":"block"}]}`
			if q, err := config.SafetyOf(m, nil); err != nil || q.Name() != "x" || !q.ReadsInput() {
				t.Errorf("a version's policy is %v, %v", q, err)
			}
			m.OwnSafety = `{"rules":[{"id":"a","words_file":"x","input":"block"}]}`
			if _, err := config.SafetyOf(m, nil); err == nil || !strings.Contains(err.Error(), "has no files") {
				t.Errorf("a version's policy with a file: %v", err)
			}
		}
	}
}
