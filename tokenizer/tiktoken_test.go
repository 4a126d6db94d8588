package tokenizer

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"weir/internal/reference"

	"github.com/pkoukk/tiktoken-go"
)

// ownCounter has the vocabularies that are built in; each takes a while to read.
var ownCounter = sync.OnceValue(func() *Counter { return NewCounter("") })

func TestModelsHaveTheirEncodings(t *testing.T) {
	c := ownCounter()
	for model, want := range map[string]string{
		"gpt-4o": "o200k_base", "gpt-4o-mini-2024-07-18": "o200k_base", "gpt-4.1-nano": "o200k_base", "gpt-5": "o200k_base",
		"gpt-5-mini": "o200k_base", "o1-preview": "o200k_base", "o3": "o200k_base", "o4-mini": "o200k_base",
		"chatgpt-4o-latest": "o200k_base", "openai/gpt-oss-20b": "o200k_base", "GPT-4o": "o200k_base",
		"gpt-4": "cl100k_base", "gpt-4-turbo": "cl100k_base", "gpt-3.5-turbo-0125": "cl100k_base",
		"text-embedding-3-small": "cl100k_base", "text-embedding-ada-002": "cl100k_base", "ft:gpt-3.5-turbo:acme::x1": "cl100k_base",
		"text-davinci-003": "p50k_base", "davinci": "r50k_base", "davinci-002": "cl100k_base", "gpt2": "r50k_base",
	} {
		e, ok := c.CountFor(model)
		if !ok || e.Name() != want {
			t.Errorf("%s: got %v, want %s", model, e, want)
		}
	}
	for _, model := range []string{"", "llama-3.1-8b", "qwen2.5", "gpt", "-", "my-gpt-4o", "ft:"} {
		if e, ok := c.CountFor(model); ok {
			t.Errorf("%q: got %s, want none", model, e.Name())
		}
	}
}

// failingNetwork fails every request and every use of tiktoken-go's loader,
// which would download.
type failingNetwork struct{ t *testing.T }

var errNetwork = errors.New("the network was used")

func (f failingNetwork) RoundTrip(*http.Request) (*http.Response, error) {
	f.t.Error(errNetwork)
	return nil, errNetwork
}

func (f failingNetwork) LoadTiktokenBpe(string) (map[string]int, error) {
	f.t.Error("tiktoken-go's global loader was used")
	return nil, errNetwork
}

func TestCountingNeverUsesTheNetwork(t *testing.T) {
	reference.Slow(t)
	old := http.DefaultTransport
	http.DefaultTransport = failingNetwork{t}
	tiktoken.SetBpeLoader(failingNetwork{t})
	t.Cleanup(func() {
		http.DefaultTransport = old
		tiktoken.SetBpeLoader(tiktoken.NewDefaultBpeLoader())
	})
	t.Setenv("TIKTOKEN_CACHE_DIR", t.TempDir())
	c := NewCounter("")
	for model, want := range map[string]int{"gpt-4o": 4, "gpt-4": 4, "text-davinci-003": 4, "davinci": 4} {
		e, _ := c.CountFor(model)
		if got, err := e.Count("Hello, world!"); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", model, got, err, want)
		}
	}
}

func TestEncodingKnownIDs(t *testing.T) {
	c := ownCounter()
	for _, known := range []struct {
		model, text string
		want        []int32
	}{
		{"gpt-4", "hello world", []int32{15339, 1917}},
		{"gpt-4", "<|endoftext|>", []int32{27, 91, 8862, 728, 428, 91, 29}},
		{"gpt-4o", "hello world", []int32{24912, 2375}},
		{"davinci", "hello world", []int32{31373, 995}},
		{"gpt-4", "", nil},
	} {
		e, _ := c.CountFor(known.model)
		if got, err := e.AppendEncode(nil, known.text, EncodeOptions{}); err != nil || !slices.Equal(got, known.want) {
			t.Errorf("%s %q: got %v, %v, want %v", known.model, known.text, got, err, known.want)
		}
	}
}

// TestOwnMergingEqualsTheLibrary compares the two ways of encoding on texts
// that both can take.
func TestOwnMergingEqualsTheLibrary(t *testing.T) {
	reference.Slow(t)
	corpus := readSplitGoldens(t).Texts
	for name, e := range ownCounter().encodings {
		if name == "p50k_base" {
			continue // the ranks of r50k_base and some more
		}
		long, err := e.long()
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range corpus {
			want, err := e.AppendEncode(nil, text, EncodeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got := long.appendText(nil, text, false, new(scratch)); !slices.Equal(got, want) {
				t.Errorf("%s %q:\n got %v\nwant %v", name, text, got, want)
			}
		}
	}
}

func TestLongPiecesAreNotQuadratic(t *testing.T) {
	reference.Slow(t)
	e, _ := ownCounter().CountFor("gpt-4")
	for name, text := range hostileTexts(1 << 16) {
		if n, err := e.Count(text); err != nil || n == 0 {
			t.Errorf("%s: %d tokens, %v", name, n, err)
		}
	}
}

func TestVocabularyFromAFolder(t *testing.T) {
	dir := t.TempDir()
	var ranks strings.Builder
	for i := range 256 {
		fmt.Fprintf(&ranks, "%s %d\n", base64.StdEncoding.EncodeToString([]byte{byte(i)}), i)
	}
	fmt.Fprintf(&ranks, "%s %d\n", base64.StdEncoding.EncodeToString([]byte("ab")), 256)
	if err := os.WriteFile(filepath.Join(dir, "cl100k_base.tiktoken"), []byte(ranks.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "r50k_base.tiktoken"), []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := NewCounter(dir)
	e, _ := c.CountFor("gpt-4")
	if got, err := e.AppendEncode(nil, "abc", EncodeOptions{}); err != nil || !slices.Equal(got, []int32{256, 'c'}) {
		t.Errorf("got %v, %v", got, err)
	}
	for model, want := range map[string]string{"gpt-4o": "o200k_base.tiktoken", "davinci": "line 1"} {
		e, _ := c.CountFor(model)
		if _, err := e.Count("abc"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want one with %q", model, err, want)
		}
	}
}

func TestRanksRefused(t *testing.T) {
	for name, data := range map[string]string{
		"empty": "", "no rank": "YQ==\n", "no base64": "?? 1\n", "negative": "YQ== -1\n", "huge rank": "YQ== 99999999999\n",
		"empty token": " 4\n", "too few": "YQ== 1\n",
	} {
		if ranks, err := parseRanks(data, "test"); err == nil {
			t.Errorf("%s: got %d ranks", name, len(ranks))
		}
	}
}
