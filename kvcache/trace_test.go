package kvcache

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what the traces in testdata print into them")

// TestTraces plays the files of testdata. A line that starts at the margin is
// a call, the indented lines below it are what it must print; # is a comment.
// Token ids are letters, so a sequence is a word:
//
//	pool BLOCKS BLOCKTOKENS [TENANTBLOCKS]   a fresh pool
//	start SEQ DOMAIN WORD                    match, grow to the whole word, commit
//	begin SEQ DOMAIN WORD                    match and begin, without growing
//	grow SEQ ROWS | commit SEQ ROWS          one by one, on a longer word
//	extend SEQ LETTERS                       append, grow, commit
//	redo SEQ ROWS LETTERS                    truncate to rows, then extend
//	truncate SEQ ROWS | fork SEQ NEW | slide SEQ ROW | release SEQ | class SEQ NAME
//	pin BLOCK | unpin BLOCK | drop DOMAIN | reset
//	match DOMAIN WORD                        limit is the whole word
//	cache                                    cached blocks, next to be evicted first
//	stats | events
//
// Check is called after every line.
func TestTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := playTrace(t, string(want))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func playTrace(t *testing.T, text string) string {
	var out strings.Builder
	tr := trace{seqs: map[string]*traced{}}
	for n, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if strings.HasPrefix(line, "  ") {
			continue
		}
		out.WriteString(line + "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		for _, answer := range tr.call(strings.Fields(line)) {
			out.WriteString("  " + answer + "\n")
		}
		if err := tr.pool.Check(); err != nil {
			t.Fatalf("line %d, %s: %v", n+1, line, err)
		}
	}
	return out.String()
}

type trace struct {
	pool *Pool
	seqs map[string]*traced
	text map[string]string // words by hash, for events
}

type traced struct {
	table Table
	dom   Domain
	ids   []int32
	hit   Hit
}

func word(s string) []int32 {
	ids := make([]int32, len(s))
	for i := range s {
		ids[i] = int32(s[i])
	}
	return ids
}

func spell(ids []int32) string {
	b := make([]byte, len(ids))
	for i, id := range ids {
		b[i] = byte(id)
	}
	return string(b)
}

// call runs one line; arguments beyond the end are empty.
func (tr *trace) call(f []string) []string {
	f = append(f, "", "", "")
	n, _ := strconv.Atoi(f[2])
	s := tr.seqs[f[1]]
	p := tr.pool
	switch f[0] {
	case "pool":
		tr.open(f)
	case "start", "begin":
		return tr.start(f)
	case "grow":
		return tr.grow(s, n)
	case "commit":
		p.Commit(&s.table, s.ids, n)
		return tr.show(s)
	case "extend":
		return tr.extend(s, f[2])
	case "redo":
		p.Truncate(&s.table, n)
		s.ids = s.ids[:n]
		return tr.extend(s, f[3])
	case "truncate":
		p.Truncate(&s.table, n)
		return tr.show(s)
	case "fork":
		fork := &traced{dom: s.dom, ids: append([]int32(nil), s.ids[:s.table.tokens]...)}
		p.Fork(&fork.table, &s.table)
		tr.seqs[f[2]] = fork
		return tr.show(fork)
	case "slide":
		p.Slide(&s.table, n)
		return tr.show(s)
	case "release":
		p.Release(&s.table)
	case "class":
		for c := range Class(numClasses) {
			if c.String() == f[2] {
				p.SetClass(&s.table, c)
			}
		}
	default:
		return tr.poolCall(f)
	}
	return nil
}

// poolCall runs the lines that are not about a sequence.
func (tr *trace) poolCall(f []string) []string {
	p := tr.pool
	b, _ := strconv.Atoi(f[1])
	switch f[0] {
	case "pin":
		return []string{fmt.Sprint(p.Pin(BlockID(b)))}
	case "unpin":
		p.Unpin(BlockID(b))
	case "drop":
		return []string{fmt.Sprint(p.DropDomain(p.Domain(f[1])), " blocks")}
	case "reset":
		return []string{fmt.Sprint(p.Reset(), " blocks")}
	case "match":
		return []string{tr.spellHit(p.Match(p.Domain(f[1]), word(f[2]), len(f[2])))}
	case "cache":
		return tr.cache()
	case "stats":
		s := p.Stats()
		return []string{
			fmt.Sprintf("%d blocks: %d free, %d cached, %d referenced, %d pinned", s.Blocks, s.Free, s.Cached, s.Referenced, s.Pinned),
			fmt.Sprintf("hits %d of %d tokens, %d evictions, %d folded, %d rows copied",
				s.HitTokens, s.QueryTokens, s.Evictions, s.Folded, s.CopiedRows),
		}
	case "events":
		var lines []string
		p.DrainEvents(func(e Event) { lines = append(lines, tr.spellEvent(e)) })
		return lines
	default:
		return []string{"no such call: " + f[0]}
	}
	return nil
}

func (tr *trace) open(f []string) {
	var c Config
	c.Blocks, _ = strconv.Atoi(f[1])
	c.BlockTokens, _ = strconv.Atoi(f[2])
	c.TenantBlocks, _ = strconv.Atoi(f[3])
	c.Events = true
	tr.pool, _ = New(c)
	tr.text = map[string]string{Hash{}.String(): ""}
}

func (tr *trace) start(f []string) []string {
	s := &traced{dom: tr.pool.Domain(f[2]), ids: word(f[3])}
	tr.seqs[f[1]] = s
	for i, h := range s.dom.Chain(nil, s.ids, tr.pool.BlockTokens()) {
		tr.text[h.String()] = f[2] + ":" + f[3][:(i+1)*tr.pool.BlockTokens()]
	}
	s.hit = tr.pool.Match(s.dom, s.ids, len(s.ids)-1)
	tr.pool.Begin(&s.table, s.dom)
	if f[0] == "begin" {
		return []string{tr.spellHit(s.hit)}
	}
	return append([]string{tr.spellHit(s.hit)}, tr.extend(s, "")...)
}

func (tr *trace) extend(s *traced, letters string) []string {
	s.ids = append(s.ids, word(letters)...)
	for i, h := range s.dom.Chain(nil, s.ids, tr.pool.BlockTokens()) {
		if _, ok := tr.text[h.String()]; !ok {
			tr.text[h.String()] = "..." + spell(s.ids[:(i+1)*tr.pool.BlockTokens()])
		}
	}
	out := tr.grow(s, len(s.ids))
	if s.table.grown < len(s.ids) {
		return out
	}
	tr.pool.Commit(&s.table, s.ids, len(s.ids))
	return append(out[:len(out)-1], tr.show(s)...)
}

func (tr *trace) grow(s *traced, rows int) []string {
	var copies []Copy
	need, ok := tr.pool.CanGrow(&s.table, rows, s.hit)
	if !tr.pool.Grow(&s.table, rows, s.hit, &copies) {
		return []string{fmt.Sprintf("no room: needs %d of %d, CanGrow %v", need, tr.pool.FreeNow(), ok)}
	}
	var out []string
	for _, c := range copies {
		out = append(out, fmt.Sprintf("copy %d rows %d -> %d", c.Rows, c.Src, c.Dst))
	}
	return append(out, tr.show(s)...)
}

func (tr *trace) show(s *traced) []string {
	return []string{fmt.Sprintf("blocks %v, %d rows", s.table.blocks, s.table.tokens)}
}

func (tr *trace) spellHit(h Hit) string {
	if h.Tokens == 0 {
		return "miss"
	}
	out := fmt.Sprintf("hit %d tokens: %d blocks", h.Tokens, h.Full)
	if h.PartialTokens > 0 {
		out += fmt.Sprintf(" and %d rows of %d", h.PartialTokens, h.Partial)
	}
	return out
}

func (tr *trace) spellEvent(e Event) string {
	return fmt.Sprintf("%s %s", []string{"stored", "removed", "cleared"}[e.Kind], tr.text[e.Hash.String()])
}

// cache lists the class lists in the order in which eviction walks them.
func (tr *trace) cache() []string {
	var out []string
	p := tr.pool
	for c := range Class(numClasses) {
		list := p.rankRing(numAside + int32(c))
		for b := p.lru.front(list); b != list; b = p.lru.front(b) {
			out = append(out, fmt.Sprintf("%d %s %s", b, c, spell(p.rows(BlockID(b)))))
		}
	}
	return out
}
