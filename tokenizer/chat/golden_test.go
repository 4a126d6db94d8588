package chat

import (
	"encoding/json"
	"os"
	"testing"
)

// goldenFile is testdata/golden.json, which testdata/golden.py writes.
type goldenFile struct {
	Now      string
	Messages json.RawMessage
	Extra    json.RawMessage
	Cases    []struct {
		Name, Template string
		Rendered       *string
		Error          string
	}
}

func readGolden(t testing.TB) goldenFile {
	t.Helper()
	data, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var g goldenFile
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

// input is the conversation that all goldens see.
func (g goldenFile) input(t testing.TB, client bool) Input {
	t.Helper()
	read := func(data []byte) Value {
		v, err := fromJSON(data, client)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	in := inputOf(t, []byte(`{"bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": true}`), g.Now)
	in.Messages, in.Extra = read(g.Messages), read(g.Extra)
	return in
}

func TestGoldensOfJinja(t *testing.T) {
	g := readGolden(t)
	in := g.input(t, true)
	for _, c := range g.Cases {
		t.Run(c.Name, func(t *testing.T) {
			got, err := renderOnce(c.Template, in)
			switch {
			case c.Rendered == nil && err == nil:
				t.Errorf("%s\n got %q\nwant error %s", c.Template, got, c.Error)
			case c.Rendered != nil && err != nil:
				t.Errorf("%s\n got error %v\nwant %q", c.Template, err, *c.Rendered)
			case c.Rendered != nil && got != *c.Rendered:
				t.Errorf("%s\n got %q\nwant %q", c.Template, got, *c.Rendered)
			}
		})
	}
}

func renderOnce(src string, in Input) (string, error) {
	template, err := Parse(src, Options{})
	if err != nil {
		return "", err
	}
	spans, err := template.Render(in)
	return Text(spans), err
}
