package tokenizer

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// escapedGoldens are what testdata/escaped.py had Hugging Face's tokenizers library do.
type escapedGoldens struct {
	Texts  [][]byte
	Models []struct {
		Name           string
		Tokens, Merges []string
		Types          []int32
		IDs            [][]int32
	}
}

func readEscapedGoldens(t testing.TB) *escapedGoldens {
	t.Helper()
	f, err := os.Open("testdata/escaped.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	g := new(escapedGoldens)
	if err := json.NewDecoder(z).Decode(g); err != nil {
		t.Fatal(err)
	}
	return g
}

// fields is a model as GGUF holds it.
func (g *escapedGoldens) fields(model int) fields {
	m := &g.Models[model]
	f := fields{"model": kindEscaped, "tokens": m.Tokens, "merges": m.Merges, "token_type": m.Types, "add_space_prefix": false}
	f["bos_token_id"], f["eos_token_id"] = f.id("<bos>"), f.id("<eos>")
	return f
}

// Ids are those of Hugging Face's tokenizers library, and give the text back.
func TestEscapedEqualsTheLibrary(t *testing.T) {
	g := readEscapedGoldens(t)
	if len(g.Models) != 2 || len(g.Texts) < 500 {
		t.Fatalf("%d models, %d texts", len(g.Models), len(g.Texts))
	}
	for i := range g.Models {
		m, tok := &g.Models[i], mustBuild(t, g.fields(i))
		if own := tok.model.(*sentencePiece).wordBound; own != (i == 0) {
			t.Errorf("%s: words are by themselves: %v", m.Name, own)
		}
		bad := 0
		for k, text := range g.Texts {
			got := tok.AppendEncode(nil, string(text), EncodeOptions{})
			if !slices.Equal(got, m.IDs[k]) {
				if bad++; bad <= 5 {
					t.Errorf("%s, %.80q: got %.20q, want %.20q", m.Name, text, texts(tok, got), texts(tok, m.IDs[k]))
				}
			}
			if back := tok.Decode(got, false); back != strings.ReplaceAll(string(text), wordMark, " ") {
				t.Errorf("%s: decoded %q, want %q", m.Name, back, text)
			}
			if least := tok.MinTokens([]Span{{Text: string(text)}}); least > len(got) {
				t.Errorf("%s: MinTokens is %d of a text of %d tokens", m.Name, least, len(got))
			}
		}
		if bad > 0 {
			t.Errorf("%s: %d of %d texts differ", m.Name, bad, len(g.Texts))
		}
	}
}

// Line breaks in a row that are an entry are that entry, whatever the merges say.
func TestEscapedLineBreaks(t *testing.T) {
	f := emptyFields(kindEscaped)
	for i := range 256 {
		f.add(fmt.Sprintf("<0x%02X>", i), int32(typeByte), 0)
	}
	for _, text := range []string{"\n", "\n\n", "\n\n\n", "\n\n\n\n\n", "a", "▁", "▁a", "#", "<bos>"} {
		f.add(text, int32(typeNormal), 0)
	}
	f["merges"], f["bos_token_id"] = []string{"\n \n", "▁ a"}, f.id("<bos>")
	tok := mustBuild(t, f)
	for text, want := range map[string][]string{
		"a\n\n\na":        {"a", "\n\n\n", "a"},
		"\n\n\n\n":        {"\n\n", "\n\n"},
		" a\n a":          {"▁a", "\n", "▁a"},
		"\n\n\n\n\n":      {"\n\n\n\n\n"},
		"a é":             {"a", "▁", "<0xC3>", "<0xA9>"},
		"<bos>":           {"<0x3C>", "<0x62>", "<0x6F>", "<0x73>", "<0x3E>"},
		"\n\n \n":         {"\n\n", "▁", "\n"},
		"a\xff":           {"a", "<0xFF>"},
		"  a":             {"▁", "▁a"},
		"\u2581a\u2581\n": {"▁a", "▁", "\n"},
	} {
		if got := texts(tok, tok.AppendEncode(nil, text, EncodeOptions{})); !slices.Equal(got, want) {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	if got := tok.AppendEncode(nil, "a", EncodeOptions{AddSpecial: true}); !slices.Equal(got, []int32{int32(f.id("<bos>")), int32(f.id("a"))}) {
		t.Errorf("with special tokens: %v", got)
	}
	if denied := mustBuild(t, f.with("add_bos_token", false)); !denied.AddsBOS() {
		t.Error("a file that denies the beginning token has none")
	}
}

// Gemma 4's markers are no text of clients though its converter calls them user-defined, and three of its tokens end an answer.
func TestEscapedMarkers(t *testing.T) {
	f := readEscapedGoldens(t).fields(0)
	f["tokens"], f["token_type"] = append(slices.Clip(f["tokens"].([]string)), "<|tool_response>", "e"), append(slices.Clip(f["token_type"].([]int32)), 4, 1)
	tok := mustBuild(t, f)
	for _, marker := range []string{"<|channel>", "<channel|>", "<|turn>", "<turn|>", "<|tool_response>"} {
		id, ok := tok.ID(marker)
		if got := tok.AppendEncode(nil, marker, EncodeOptions{}); !ok || slices.Contains(got, id) {
			t.Errorf("%s in a client's text is %q", marker, texts(tok, got))
		}
		if got := tok.AppendEncode(nil, marker, EncodeOptions{ParseSpecial: true}); !slices.Equal(got, []int32{id}) {
			t.Errorf("%s of a template is %q", marker, texts(tok, got))
		}
	}
	if got := tok.AppendEncode(nil, "a[note]b", EncodeOptions{}); !slices.Contains(texts(tok, got), "[note]") {
		t.Errorf("a user-defined token is no token of text: %q", texts(tok, got))
	}
	if got := texts(tok, tok.EOG()); !slices.Equal(got, []string{"<eos>", "<turn|>", "<|tool_response>"}) {
		t.Errorf("an answer ends at %q", got)
	}
	if id, _ := tok.ID("e"); int(id) != tok.Size()-1 || int(f.id("e")) == tok.Size()-1 {
		t.Error("of two equal entries the earlier one counts")
	}
}
