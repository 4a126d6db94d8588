//go:build linux

package schema_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/engine/gguf"
	"weir/internal/reference"
	"weir/tokenizer"
	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/schema"
)

// maskBench is one file of MaskBench: a schema that somebody uses, and instances that hold for it or not.
type maskBench struct {
	name   string
	Schema json.RawMessage `json:"schema"`
	Tests  []struct {
		Valid bool            `json:"valid"`
		Data  json.RawMessage `json:"data"`
	} `json:"tests"`
}

// traced is a schema with its texts as tokens, for other engines to follow.
type traced struct {
	Name   string `json:"name"`
	Schema string `json:"schema"`
	Texts  []text `json:"texts"`
}

type text struct {
	Valid bool    `json:"valid"`
	IDs   []int32 `json:"ids"`
}

// followed is what one schema gave, for the table beside other engines.
type followed struct {
	Name    string          `json:"name"`
	Refused string          `json:"refused,omitempty"`
	Compile time.Duration   `json:"compile"`
	First   []time.Duration `json:"first"`
	Again   []time.Duration `json:"again"`
	Taken   []bool          `json:"taken"`
}

// measured is what one vocabulary and all schemas gave.
type measured struct {
	lines                 bytes.Buffer // followed, as JSON
	compile, first, again []time.Duration
	refused, failed       int
	taken, rejected       int // instances that hold
	wrong, out            int // instances that do not hold: taken, and not taken
	slow                  []slowMask
}

type slowMask struct {
	took       time.Duration
	name, text string
}

// TestMaskBench follows the instances of MaskBench's schemas (guidance-ai/jsonschemabench, maskbench/data) through their grammars. The schemas
// are not ours to keep: WEIR_MASKBENCH names their folder, WEIR_MASKBENCH_VOCABULARY a GGUF file instead of Llama 3's vocabulary, WEIR_MASKBENCH_EVERY
// takes every nth file, WEIR_MASKBENCH_ANY_ORDER=1 properties in any order, WEIR_MASKBENCH_TRACE a folder to write schemas, tokens and times to, for bench/clients/masks/peers.py.
func TestMaskBench(t *testing.T) {
	folder := os.Getenv("WEIR_MASKBENCH")
	if folder == "" {
		t.Skip("WEIR_MASKBENCH names no folder of schemas")
	}
	runtime.LockOSThread() // times are of this thread's processor time, so that other work on the machine does not count
	defer runtime.UnlockOSThread()
	tok, v := maskVocabulary(t)
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no schemas in %s: %v", folder, err)
	}
	slices.Sort(files)
	every := 1
	if n, err := strconv.Atoi(os.Getenv("WEIR_MASKBENCH_EVERY")); err == nil {
		every = n
	}
	var m measured
	var traces bytes.Buffer
	for i := 0; i < len(files); i += every {
		b := readMaskBench(t, files[i])
		tr := traced{Name: b.name, Schema: string(b.Schema)}
		for _, test := range b.Tests {
			tr.Texts = append(tr.Texts, text{test.Valid, tok.AppendEncode(nil, spaced(t, test.Data), tokenizer.EncodeOptions{})})
		}
		line, err := json.Marshal(tr)
		if err != nil {
			t.Fatal(err)
		}
		traces.Write(append(line, '\n'))
		m.follow(t, &tr, tok, v)
	}
	if out := os.Getenv("WEIR_MASKBENCH_TRACE"); out != "" {
		writeTrace(t, out, tok, traces.Bytes(), m.lines.Bytes())
	}
	m.report(t, v)
}

func maskVocabulary(t *testing.T) (*tokenizer.Tokenizer, *grammar.Vocabulary) {
	path := os.Getenv("WEIR_MASKBENCH_VOCABULARY")
	if path == "" {
		path = reference.Path(t, "testdata/tokenizers/vocab-llama-bpe.gguf")
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tok, err := tokenizer.New(f.Value)
	if err != nil {
		t.Fatal(err)
	}
	return tok, grammar.NewVocabulary(tok.Pieces())
}

func readMaskBench(t *testing.T, path string) maskBench {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b := maskBench{name: strings.TrimSuffix(filepath.Base(path), ".json")}
	if err := json.Unmarshal(data, &b); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return b
}

// spaced writes a value as Python's json.dumps does without ensure_ascii.
func spaced(t *testing.T, raw json.RawMessage) string {
	var out bytes.Buffer
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := writeSpaced(&out, d); err != nil {
		t.Fatalf("%.100q: %v", raw, err)
	}
	return out.String()
}

// writeSpaced writes the value that comes next.
func writeSpaced(out *bytes.Buffer, d *json.Decoder) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	open, ok := token.(json.Delim)
	if !ok {
		e := json.NewEncoder(out)
		e.SetEscapeHTML(false)
		err := e.Encode(token)
		out.Truncate(out.Len() - 1) // the line's end
		return err
	}
	out.WriteRune(rune(open))
	for i := 0; d.More(); i++ {
		if i > 0 {
			out.WriteString(", ")
		}
		if open == '{' {
			if err := writeSpaced(out, d); err != nil {
				return err
			}
			out.WriteString(": ")
		}
		if err := writeSpaced(out, d); err != nil {
			return err
		}
	}
	token, err = d.Token()
	fmt.Fprint(out, token)
	return err
}

// follow compiles a schema and follows its texts twice: with a grammar that is new, and with one that knows the texts.
func (m *measured) follow(t *testing.T, tr *traced, tok *tokenizer.Tokenizer, v *grammar.Vocabulary) {
	f := followed{Name: tr.Name, First: []time.Duration{}, Again: []time.Duration{}, Taken: []bool{}}
	defer func() {
		line, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		m.lines.Write(append(line, '\n'))
	}()
	start := threadTime(t)
	b := grammar.NewBuilder(grammar.Limits{})
	o := schema.Served(true)
	o.AnyOrder = os.Getenv("WEIR_MASKBENCH_ANY_ORDER") != ""
	s, _, err := schema.Add(b, []byte(tr.Schema), o)
	var g *grammar.Grammar
	if err == nil {
		g, err = b.Compile(s)
	}
	if err == nil {
		_, err = g.Matcher(v)
	}
	if err != nil {
		t.Logf("refused %s: %v", tr.Name, err)
		m.refused++
		f.Refused = err.Error()
		return
	}
	f.Compile = threadTime(t) - start
	m.compile = append(m.compile, f.Compile)
	mask := make([]uint64, v.Words())
	for round := range 2 {
		for i, text := range tr.Texts {
			answer, err := g.Matcher(v) // each text is an answer of its own, with the work that one may take
			if err != nil {
				t.Fatal(err)
			}
			took, err := steps(t, answer, text.IDs, mask)
			if round > 0 {
				f.Again = append(f.Again, took...)
				continue
			}
			f.First, f.Taken = append(f.First, took...), append(f.Taken, err == nil)
			if k := slices.Index(took, slices.Max(took)); took[k] > time.Millisecond {
				m.slow = append(m.slow, slowMask{took[k], tr.Name, tok.Decode(text.IDs[:k], false)})
			}
			if errors.Is(err, grammar.ErrLimit) {
				t.Logf("failed %s: text %d: %v", tr.Name, i, err)
				m.failed++
			}
			switch {
			case text.Valid && err == nil:
				m.taken++
			case text.Valid:
				m.rejected++
				t.Logf("rejected %s: %v: after %q of %.600q", tr.Name, err, last(tok.Decode(text.IDs[:len(took)-1], false)), tok.Decode(text.IDs, false))
			case err == nil:
				m.wrong++
				t.Errorf("taken %s: %.300q", tr.Name, tok.Decode(text.IDs, false))
			default:
				m.out++
			}
		}
	}
	m.first, m.again = append(m.first, f.First...), append(m.again, f.Again...)
}

// steps follows a text, and gives the time of each mask with what it takes to accept the token.
func steps(t *testing.T, m *grammar.Matcher, ids []int32, mask []uint64) (took []time.Duration, err error) {
	for i := 0; ; i++ {
		start := threadTime(t)
		end, err := m.Mask(mask)
		if err != nil {
			return append(took, threadTime(t)-start), err
		}
		if i == len(ids) {
			took = append(took, threadTime(t)-start)
			if !end {
				err = errors.New("the text may not end")
			}
			return took, err
		}
		err = m.Accept(ids[i])
		took = append(took, threadTime(t)-start)
		if allowed := mask[ids[i]>>6]>>(ids[i]&63)&1 != 0; allowed != (err == nil) {
			return took, fmt.Errorf("token %d: the mask says %v, accepting it %w", i, allowed, err)
		}
		if err != nil {
			return took, err
		}
	}
}

// threadTime is the processor time that this thread has taken.
func threadTime(t *testing.T) time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		t.Fatal(err)
	}
	return time.Duration(now.Nano())
}

func (m *measured) report(t *testing.T, v *grammar.Vocabulary) {
	t.Logf("%d ids, %d schemas, %d refused; instances that hold: %d taken, %d not; that do not hold: %d taken, %d not; %d over a limit",
		v.Size(), len(m.compile), m.refused, m.taken, m.rejected, m.wrong, m.out, m.failed)
	for _, row := range []struct {
		name string
		took []time.Duration
	}{{"compile", m.compile}, {"first masks", m.first}, {"masks again", m.again}} {
		if len(row.took) == 0 {
			continue
		}
		slices.Sort(row.took)
		at := func(share float64) float64 {
			return float64(row.took[int(share*float64(len(row.took)-1))].Nanoseconds()) / 1e3
		}
		t.Logf("%-12s n %7d µs: p50 %.1f p90 %.1f p99 %.1f p99.9 %.1f max %.1f", row.name, len(row.took), at(0.5), at(0.9), at(0.99), at(0.999), at(1))
	}
	slices.SortFunc(m.slow, func(a, b slowMask) int { return int(b.took - a.took) })
	for _, s := range m.slow[:min(len(m.slow), 40)] {
		t.Logf("slow: %v %s after %q", s.took, s.name, last(s.text))
	}
}

// writeTrace writes what other engines need to follow the same tokens.
func writeTrace(t *testing.T, folder string, tok *tokenizer.Tokenizer, traces, own []byte) {
	pieces, control := tok.Pieces()
	end, _ := tok.EOS()
	vocabulary := struct {
		Pieces  [][]byte         `json:"pieces"`
		Control map[string]int32 `json:"control"`
		End     int32            `json:"end"`
		Kind    string           `json:"kind"`
	}{pieces, control, end, tok.Kind()}
	data, err := json.Marshal(vocabulary)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"vocabulary.json": data, "texts.jsonl": traces, "weir.jsonl": own} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// last is the end of a text.
func last(s string) string { return s[max(len(s)-100, 0):] }
