package tokenizer

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// mergeByDefinition is BPE as published: join the pair of lowest rank, the
// leftmost of equals, until none joins.
func mergeByDefinition(symbols []string, rank func(left, right string) (int, bool)) []string {
	symbols = slices.Clone(symbols)
	for {
		best, at := -1, -1
		for i := range len(symbols) - 1 {
			if r, ok := rank(symbols[i], symbols[i+1]); ok && (best < 0 || r < best) {
				best, at = r, i
			}
		}
		if at < 0 {
			return symbols
		}
		symbols[at] += symbols[at+1]
		symbols = slices.Delete(symbols, at+1, at+2)
	}
}

// randomMerges makes a merge list over a small alphabet whose parts were made
// earlier in the list or are single letters.
func randomMerges(r *rand.Rand, n int) []string {
	parts := []string{"a", "b", "c"}
	var merges []string
	for range n {
		left, right := parts[r.IntN(len(parts))], parts[r.IntN(len(parts))]
		if len(left)+len(right) > 12 {
			continue
		}
		merges = append(merges, left+" "+right)
		parts = append(parts, left+right)
	}
	return merges
}

func randomText(r *rand.Rand, alphabet string, n int) string {
	var b strings.Builder
	for range n {
		b.WriteByte(alphabet[r.IntN(len(alphabet))])
	}
	return b.String()
}

func TestBytePairMergingEqualsItsDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		f := emptyFields("gpt2")
		for _, b := range byteRunes {
			f.add(string(b), int32(typeNormal), 0)
		}
		merges := randomMerges(r, 1+r.IntN(30))
		ranks := map[string]int{}
		for i, m := range merges {
			if _, ok := ranks[m]; !ok {
				ranks[m] = i
			}
			joined := strings.Replace(m, " ", "", 1)
			if !slices.Contains(f["tokens"].([]string), joined) {
				f.add(joined, int32(typeNormal), 0)
			}
		}
		f["merges"], f["pre"] = merges, "gpt-2"
		tok := mustBuild(t, f)
		text := randomText(r, "abc", 1+r.IntN(90))
		want := mergeByDefinition(strings.Split(text, ""), func(left, right string) (int, bool) {
			i, ok := ranks[left+" "+right]
			return i, ok
		})
		if got := texts(tok, tok.AppendEncode(nil, text, EncodeOptions{})); !slices.Equal(got, want) {
			t.Fatalf("%q with %q:\n got %q\nwant %q", text, merges, got, want)
		}
	}
}

func TestSentencePieceMergingEqualsItsDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for round := range 200 {
		f := sentencePieceFields().with("add_space_prefix", false)
		scores := map[string]int{}
		for i, text := range f["tokens"].([]string) {
			if f["token_type"].([]int32)[i] == int32(typeNormal) {
				scores[text] = int(f["scores"].([]float32)[i])
			}
		}
		for range 40 {
			text := randomText(r, "abc", 2+r.IntN(4))
			if round%2 == 1 { // entries with a space inside: words do not bound merges
				text = strings.ReplaceAll(randomText(r, "ab ", 2+r.IntN(4)), " ", wordMark)
			}
			if _, ok := scores[text]; !ok {
				scores[text] = -r.IntN(12) // many equal scores
				f.add(text, int32(typeNormal), float32(scores[text]))
			}
		}
		tok := mustBuild(t, f)
		text := randomText(r, "abc ", 1+r.IntN(90))
		marked := strings.Split(strings.ReplaceAll(text, " ", wordMark), "")
		want := mergeByDefinition(marked, func(left, right string) (int, bool) {
			score, ok := scores[left+right]
			return -score, ok
		})
		for i, w := range want {
			switch w {
			case "b":
				want[i] = "<0x62>"
			case "c":
				want[i] = "<0x63>"
			}
		}
		if got := texts(tok, tok.AppendEncode(nil, text, EncodeOptions{})); !slices.Equal(got, want) {
			t.Fatalf("%q:\n got %q\nwant %q", text, got, want)
		}
	}
}

// TestMergingWorkIsNLogN counts heap moves and pair lookups, not time.
func TestMergingWorkIsNLogN(t *testing.T) {
	for _, f := range []fields{bytePairFields("gpt-2"), bytePairFields("llama-bpe"), sentencePieceFields()} {
		tok := mustBuild(t, f)
		for name, text := range hostileTexts(1 << 16) {
			var s scratch
			tok.model.appendText(nil, text, true, &s)
			n := 3 * len(text) // U+FFFD makes three symbols of a byte
			if limit := 8 * n * bits.Len(uint(n)); s.merger.work > limit {
				t.Errorf("%s, %s: %d steps for %d bytes, limit %d", tok.Kind(), name, s.merger.work, len(text), limit)
			}
		}
	}
}

func TestWordPieceTakesHostileText(t *testing.T) {
	tok := mustBuild(t, wordPieceFields())
	for name, text := range hostileTexts(1 << 16) {
		if ids := tok.AppendEncode(nil, text, EncodeOptions{}); len(ids) > len(text) {
			t.Errorf("%s: %d ids for %d bytes", name, len(ids), len(text))
		}
	}
}

func TestPairTableKeepsTheFirstOfEqualPairs(t *testing.T) {
	table := newPairTable(0)
	for i := range int32(1000) {
		table.add(i, i+1, uint32(i), 2*i)
		table.add(i, i+1, 7, 7)
	}
	for i := range int32(1000) {
		if rank, merged := table.find(i, i+1); rank != uint32(i) || merged != 2*i {
			t.Fatalf("pair %d: rank %d, symbol %d", i, rank, merged)
		}
		if rank, _ := table.find(i+1, i); rank != noRank {
			t.Fatalf("pair %d the other way: rank %d", i, rank)
		}
	}
	if rank, _ := table.find(noSymbol, 0); rank != noRank {
		t.Error("no symbol merges")
	}
}
