package openai

import (
	"strconv"
	"strings"

	"weir/api"
)

// storedInput is what a request adds to its conversation, as an array of items: each has a
// type and an id, and messages have parts.
func (r *responseRequest) storedInput(id string) []byte {
	if len(r.input) > 0 && r.input[0] != '[' {
		text := append(append([]byte(`[{"role":"user","content":`), r.input...), "}]"...)
		return r.itemsOf(text, id)
	}
	return r.itemsOf(r.input, id)
}

func (r *responseRequest) itemsOf(list []byte, id string) []byte {
	items, fault := parseArray("input", list, maxItems)
	dst := []byte{'['}
	for i, raw := range items {
		item, err := parseObject("", raw, maxFields)
		if fault != nil || err != nil {
			break // the request was read, so there is none
		}
		dst = item.appendStored(comma(dst, i), strings.TrimPrefix(id, responseEndpoint.prefix)+"_i"+strconv.Itoa(i))
	}
	return append(dst, ']')
}

// inputPrefixes begin the ids of items that came without one, by type.
var inputPrefixes = map[string]string{"message": "msg_", "reasoning": "rs_", "function_call": "fc_", "function_call_output": "fco_"}

func (o *object) appendStored(dst []byte, id string) []byte {
	var ignored *api.Error
	kind, ok := o.text("type", &ignored)
	if !ok {
		kind = "message"
	}
	out := &object{}
	out.add("type", api.AppendString(nil, kind))
	for _, f := range o.fields {
		if f.name == "type" || isNull(f.raw) {
			continue
		}
		if kind == "message" && f.name == "content" && f.raw[0] == '"' {
			part := `[{"type":"input_text","text":`
			if role, _ := o.text("role", &ignored); role == "assistant" {
				part = `[{"type":"output_text","annotations":[],"text":`
			}
			f.raw = append(append([]byte(part), f.raw...), "}]"...)
		}
		out.add(f.name, f.raw)
	}
	out.add("id", api.AppendString(nil, inputPrefixes[kind]+id))
	if kind == "message" {
		out.add("status", []byte(`"completed"`))
	}
	return out.appendJSON(dst)
}
