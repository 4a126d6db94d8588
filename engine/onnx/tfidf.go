package onnx

import (
	"fmt"

	"weir/internal/tensor"
)

// grams counts sequences of words, of a vocabulary.
type grams[T comparable] struct {
	least, most int // words of a sequence
	skips       int // words that may be left out between two
	root        gram[T]
	columns     int
}

// gram is a sequence that begins others.
type gram[T comparable] struct {
	longer map[T]*gram[T]
	column int // of the output; -1: the sequence itself is not counted
}

// vocabulary is what TfIdfVectorizer's attributes say, except for the words.
type vocabulary struct {
	least, most, skips int
	starts             []int64 // where the sequences of one word, of two and so on begin in the pool
	columns            []int64 // of the sequences, in order
	weights            []float32
	mode               string
}

// tfIdfVectorizer counts a vocabulary's sequences of words in rows of words, and weighs the counts.
func tfIdfVectorizer(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	v := &vocabulary{
		least: int(n.integer("min_gram_length", 1)), most: int(n.integer("max_gram_length", 1)), skips: int(n.integer("max_skip_count", 0)),
		starts: n.integers("ngram_counts"), columns: n.integers("ngram_indexes"), weights: n.floats("weights"), mode: n.str("mode", ""),
	}
	if v.least < 1 || v.most < v.least || v.skips < 0 || v.mode != "TF" && v.mode != "IDF" && v.mode != "TFIDF" {
		return nil, fmt.Errorf("mode %q of %d to %d words with %d between", v.mode, v.least, v.most, v.skips)
	}
	n.gives(tensor.Float32)
	words, ints := n.strings("pool_strings"), n.integers("pool_int64s")
	if n.typ(0) != tensor.Bytes {
		g, err := newGrams(v, ints)
		if err != nil {
			return nil, err
		}
		return func(c *call) error { return count(c, g, v, indices(c.in(0))) }, n.oneOf(0, tensor.Int32, tensor.Int64)
	}
	pool := make([]string, len(words))
	for i, w := range words {
		pool[i] = string(w)
	}
	n.b.vocabularies = append(n.b.vocabularies, pool)
	g, err := newGrams(v, pool)
	if err != nil {
		return nil, err
	}
	return func(c *call) error {
		row := make([]string, len(c.in(0).Strings))
		for i, s := range c.in(0).Strings {
			row[i] = string(s)
		}
		return count(c, g, v, row)
	}, nil
}

// maxColumns bounds the width of what TfIdfVectorizer gives.
const maxColumns = 1 << 24

func newGrams[T comparable](v *vocabulary, pool []T) (*grams[T], error) {
	g := &grams[T]{least: v.least, most: v.most, skips: v.skips, root: gram[T]{column: -1}}
	for _, column := range v.columns {
		if column < 0 || column >= maxColumns {
			return nil, fmt.Errorf("a sequence has the column %d; the limit is %d", column, maxColumns)
		}
		g.columns = max(g.columns, int(column)+1)
	}
	next := 0
	for i, start := range v.starts {
		length, end := i+1, int64(len(pool))
		if i+1 < len(v.starts) {
			end = v.starts[i+1]
		}
		if start < 0 || end < start || end > int64(len(pool)) || (end-start)%int64(length) != 0 {
			return nil, fmt.Errorf("sequences of %d words stand at %d to %d of %d words", length, start, end, len(pool))
		}
		for at := int(start); at < int(end); at += length {
			if next >= len(v.columns) {
				return nil, fmt.Errorf("%d columns for more sequences", len(v.columns))
			}
			if length >= v.least && length <= v.most {
				g.add(pool[at:at+length], int(v.columns[next]))
			}
			next++
		}
	}
	if v.weights != nil && len(v.weights) < g.columns || next != len(v.columns) {
		return nil, fmt.Errorf("%d sequences, %d columns and %d weights", next, len(v.columns), len(v.weights))
	}
	return g, nil
}

func (g *grams[T]) add(words []T, column int) {
	at := &g.root
	for _, w := range words {
		if at.longer == nil {
			at.longer = make(map[T]*gram[T])
		}
		if at.longer[w] == nil {
			at.longer[w] = &gram[T]{column: -1}
		}
		at = at.longer[w]
	}
	at.column = column
}

// find counts the sequences of a row. Those of one word are found once, whatever may stand between words.
func (g *grams[T]) find(row []T, counts []float32) {
	for skip := 0; skip <= g.skips && (skip == 0 || g.most > 1 && skip+1 < len(row)); skip++ {
		for start := range row {
			at := &g.root
			for length, i := 1, start; length <= g.most && i < len(row); length, i = length+1, i+skip+1 {
				if at = at.longer[row[i]]; at == nil {
					break
				}
				if at.column >= 0 && (length > 1 || skip == 0) {
					counts[at.column]++
				}
			}
		}
	}
}

func count[T comparable](c *call, g *grams[T], v *vocabulary, words []T) error {
	in := c.in(0)
	rows, width, shape := 1, len(words), []int64{int64(g.columns)}
	switch len(in.Shape) {
	case 0, 1:
	case 2:
		rows, width = int(in.Shape[0]), int(in.Shape[1])
		shape = []int64{in.Shape[0], int64(g.columns)}
	default:
		return fmt.Errorf("words of shape %v; one or two dimensions are supported", in.Shape)
	}
	out, err := c.out(0, shape...)
	if err != nil {
		return err
	}
	if err := c.f.charge(int64(len(words)) * int64(min(g.skips, width)+1)); err != nil {
		return err
	}
	to := tensor.Values[float32](out)
	clear(to)
	for r := range rows {
		counts := to[r*g.columns : (r+1)*g.columns]
		g.find(words[r*width:(r+1)*width], counts)
		v.weigh(counts)
	}
	return nil
}

// weigh turns counts into what the mode asks for.
func (v *vocabulary) weigh(counts []float32) {
	if v.mode == "TF" {
		return
	}
	for i, n := range counts {
		w := float32(1)
		if v.weights != nil {
			w = v.weights[i]
		}
		switch {
		case v.mode == "TFIDF":
			counts[i] = n * w
		case n > 0:
			counts[i] = w
		}
	}
}
