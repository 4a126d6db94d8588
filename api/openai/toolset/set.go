// Package toolset reads what a request says about tools: functions and custom tools, and which of them an answer may or must call.
//
//	set := toolset.Read(body, &fault)
//	if set.Has() && set.Forced() {
//		// the answer follows the grammar of calls
//	}
package toolset

import (
	"bytes"
	"regexp"
	"slices"

	"weir/api"
	"weir/api/openai/jsonbody"
	"weir/tokenizer/family"
)

// Limits of a request.
const (
	MaxTools            = 1000
	MaxToolBytes        = 256 << 10 // of one tool, its schema included
	MaxDescriptionBytes = 64 << 10
	MaxCalls            = 1000 // of one message
)

// toolName is what the OpenAI API allows as the name of a function.
var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Set is what a request says about tools. The zero value is a request without any.
type Set struct {
	Tools  []family.Tool
	Choice family.Choice
	Named  bool                    // the request chose one function by its name
	Legacy bool                    // the request says functions and function_call, and so does its answer
	Listed []byte                  // the tools as a JSON array, as templates expect them
	Inputs map[string]*InputFormat // the custom tools among them
}

// Has reports whether the request has tools.
func (t *Set) Has() bool { return len(t.Tools) > 0 }

// Forced reports whether an answer must follow the grammar of calls.
func (t *Set) Forced() bool {
	return t.Choice.Mode == family.Required ||
		t.Choice.Mode == family.Auto && slices.ContainsFunc(t.Tools, func(f family.Tool) bool { return f.Strict })
}

// Read reads tools, tool_choice and parallel_tool_calls, or the older functions and
// function_call.
func Read(o *jsonbody.Object, fault **api.Error) Set {
	t := Set{Choice: family.Choice{Parallel: true}}
	raw, modern := o.Take("tools")
	old, legacy := o.Take("functions")
	switch {
	case modern && legacy && !jsonbody.IsEmptyArray(raw) && !jsonbody.IsEmptyArray(old):
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", "functions", "functions and tools exclude each other; tools is the newer name"))
	case legacy && !jsonbody.IsEmptyArray(old):
		t.Legacy = true
		t.Choice.Parallel = false
		jsonbody.Keep(fault, t.readList(o, "functions", old))
	case modern:
		jsonbody.Keep(fault, t.readList(o, "tools", raw))
	}
	if t.Has() {
		t.Choice.Mode = family.Auto
	}
	t.Legacy = t.Legacy && t.Has()
	if *fault == nil {
		t.readChoice(o, fault)
	}
	t.readParallel(o, fault)
	return t
}

// PathOf is the path of the schema of a tool's arguments.
func (t *Set) PathOf(schema []byte) string {
	for i := range t.Tools {
		if bytes.Equal(t.Tools[i].Parameters, schema) {
			if t.Legacy {
				return jsonbody.Join(jsonbody.At("functions", i), "parameters")
			}
			return jsonbody.Join(jsonbody.At("tools", i), "function.parameters")
		}
	}
	return "tools"
}
