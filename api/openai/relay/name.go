package relay

import (
	"bytes"
	"slices"

	"weir/api/openai/jsonbody"
)

// Clients are told the name of the model that they may ask for, and not what a server behind
// it calls it.

var modelKey = []byte(`"model"`)

// underName is an answer with a model's name in the place of its server's, written over it where there is room. name is JSON.
func underName(answer, name []byte) []byte {
	if from, to := modelValue(answer); to > 0 && !bytes.Equal(answer[from:to], name) {
		return slices.Replace(answer, from, to, name...)
	}
	return answer
}

// appendUnderName appends a line of a stream in the same way.
func appendUnderName(dst, line, name []byte) []byte {
	from, to := modelValue(line)
	if to == 0 {
		return append(dst, line...)
	}
	return append(append(append(dst, line[:from]...), name...), line[to:]...)
}

// modelValue finds the string that an object has as its model: of several, which objects
// within it may have, the one that lies highest. to is 0 where there is none. Text inside of
// strings is never found: its quotes are escaped.
func modelValue(text []byte) (from, to int) {
	i := bytes.Index(text, modelKey)
	if i < 0 {
		return 0, 0
	}
	if !bytes.Contains(text[i+len(modelKey):], modelKey) {
		return stringAfter(text, i+len(modelKey))
	}
	return highestModel(text)
}

// highestModel looks at the whole text.
func highestModel(text []byte) (from, to int) {
	least, depth := len(text), 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			if depth < least && bytes.HasPrefix(text[i:], modelKey) {
				if a, b := stringAfter(text, i+len(modelKey)); b > 0 {
					least, from, to = depth, a, b
				}
			}
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		}
	}
	return from, to
}

// stringAfter finds the string that follows a key which ends at i.
func stringAfter(text []byte, i int) (from, to int) {
	if i = jsonbody.SkipSpace(text, i); i == len(text) || text[i] != ':' {
		return 0, 0
	}
	if from = jsonbody.SkipSpace(text, i+1); from == len(text) || text[from] != '"' {
		return 0, 0
	}
	for i = from + 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return from, i + 1
		}
	}
	return 0, 0
}
