package tokenizer

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"weir/internal/reference"
)

// splitGoldens is testdata/splits.json, which testdata/splits.py writes by
// running the published expressions.
type splitGoldens struct {
	Texts  []string           `json:"texts"`
	Pieces map[string][][]int `json:"pieces"` // by pre-tokenizer and text, in bytes
}

func readSplitGoldens(t testing.TB) splitGoldens {
	t.Helper()
	data, err := os.ReadFile("testdata/splits.json")
	if err != nil {
		t.Fatal(err)
	}
	var g splitGoldens
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

func cutAll(text string, stages []stage) []string {
	var pieces []string
	for c := (pieceCursor{text: text}); ; {
		piece := c.next(runeClasses(), stages)
		if piece == "" {
			return pieces
		}
		pieces = append(pieces, piece)
	}
}

func TestPreTokenizersCutAsTheirExpressions(t *testing.T) {
	goldens := readSplitGoldens(t)
	for name, cases := range goldens.Pieces {
		t.Run(name, func(t *testing.T) {
			pre, err := preTokenizerFor(name)
			if err != nil {
				t.Fatal(err)
			}
			for i, lengths := range cases {
				rest := goldens.Texts[i]
				var want []string
				for _, n := range lengths {
					want, rest = append(want, rest[:n]), rest[n:]
				}
				if got := cutAll(goldens.Texts[i], pre.stages); !slices.Equal(got, want) {
					t.Errorf("%q:\n got %q\nwant %q", goldens.Texts[i], got, want)
				}
			}
		})
	}
}

func TestEveryPreTokenizerHasGoldens(t *testing.T) {
	goldens := readSplitGoldens(t)
	for _, s := range preTokenizers() {
		if !slices.ContainsFunc(s.names, func(n string) bool { return goldens.Pieces[n] != nil }) &&
			s.names[0] != "dbrx" { // the expressions of llama-bpe without its options
			t.Errorf("no goldens for any of %v", s.names)
		}
		if len(s.stages) > maxStages {
			t.Errorf("%v: %d stages, limit %d", s.names, len(s.stages), maxStages)
		}
	}
}

func TestPreTokenizerNamesAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range preTokenizers() {
		for _, name := range s.names {
			if seen[name] {
				t.Errorf("%q is in two sets", name)
			}
			seen[name] = true
		}
	}
}

func TestUnknownPreTokenizerIsRefusedWithTheKnown(t *testing.T) {
	_, err := preTokenizerFor("klingon")
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`"klingon"`, "llama-bpe", "qwen2", "tekken"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not name %s", err, want)
		}
	}
}

// hostileTexts are the texts on which careless tokenizers are quadratic.
func hostileTexts(size int) map[string]string {
	repeat := func(s string) string { return strings.Repeat(s, size/len(s)) }
	return map[string]string{
		"one letter":           repeat("a"),
		"upper case":           repeat("A"),
		"spaces":               repeat(" "),
		"spaces, then text":    repeat(" ") + "x",
		"tabs and a break":     repeat("\t") + "\n" + "x",
		"space and break":      repeat(" \n"),
		"line breaks":          repeat("\n"),
		"digits":               repeat("7"),
		"apostrophes":          repeat("'"),
		"dashes":               repeat("-"),
		"Han":                  repeat("中"),
		"Han and capitals":     "中" + repeat("A") + "中" + repeat("Z"),
		"combining marks":      repeat("\u0301"),
		"marks and capitals":   repeat("\u0301A"),
		"zero-width joiners":   repeat("\u200d"),
		"wide spaces":          repeat("\u3000"),
		"mixed":                repeat("aÀ中1 \t\n!\u0301🦙\u200d"),
		"half a special token": repeat("<|"),
		"invalid UTF-8":        repeat("\xff\xc3\xe4\xb8"),
	}
}

// TestPreTokenizersAreLinearOnHostileText has no clock: a cutter that is
// quadratic in one of the texts takes hours, and the test binary's own limit
// ends it.
func TestPreTokenizersAreLinearOnHostileText(t *testing.T) {
	reference.Slow(t)
	for _, s := range preTokenizers() {
		t.Run(s.names[0], func(t *testing.T) {
			for name, text := range hostileTexts(1 << 18) {
				text = strings.ToValidUTF8(text, "\uFFFD")
				total := 0
				for c := (pieceCursor{text: text}); ; {
					piece := c.next(runeClasses(), s.stages)
					if piece == "" {
						break
					}
					total += len(piece)
				}
				if total != len(text) {
					t.Errorf("%s: pieces have %d of %d bytes", name, total, len(text))
				}
			}
		})
	}
}
