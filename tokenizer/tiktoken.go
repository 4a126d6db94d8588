package tokenizer

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/pkoukk/tiktoken-go"
	tiktoken_loader "github.com/pkoukk/tiktoken-go-loader"
)

// Counter counts tokens for OpenAI-family models by name. Vocabularies come
// from the program itself or from a folder, never from the network. It is safe
// for concurrent use.
type Counter struct {
	encodings map[string]*Encoding
}

// NewCounter returns a counter that reads vocabulary files such as
// o200k_base.tiktoken from dir, or those built into the program where dir is
// empty. Nothing is read before it is needed.
func NewCounter(dir string) *Counter {
	c := &Counter{encodings: map[string]*Encoding{}}
	for _, spec := range encodingSpecs() {
		e := &Encoding{name: spec.name}
		e.ranks = sync.OnceValues(func() (map[string]int, error) { return readRanks(dir, spec.file) })
		e.library = sync.OnceValues(func() (*tiktoken.Tiktoken, error) { return buildLibrary(e, spec) })
		e.long = sync.OnceValues(func() (*bytePair, error) { return buildLong(e) })
		e.cut = spec.cut
		c.encodings[spec.name] = e
	}
	return c
}

// encodingSpec describes an encoding: the expressions are those of OpenAI's
// tiktoken, and cut is their hand-written equivalent.
type encodingSpec struct {
	name, file, expression string
	cut                    stage
}

func encodingSpecs() []encodingSpec {
	const (
		gpt2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
		tail = `|\s*[\r\n]+|\s+(?!\S)|\s+`
		fold = `(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])`
		word = `[^\r\n\p{L}\p{N}]?`
		up   = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
		low  = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
	)
	return []encodingSpec{
		{"o200k_base", "o200k_base.tiktoken",
			word + up + `*` + low + `+` + fold + `?|` + word + up + `+` + low + `*` + fold + `?|` +
				`\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*` + tail,
			caseRules{contractions: true, digits: 3}.cut},
		{"cl100k_base", "cl100k_base.tiktoken",
			fold + `|` + word + `\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*` + tail,
			wordRules{letters: letter, digits: 3}.cut},
		{"p50k_base", "p50k_base.tiktoken", gpt2, cutGPT2},
		{"r50k_base", "r50k_base.tiktoken", gpt2, cutGPT2},
	}
}

// modelEncodings maps model names to encodings. A name also stands for itself
// followed by "-" and anything (a date, a size); the longest name that fits
// wins.
var modelEncodings = map[string]string{
	"gpt-5": "o200k_base", "gpt-5.1": "o200k_base", "gpt-5.2": "o200k_base",
	"gpt-4.5": "o200k_base", "gpt-4.1": "o200k_base", "gpt-4o": "o200k_base", "chatgpt-4o": "o200k_base",
	"gpt-oss": "o200k_base", "o1": "o200k_base", "o3": "o200k_base", "o4": "o200k_base",

	"gpt-4": "cl100k_base", "gpt-3.5": "cl100k_base", "gpt-35": "cl100k_base",
	"text-embedding-ada-002": "cl100k_base", "text-embedding-3": "cl100k_base",
	"davinci-002": "cl100k_base", "babbage-002": "cl100k_base",

	"text-davinci-002": "p50k_base", "text-davinci-003": "p50k_base",
	"code-davinci": "p50k_base", "code-cushman": "p50k_base",

	"text-davinci-001": "r50k_base", "text-curie-001": "r50k_base", "text-babbage-001": "r50k_base",
	"text-ada-001": "r50k_base", "davinci": "r50k_base", "curie": "r50k_base", "babbage": "r50k_base",
	"ada": "r50k_base", "gpt2": "r50k_base", "gpt-2": "r50k_base",
}

// CountFor finds the encoding of a model by name (gpt-4o, o3, gpt-4-turbo …),
// with or without "openai/" before it, or of a fine-tune ("ft:gpt-4o:…").
func (c *Counter) CountFor(model string) (*Encoding, bool) {
	model = strings.TrimPrefix(strings.ToLower(model), "openai/")
	if tuned, ok := strings.CutPrefix(model, "ft:"); ok {
		model, _, _ = strings.Cut(tuned, ":")
	}
	for name := model; name != ""; {
		if encoding, ok := modelEncodings[name]; ok {
			return c.encodings[encoding], true
		}
		i := strings.LastIndexByte(name, '-')
		name = name[:max(i, 0)]
	}
	return nil, false
}

// Encoding counts and encodes text of an OpenAI-family model. It is safe for
// concurrent use; its vocabulary is read on first use.
type Encoding struct {
	name    string
	cut     stage
	ranks   func() (map[string]int, error)
	library func() (*tiktoken.Tiktoken, error)
	long    func() (*bytePair, error)
}

// Name is the encoding's name, such as "o200k_base".
func (e *Encoding) Name() string { return e.name }

// Count is the number of tokens of text; nothing in it is special.
func (e *Encoding) Count(text string) (int, error) {
	ids, err := e.AppendEncode(nil, text, EncodeOptions{})
	return len(ids), err
}

// longPieceBytes is where tiktoken-go, whose merging is quadratic in the
// length of a piece, hands over to this package's own merging. tiktoken-go
// never pauses either, so longTextBytes is the longest text that it encodes.
const (
	longPieceBytes = 256
	longTextBytes  = 16 << 10
)

// AppendEncode appends the ids of text; nothing in it is special, so of o only
// Limit and Pause count. Bytes that are not valid UTF-8 count as U+FFFD.
func (e *Encoding) AppendEncode(dst []int32, text string, o EncodeOptions) ([]int32, error) {
	if !utf8.ValidString(text) {
		text = replaceInvalid(text)
	}
	if len(text) > longTextBytes || e.hasLongPiece(text) {
		long, err := e.long()
		if err != nil {
			return dst, err
		}
		s := new(scratch)
		s.begin(dst, o)
		return long.appendText(dst, text, false, s), nil
	}
	library, err := e.library()
	if err != nil {
		return dst, err
	}
	for _, id := range library.EncodeOrdinary(text) {
		dst = append(dst, int32(id))
	}
	return dst, nil
}

func (e *Encoding) hasLongPiece(text string) bool {
	if len(text) <= longPieceBytes {
		return false
	}
	classes := runeClasses()
	for rest := text; rest != ""; {
		n := e.cut(classes, rest)
		if n > longPieceBytes {
			return true
		}
		rest = rest[n:]
	}
	return false
}

func readRanks(dir, file string) (map[string]int, error) {
	if dir == "" {
		ranks, err := tiktoken_loader.NewOfflineLoader().LoadTiktokenBpe(file)
		if err != nil {
			return nil, fmt.Errorf("read embedded vocabulary %s: %w", file, err)
		}
		return ranks, nil
	}
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return nil, fmt.Errorf("read vocabulary: %w", err)
	}
	return parseRanks(string(data), file)
}

// parseRanks reads tiktoken's format: a line per token, base64 and rank.
func parseRanks(data, file string) (map[string]int, error) {
	ranks := map[string]int{}
	number := 0
	for line := range strings.Lines(data) {
		number++
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		encoded, rank, _ := strings.Cut(line, " ")
		token, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, fmt.Errorf("read vocabulary %s: line %d: %w", file, number, err)
		}
		n, err := strconv.ParseInt(rank, 10, 32)
		if err != nil || n < 0 || len(token) == 0 || len(token) > maxSpecialBytes {
			return nil, fmt.Errorf("read vocabulary %s: line %d: want a token and its rank, got %.80q", file, number, line)
		}
		ranks[string(token)] = int(n)
	}
	if len(ranks) < 256 {
		return nil, fmt.Errorf("read vocabulary %s: %d tokens, want at least the 256 bytes", file, len(ranks))
	}
	return ranks, nil
}

func buildLibrary(e *Encoding, spec encodingSpec) (*tiktoken.Tiktoken, error) {
	ranks, err := e.ranks()
	if err != nil {
		return nil, err
	}
	core, err := tiktoken.NewCoreBPE(ranks, map[string]int{}, spec.expression)
	if err != nil {
		return nil, fmt.Errorf("build encoding %s: %w", spec.name, err)
	}
	described := &tiktoken.Encoding{Name: spec.name, PatStr: spec.expression, MergeableRanks: ranks}
	return tiktoken.NewTiktoken(core, described, map[string]any{}), nil
}

// buildLong makes our own merger of an encoding. Its vocabulary has no merge
// list: two neighbours merge where their join is a token, whose rank orders
// the merges.
func buildLong(e *Encoding) (*bytePair, error) {
	ranks, err := e.ranks()
	if err != nil {
		return nil, err
	}
	b := &bytePair{
		preTokenizer: preTokenizer{stages: []stage{e.cut}, wholePieces: true},
		classes:      runeClasses(), pairs: newPairTable(2 * len(ranks)), size: noSize,
		whole: make(map[string]int32, len(ranks)), unknown: none, cache: newPieceCache(),
	}
	for i := range b.bytes {
		id, ok := ranks[string([]byte{byte(i)})]
		if !ok {
			return nil, fmt.Errorf("build encoding %s: no token for byte 0x%02X", e.name, i)
		}
		b.bytes[i] = int32(id)
	}
	for token, id := range ranks {
		b.whole[token] = int32(id)
		for cut := 1; cut < len(token); cut++ {
			left, ok := ranks[token[:cut]]
			right, also := ranks[token[cut:]]
			if ok && also {
				b.pairs.add(int32(left), int32(right), uint32(id), int32(id))
			}
		}
	}
	return b, nil
}

// noSize is the size of a vocabulary all of whose symbols are tokens.
const noSize = 1<<31 - 1
