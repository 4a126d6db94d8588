package jsonbody

import (
	"encoding/json"
	"strings"

	"weir/api"
)

// ParseObject takes valid JSON apart, which must be an object.
func ParseObject(path string, raw []byte, limit int) (*Object, *api.Error) {
	i := SkipSpace(raw, 0)
	if raw[i] != '{' {
		return nil, WrongType(path, "an object", raw)
	}
	o := &Object{Path: path}
	seen := make(map[string]struct{})
	for i = SkipSpace(raw, i+1); raw[i] != '}'; {
		end := skipString(raw, i)
		name := string(raw[i+1 : end-1])
		if strings.IndexByte(name, '\\') >= 0 {
			if err := json.Unmarshal(raw[i:end], &name); err != nil {
				return nil, api.RefuseParam("invalid_json", path, "field name %s: %v", Quote(raw[i:end]), err)
			}
		}
		start := SkipSpace(raw, SkipSpace(raw, end)+1) // over the colon
		end = SkipValue(raw, start)
		if _, dup := seen[name]; dup {
			return nil, api.RefuseParam("duplicate_parameter", Join(path, name), "%q is given twice; which one counts is not defined", Join(path, name))
		}
		if seen[name] = struct{}{}; len(seen) > limit {
			return nil, api.RefuseParam("invalid_value", path, "%s has more than %d fields", orBody(path), limit)
		}
		o.Fields = append(o.Fields, Field{Name: name, Raw: raw[start:end]})
		i = SkipComma(raw, end)
	}
	return o, nil
}

// Array splits valid JSON, which must be an array of at most limit
// values.
func Array(path string, raw []byte, limit int) ([]json.RawMessage, *api.Error) {
	i := SkipSpace(raw, 0)
	if raw[i] != '[' {
		return nil, WrongType(path, "an array", raw)
	}
	var list []json.RawMessage
	for i = SkipSpace(raw, i+1); raw[i] != ']'; {
		end := SkipValue(raw, i)
		if len(list) == limit {
			return nil, api.RefuseParam("invalid_value", path, "%s has more than %d values", orBody(path), limit)
		}
		list = append(list, raw[i:end])
		i = SkipComma(raw, end)
	}
	return list, nil
}

// TooDeep counts brackets outside of strings.
func TooDeep(body []byte) bool {
	depth, inString := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// SkipSpace is where the next byte that is no space stands.
func SkipSpace(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\t' || raw[i] == '\r') {
		i++
	}
	return i
}

// SkipComma goes to the next value, or to the closing bracket.
func SkipComma(raw []byte, i int) int {
	if i = SkipSpace(raw, i); raw[i] == ',' {
		i = SkipSpace(raw, i+1)
	}
	return i
}

func skipString(raw []byte, i int) int {
	for i++; raw[i] != '"'; i++ {
		if raw[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// SkipValue returns the end of the value that starts at i.
func SkipValue(raw []byte, i int) int {
	depth := 0
	for i < len(raw) {
		switch raw[i] {
		case '"':
			i = skipString(raw, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // end of the container around a bare number or word
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return i
}
