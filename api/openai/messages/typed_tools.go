package messages

import (
	"strings"

	"weir/api"
	"weir/api/openai/jsonbody"
	"weir/api/openai/toolset"
	"weir/api/openai/translation"
)

// typedTool is a tool that Anthropic's models know by its type: clients run it, and send no schema of its input. Other models get one.
type typedTool struct {
	kind  string // the beginning of the type, up to its date
	about string
	input string // JSON schema
}

var typedTools = []typedTool{
	{"bash_", "Runs a command in a shell that stays open between calls, and gives what it prints.",
		`{"type":"object","properties":{"command":{"type":"string","description":"The command to run"},` +
			`"restart":{"type":"boolean","description":"Starts the shell again instead"}}}`},
	{"text_editor_", "Shows, creates and changes files of text.",
		`{"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert"]},` +
			`"path":{"type":"string","description":"Absolute path of a file or a folder"},` + editing + `},"required":["command","path"]}`},
	{"memory_", "Keeps notes between conversations, as files below /memories.",
		`{"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert","delete","rename"]},` +
			`"path":{"type":"string","description":"Path below /memories"},"old_path":{"type":"string","description":"For rename"},` +
			`"new_path":{"type":"string","description":"For rename"},` + editing + `},"required":["command"]}`},
}

// editing is what both tools of files take beside a command and a path.
const editing = `"view_range":{"type":"array","items":{"type":"integer"},"description":"First and last line to view"},` +
	`"file_text":{"type":"string","description":"Whole text of a file to create"},` +
	`"old_str":{"type":"string","description":"Text to replace, which stands in the file once"},` +
	`"new_str":{"type":"string","description":"What replaces it"},` +
	`"insert_line":{"type":"integer","description":"Number of the line behind which to insert"},` +
	`"insert_text":{"type":"string","description":"Text to insert"}`

// readTypedTool reads a tool that has a type and no schema. Those that Anthropic's servers run are refused.
func readTypedTool(o *jsonbody.Object, kind string, fault *api.Error) (*translation.Tool, *api.Error) {
	for _, known := range typedTools {
		if !strings.HasPrefix(kind, known.kind) {
			continue
		}
		t := &translation.Tool{Kind: toolset.Function, Name: api.AppendString(nil, o.Need("name", &fault)), Description: api.AppendString(nil, known.about),
			Parameters: []byte(known.input)}
		for _, hint := range []string{"cache_control", "max_characters", "allowed_callers", "defer_loading", "input_examples"} {
			o.Take(hint)
		}
		o.Finish(&fault)
		return t, fault
	}
	jsonbody.Keep(&fault, jsonbody.Unsupported(jsonbody.Join(o.Path, "type"), "tools of type "+jsonbody.Quote([]byte(kind))+
		" are run by Anthropic's servers, and this one runs none: leave the tool out, or send one with input_schema that your program runs"))
	return nil, fault
}
