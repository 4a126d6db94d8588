package onnx

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"unicode/utf8"

	"weir/internal/tensor"
)

// texts are the operators of strings.
func texts() map[string]constructor {
	return map[string]constructor{
		"StringNormalizer": stringNormalizer, "TfIdfVectorizer": tfIdfVectorizer, "RegexFullMatch": regexFullMatch,
		"StringConcat": stringConcat, "StringSplit": stringSplit,
	}
}

// stringNormalizer changes the case of strings and drops stop words. Locales differ in
// the letters that they know; every letter is known here.
func stringNormalizer(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	n.ignore("locale")
	exact := n.integer("is_case_sensitive", 0) != 0
	change, ok := map[string]func([]byte) []byte{
		"NONE": func(s []byte) []byte { return s }, "LOWER": bytes.ToLower, "UPPER": bytes.ToUpper,
	}[n.str("case_change_action", "NONE")]
	if !ok {
		return nil, fmt.Errorf("case_change_action %q is unknown", n.str("case_change_action", ""))
	}
	compared := func(s []byte) string {
		if exact {
			return string(s)
		}
		return string(bytes.ToLower(s))
	}
	stops := make(map[string]bool)
	for _, s := range n.strings("stopwords") {
		stops[compared(s)] = true
	}
	if len(stops) > 0 {
		n.b.m.mixes = true // words that go shift those of other rows
	}
	n.gives(tensor.Bytes)
	return func(c *call) error {
		in := c.in(0)
		if len(in.Shape) != 1 && (len(in.Shape) != 2 || in.Shape[0] != 1) {
			return fmt.Errorf("strings of shape %v; [n] and [1, n] are supported", in.Shape)
		}
		var left [][]byte
		for _, s := range in.Strings {
			if len(stops) == 0 || !stops[compared(s)] {
				left = append(left, change(s))
			}
		}
		if len(left) == 0 && len(in.Strings) > 0 {
			left = [][]byte{nil}
		}
		shape := slices.Clone(in.Shape)
		shape[len(shape)-1] = int64(len(left))
		out, err := c.out(0, shape...)
		if err == nil {
			copy(out.Strings, left)
		}
		return err
	}, n.oneOf(0, tensor.Bytes)
}

// pattern is a regular expression of RE2's notation.
func pattern(text string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("the pattern %q: %w", text, err)
	}
	return re, nil
}

func regexFullMatch(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	re, err := pattern(`^(?:` + n.str("pattern", "") + `)$`)
	if err != nil {
		return nil, err
	}
	n.gives(tensor.Bool)
	return func(c *call) error {
		out, err := c.out(0, c.in(0).Shape...)
		if err != nil {
			return err
		}
		for i, s := range c.in(0).Strings {
			out.Data[i] = bit(re.Match(s))
		}
		return nil
	}, n.oneOf(0, tensor.Bytes)
}

func stringConcat(n *node) (kernel, error) {
	if err := n.takes(2, 2); err != nil {
		return nil, err
	}
	if err := n.oneOf(0, tensor.Bytes); err != nil {
		return nil, err
	}
	n.gives(tensor.Bytes)
	return func(c *call) error {
		a, b := c.in(0), c.in(1)
		shape, err := broadcast(a.Shape, b.Shape)
		if err != nil {
			return err
		}
		out, err := c.out(0, shape...)
		if err != nil {
			return err
		}
		over(out.Shape, a.Shape, elements(out), func(at, i int) { out.Strings[at] = a.Strings[i] })
		over(out.Shape, b.Shape, elements(out), func(at, i int) { out.Strings[at] = slices.Concat(out.Strings[at], b.Strings[i]) })
		return c.f.spend(stringBytes(out.Strings))
	}, n.oneOf(1, tensor.Bytes)
}

func stringBytes(list [][]byte) (total int64) {
	for _, s := range list {
		total += int64(len(s))
	}
	return total
}

// stringSplit cuts strings at a delimiter, or at blanks; rows of fewer parts end in empty strings.
func stringSplit(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	delimiter, most := n.str("delimiter", ""), n.integer("maxsplit", -1)
	n.gives(tensor.Bytes, tensor.Int64)
	return func(c *call) error {
		in := c.in(0)
		parts := make([][][]byte, len(in.Strings))
		for i, s := range in.Strings {
			parts[i] = splitString(s, []byte(delimiter), most)
		}
		if c.wants(1) {
			counts, err := c.out(1, in.Shape...)
			if err != nil {
				return err
			}
			for i := range parts {
				tensor.Values[int64](counts)[i] = int64(len(parts[i]))
			}
		}
		if !c.wants(0) {
			return nil
		}
		return c.padded(in.Shape, parts, nil)
	}, n.oneOf(0, tensor.Bytes)
}

func splitString(s, delimiter []byte, most int64) [][]byte {
	limit := -1
	if most >= 0 {
		limit = int(min(most, int64(len(s)))) + 1
	}
	if len(delimiter) > 0 {
		if len(s) == 0 {
			return nil
		}
		return bytes.SplitN(s, delimiter, limit)
	}
	var parts [][]byte
	for s = bytes.TrimSpace(s); len(s) > 0; {
		end := bytes.IndexAny(s, " \t\n\v\f\r")
		if end < 0 || limit >= 0 && len(parts) == limit-1 {
			return append(parts, s)
		}
		parts = append(parts, s[:end])
		s = bytes.TrimSpace(s[end:])
	}
	return parts
}

// padded makes output 0 of a row of strings for each element; shorter rows end in pad.
func (c *call) padded(shape []int64, rows [][][]byte, pad []byte) error {
	width := 0
	for _, r := range rows {
		width = max(width, len(r))
	}
	out, err := c.out(0, append(slices.Clone(shape), int64(width))...)
	if err != nil {
		return err
	}
	for i, r := range rows {
		to := out.Strings[i*width : (i+1)*width]
		for k := copy(to, r); k < width; k++ {
			to[k] = pad
		}
	}
	return nil
}

// tokenizer is ONNX Runtime's Tokenizer: strings become rows of tokens.
func tokenizer(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	mark, pad, least := n.integer("mark", 0) != 0, []byte(n.str("pad_value", "")), int(n.integer("mincharnum", 1))
	separators, expression := n.strings("separators"), n.str("tokenexp", "")
	var cut func(s []byte) [][]byte
	switch {
	case expression != "" && separators == nil:
		re, err := pattern("(?s:" + expression + ")")
		if err != nil {
			return nil, err
		}
		re.Longest()
		cut = func(s []byte) [][]byte { return re.FindAll(s, -1) }
	case len(separators) == 1 && len(separators[0]) == 0 && expression == "":
		cut = characters
	case len(separators) > 0 && expression == "":
		var list []*regexp.Regexp
		for _, s := range separators {
			re, err := pattern(string(s))
			if err != nil {
				return nil, err
			}
			re.Longest()
			list = append(list, re)
		}
		cut = func(s []byte) [][]byte { return between(s, list) }
	default:
		return nil, fmt.Errorf("%d separators and the token expression %q; one of both is taken", len(separators), expression)
	}
	n.b.pads = append(n.b.pads, string(pad))
	n.gives(tensor.Bytes)
	return func(c *call) error {
		in := c.in(0)
		if len(in.Shape) < 1 || len(in.Shape) > 2 {
			return fmt.Errorf("strings of shape %v; one or two dimensions are supported", in.Shape)
		}
		rows := make([][][]byte, len(in.Strings))
		for i, s := range in.Strings {
			if !utf8.Valid(s) {
				return fmt.Errorf("string %d is no UTF-8", i)
			}
			tokens := slices.DeleteFunc(cut(s), func(t []byte) bool { return len(t) == 0 || utf8.RuneCount(t) < least })
			if mark {
				tokens = slices.Concat([][]byte{{2}}, tokens, [][]byte{{3}})
			}
			rows[i] = tokens
			if err := c.f.spend(24 * int64(len(tokens))); err != nil {
				return err
			}
		}
		return c.padded(in.Shape, rows, pad)
	}, n.oneOf(0, tensor.Bytes)
}

// characters are the letters of a text, each a string.
func characters(s []byte) [][]byte {
	var all [][]byte
	for len(s) > 0 {
		_, size := utf8.DecodeRune(s)
		all, s = append(all, s[:size]), s[size:]
	}
	return all
}

// between is what stands between the matches of the first pattern, and then, within each part, of the others.
func between(s []byte, separators []*regexp.Regexp) [][]byte {
	parts := [][]byte{s}
	for _, re := range separators {
		var next [][]byte
		for _, part := range parts {
			start := 0
			for _, m := range re.FindAllIndex(part, -1) {
				if m[1] > m[0] {
					next, start = append(next, part[start:m[0]]), m[1]
				}
			}
			next = append(next, part[start:])
		}
		parts = next
	}
	return parts
}

// murmurHash is MurmurHash3 of 32 bits, of each string or of each number's bytes.
func murmurHash(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	seed := uint32(n.integer("seed", 0))
	n.gives(tensor.Int32)
	if n.integer("positive", 1) != 0 {
		n.gives(tensor.Uint32)
	}
	return func(c *call) error {
		in := c.in(0)
		out, err := c.out(0, in.Shape...)
		if err != nil {
			return err
		}
		to := tensor.Values[uint32](out)
		for i := range to {
			if in.Type == tensor.Bytes {
				to[i] = murmur3(in.Strings[i], seed)
			} else {
				size := in.Type.Size()
				to[i] = murmur3(in.Data[i*size:(i+1)*size], seed)
			}
		}
		return nil
	}, n.oneOf(0, tensor.Bytes, tensor.Int32, tensor.Uint32, tensor.Int64, tensor.Uint64, tensor.Float32, tensor.Float64)
}
