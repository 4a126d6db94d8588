package chat

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/reference"
)

// published is a file of the reference data: a model's template and what
// Jinja2 makes of conversations.
type published struct {
	Name     string
	Template string
	Now      string
	Cases    []publishedCase
}

type publishedCase struct {
	Case     string
	Context  json.RawMessage
	Rendered *string
	Error    string
}

// inputOf turns the variables of a reference case into an Input.
func inputOf(t testing.TB, context []byte, now string) Input {
	t.Helper()
	v, err := FromJSON(context)
	if err != nil {
		t.Fatal(err)
	}
	in := Input{Extra: dictOf(&dict{})}
	if in.Now, err = time.Parse("2006-01-02T15:04:05", now); err != nil {
		t.Fatal(err)
	}
	for _, e := range v.dict().entries {
		switch e.key.str {
		case "messages":
			in.Messages = e.value
		case "tools":
			in.Tools = e.value
		case "add_generation_prompt":
			in.AddGenerationPrompt = e.value.truth()
		case "bos_token":
			in.BOSToken = e.value.str
		case "eos_token":
			in.EOSToken = e.value.str
		default:
			if err := in.Extra.dict().put(e.key, e.value); err != nil {
				t.Fatal(err)
			}
		}
	}
	return in
}

func readPublished(t testing.TB) []published {
	t.Helper()
	files, _ := filepath.Glob(filepath.FromSlash("../../../shared/testdata/templates/*.json"))
	var all []published
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var p published
		if err := json.Unmarshal(data, &p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func TestPublishedTemplatesRenderAsInJinja(t *testing.T) {
	reference.Path(t, "testdata/templates")
	all := readPublished(t)
	cases, passed := 0, 0
	for _, p := range all {
		t.Run(p.Name, func(t *testing.T) {
			template, err := Parse(p.Template, Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range p.Cases {
				cases++
				if checkPublished(t, template, p, c) {
					passed++
				}
			}
		})
	}
	t.Logf("%d of %d cases of %d templates", passed, cases, len(all))
}

func checkPublished(t *testing.T, template *Template, p published, c publishedCase) bool {
	t.Helper()
	spans, err := template.Render(inputOf(t, c.Context, p.Now))
	if c.Rendered == nil {
		if err == nil {
			t.Errorf("%s: no error, want %s", c.Case, c.Error)
		}
		return err != nil
	}
	if err != nil {
		t.Errorf("%s: %v", c.Case, err)
		return false
	}
	if got := Text(spans); got != *c.Rendered {
		t.Errorf("%s: %s", c.Case, firstDifference(got, *c.Rendered))
		return false
	}
	return true
}

func firstDifference(got, want string) string {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	cut := func(s string) string {
		return s[max(0, min(i, len(s))-40):min(len(s), i+80)]
	}
	var b strings.Builder
	b.WriteString("differs near\n got ")
	b.WriteString(quoteLine(cut(got)))
	b.WriteString("\nwant ")
	b.WriteString(quoteLine(cut(want)))
	return b.String()
}

func quoteLine(s string) string {
	data, _ := json.Marshal(s)
	return string(data)
}

func TestPublishedTemplatesTakePartsAsProbed(t *testing.T) {
	for _, p := range readPublished(t) {
		template := mustParse(t, p.Template)
		for _, c := range p.Cases {
			if c.Case != "content_parts" {
				continue
			}
			reads := c.Rendered != nil && strings.Contains(*c.Rendered, "part one") && !strings.Contains(*c.Rendered, "'part one'") &&
				!strings.Contains(*c.Rendered, `"part one"`)
			if template.TakesParts() != reads {
				t.Errorf("%s: TakesParts is %v, but a list of parts %v", p.Name, template.TakesParts(), reads)
			}
			in := inputOf(t, c.Context, p.Now)
			joined, err := JoinParts(in.Messages)
			if err != nil {
				t.Fatal(err)
			}
			in.Messages = joined
			if spans, err := template.Render(in); err == nil && !strings.Contains(Text(spans), "part one\npart two") {
				t.Errorf("%s: joined parts give %q", p.Name, Text(spans))
			}
		}
	}
}
