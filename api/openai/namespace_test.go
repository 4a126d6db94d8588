package openai

import (
	"encoding/json"
	"strings"
	"testing"
)

// agentTools are what Codex sends: functions, namespaces of them, and tools of OpenAI's own servers.
const agentTools = `{"type":"function","name":"shell","parameters":{"type":"object","properties":{"cmd":{"type":"string"}}}},` +
	`{"type":"web_search","external_web_access":false},` +
	`{"type":"namespace","name":"mcp__notes__","description":"Notes of the team.","tools":[` +
	`{"type":"function","name":"find","description":"Finds notes.","parameters":{"type":"object"}},{"type":"custom","name":"write"}]}`

// TestToolsOfNamespaces: the functions of a namespace reach the model under joined names, and their calls the client under its own two names;
// the server's tools are left out with a warning.
func TestToolsOfNamespaces(t *testing.T) {
	call := "<tool_call>\n{\"name\": \"mcp__notes__find\", \"arguments\": {\"q\":1}}\n</tool_call>"
	r := newRig(t, DefaultConfig(), &fakeBackend{script: say(call, 0)})
	defer r.close()
	longModel(r)
	const asked = `{"model":"test-model","max_output_tokens":300,"tools":[` + agentTools + `],"input":[{"role":"user","content":"hi"},` +
		`{"type":"function_call","call_id":"c1","namespace":"mcp__notes__","name":"find","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"none"}]}`
	res, body := r.do("POST", routeResponses, "", asked)
	var got struct {
		Output []struct{ Type, Name, Namespace, Arguments string }
		Tools  []struct{ Type, Name string }
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || res.StatusCode != 200 {
		t.Fatalf("%d %s %v", res.StatusCode, body, err)
	}
	if len(got.Output) != 1 || got.Output[0].Type != "function_call" || got.Output[0].Name != "find" || got.Output[0].Namespace != "mcp__notes__" || got.Output[0].Arguments != `{"q":1}` {
		t.Errorf("the call is %+v", got.Output)
	}
	if len(got.Tools) != 2 || got.Tools[1].Type != "namespace" {
		t.Errorf("the answer lists %+v", got.Tools)
	}
	if w := res.Header.Get("X-Weir-Warnings"); !strings.Contains(w, "web_search") {
		t.Errorf("warnings: %q", w)
	}
	prompt := r.backend.tok.Decode(r.backend.run(t, 0).req.Prompt, true)
	for _, part := range []string{"mcp__notes__find", "mcp__notes__write", "Notes of the team.", "Finds notes."} {
		if !strings.Contains(prompt, part) {
			t.Errorf("the prompt lacks %q: %s", part, prompt)
		}
	}
	_, stream := r.do("POST", routeResponses, "", strings.Replace(asked, "{", `{"stream":true,`, 1))
	if n := strings.Count(stream, `"name":"find","namespace":"mcp__notes__"`); n < 3 {
		t.Errorf("%d events name the namespace: %s", n, stream)
	}
}

// TestThreadsAreRefusedByTheirCode: Anthropic's clients send the whole conversation after this answer, and would take any other as the end.
func TestThreadsAreRefusedByTheirCode(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	for _, path := range []string{routeMessages, routeCount} {
		res, body := r.do("POST", path, "Anthropic-Version: 2023-06-01\r\n", `{"model":"test-model","max_tokens":5,"thread":{"type":"new"},"messages":[{"role":"user","content":"hi"}]}`)
		var got struct {
			Error struct {
				Type    string
				Details struct {
					Code string `json:"error_code"`
				}
			}
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil || res.StatusCode != 400 || got.Error.Details.Code != "thread_unsupported_request" ||
			got.Error.Type != "invalid_request_error" || res.Header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s: %d %s %v", path, res.StatusCode, body, err)
		}
	}
}

// TestTypedToolsHaveSchemas: the tools that Anthropic's clients run themselves are functions for every model.
func TestTypedToolsHaveSchemas(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	longModel(r)
	status, body := r.post(routeMessages, `{"model":"test-model","max_tokens":5,"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"bash_20250124","name":"bash"},`+
		`{"type":"text_editor_20250728","name":"str_replace_based_edit_tool","max_characters":100},{"type":"memory_20250818","name":"memory"}]}`)
	if status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	prompt := r.backend.tok.Decode(r.backend.run(t, 0).req.Prompt, true)
	for _, part := range []string{`"bash"`, "restart", "str_replace_based_edit_tool", "insert_line", "memories"} {
		if !strings.Contains(prompt, part) {
			t.Errorf("the prompt lacks %q", part)
		}
	}
}
