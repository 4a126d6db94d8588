package responses

import (
	"encoding/json"
	"strconv"
	"strings"

	"weir/api"
	"weir/api/openai/jsonbody"
	"weir/api/openai/translation"
)

// StoredInput is what a request adds to its conversation, as an array of items: each has a
// type and an id, and messages have parts.
func (r *Request) StoredInput(id string) []byte {
	if len(r.input) > 0 && r.input[0] != '[' {
		text := append(append([]byte(`[{"role":"user","content":`), r.input...), "}]"...)
		return r.itemsOf(text, id)
	}
	return r.itemsOf(r.input, id)
}

// StoredItems are items as they are stored: each has a type and an id, which is made of id, and messages have parts.
func StoredItems(list []byte, id string) []byte { return (&Request{}).itemsOf(list, id) }

// CheckItems reports what is wrong with items that stand at a path.
func CheckItems(o *jsonbody.Object, path string, list []json.RawMessage) *api.Error {
	var ignored translation.Messages
	for i, item := range list {
		if fault := readItem(&ignored, o, jsonbody.At(path, i), item); fault != nil {
			return fault
		}
	}
	return nil
}

func (r *Request) itemsOf(list []byte, id string) []byte {
	items, fault := jsonbody.Array("input", list, translation.MaxItems)
	dst := []byte{'['}
	for i, raw := range items {
		item, err := jsonbody.ParseObject("", raw, jsonbody.MaxFields)
		if fault != nil || err != nil {
			break // the request was read, so there is none
		}
		dst = appendStored(item, api.AppendComma(dst, i), strings.TrimPrefix(id, Prefix)+"_i"+strconv.Itoa(i))
	}
	return append(dst, ']')
}

// inputPrefixes begin the ids of items that came without one, by type.
var inputPrefixes = map[string]string{"message": "msg_", "reasoning": "rs_", "function_call": "fc_", "function_call_output": "fco_"}

func appendStored(o *jsonbody.Object, dst []byte, id string) []byte {
	var ignored *api.Error
	kind, ok := o.Text("type", &ignored)
	if !ok {
		kind = "message"
	}
	out := &jsonbody.Object{}
	out.Add("type", api.AppendString(nil, kind))
	for _, f := range o.Fields {
		if f.Name == "type" || jsonbody.IsNull(f.Raw) {
			continue
		}
		if kind == "message" && f.Name == "content" && f.Raw[0] == '"' {
			part := `[{"type":"input_text","text":`
			if role, _ := o.Text("role", &ignored); role == "assistant" {
				part = `[{"type":"output_text","annotations":[],"text":`
			}
			f.Raw = append(append([]byte(part), f.Raw...), "}]"...)
		}
		out.Add(f.Name, f.Raw)
	}
	out.Add("id", api.AppendString(nil, inputPrefixes[kind]+id))
	if kind == "message" {
		out.Add("status", []byte(`"completed"`))
	}
	return out.AppendJSON(dst)
}
