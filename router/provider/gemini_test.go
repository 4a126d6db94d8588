package provider

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestGeminiRequest: the request is what Google's own SDK sends for the same conversation.
func TestGeminiRequest(t *testing.T) {
	sameJSON(t, requestOf(t, Gemini, "gemini-2.5-flash", conversation), `{
		"systemInstruction":{"parts":[{"text":"Be brief.\n\nBe kind."}]},
		"contents":[
			{"role":"user","parts":[{"text":"What is this, and how warm is it in Rome and in Oslo?"},{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}]},
			{"role":"model","parts":[{"functionCall":{"id":"call_1","name":"weather","args":{"city":"Rome"}}},{"functionCall":{"id":"call_2","name":"weather","args":{"city":"Oslo"}}}]},
			{"role":"user","parts":[{"functionResponse":{"id":"call_1","name":"weather","response":{"result":"25"}}},{"functionResponse":{"id":"call_2","name":"weather","response":{"result":"-3"}}},{"text":"Go on."}]}],
		"tools":[{"functionDeclarations":[{"name":"weather","description":"The weather","parametersJsonSchema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}},{"name":"now"}]}],
		"toolConfig":{"functionCallingConfig":{"mode":"ANY"}},
		"generationConfig":{"maxOutputTokens":300,"temperature":1.5,"topP":0.9,"stopSequences":["END","FIN"]}}`)
}

func TestGeminiParameters(t *testing.T) {
	const user = `{"role":"user","content":"Hi"}`
	for _, tc := range []struct{ model, fields, want string }{
		{"gemini-2.5-pro", `"reasoning_effort":"low"`, `"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingBudget":1024}}`},
		{"gemini-2.5-pro", `"reasoning_effort":"none"`, `"generationConfig":{"thinkingConfig":{"thinkingBudget":0}}`},
		{"gemini-3-pro-preview", `"reasoning_effort":"high"`, `"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"high"}}`},
		{"gemini-3-pro-preview", `"thinking_token_budget":50`, `"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingBudget":50}}`},
		{"g", `"seed":7,"presence_penalty":0.5,"frequency_penalty":0.25,"top_k":40`, `"generationConfig":{"seed":7,"presencePenalty":0.5,"frequencyPenalty":0.25,"topK":40}`},
		{"g", `"response_format":{"type":"json_object"}`, `"generationConfig":{"responseMimeType":"application/json"}`},
		{"g", `"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"object"}}}`, `"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":{"type":"object"}}`},
		{"g", `"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"f"}}`,
			`"generationConfig":{},"tools":[{"functionDeclarations":[{"name":"f"}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}}`},
	} {
		got := requestOf(t, Gemini, tc.model, `{"messages":[`+user+`],`+tc.fields+`}`)
		delete(got, "contents")
		sameJSON(t, got, `{`+tc.want+`}`)
	}
	for _, tc := range []struct{ model, path string }{
		{"gemini-2.5-flash", "/models/gemini-2.5-flash"}, {"tunedModels/a b", "/tunedModels/a%20b"}, {"publishers/x/models/y", "/publishers/x/models/y"},
	} {
		if got := Gemini.Path(tc.model, false); got != tc.path+":generateContent" {
			t.Errorf("%s", got)
		}
		if got := Gemini.Path(tc.model, true); got != tc.path+":streamGenerateContent?alt=sse" {
			t.Errorf("%s", got)
		}
	}
}

// TestGeminiSignatures: what Google's models want to have back with a call comes with it, and goes back; a call of another model's goes
// with the word that Google has for such calls.
func TestGeminiSignatures(t *testing.T) {
	data := recorded(t, "gemini/signed-call.sse")
	raw := new(bytes.Buffer)
	s := NewStream(Gemini, http.NoBody, who)
	s.frames = newServerSent(bytes.NewReader(data))
	_, _ = raw.ReadFrom(s)
	_, rest, ok := strings.Cut(raw.String(), `"extra_content":{"google":{"thought_signature":"`)
	signature, _, _ := strings.Cut(rest, `"`)
	if !ok || len(signature) < 100 || !bytes.Contains(data, []byte(signature)) {
		t.Fatalf("%s", raw)
	}
	const history = `{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}%s},{"id":"b","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
		`{"role":"tool","tool_call_id":"a","content":"{\"x\":1}"},{"role":"tool","tool_call_id":"b","content":"[1]"}]}`
	for _, tc := range []struct{ model, extra, want string }{
		{"gemini-3-pro", `,"extra_content":{"google":{"thought_signature":"sig"}}`, `"thoughtSignature":"sig",`},
		{"gemini-3-pro", ``, `"thoughtSignature":"skip_thought_signature_validator",`},
		{"gemini-2.5-pro", ``, ``},
	} {
		got := requestOf(t, Gemini, tc.model, fmt.Sprintf(history, tc.extra))["contents"].([]any) //nolint:forcetypeassert // it always is one
		sameJSON(t, got[1], `{"role":"model","parts":[{`+tc.want+`"functionCall":{"id":"a","name":"f","args":{}}},{"functionCall":{"id":"b","name":"f","args":{}}}]}`)
		sameJSON(t, got[2], `{"role":"user","parts":[{"functionResponse":{"id":"a","name":"f","response":{"x":1}}},{"functionResponse":{"id":"b","name":"f","response":{"result":"[1]"}}}]}`)
	}
}

// TestGeminiErrors: each error of Google's APIs has the status of its kind, and the time to wait that stands in its details.
func TestGeminiErrors(t *testing.T) {
	for _, tc := range []struct {
		status  int
		body    string
		want    int
		wait    string
		message string
	}{
		{429, string(recorded(t, "gemini/429.json")), 429, "34.4", "exceeded your current quota"},
		{400, `{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}`, 401, "", "not valid"},
		{400, `{"error":{"code":400,"message":"bad schema","status":"INVALID_ARGUMENT"}}`, 400, "", "bad schema"},
		{400, `{"error":{"code":400,"message":"User location is not supported","status":"FAILED_PRECONDITION"}}`, 403, "", "location"},
		{403, `{"error":{"code":403,"message":"no","status":"PERMISSION_DENIED"}}`, 403, "", "no"},
		{404, `[{"error":{"code":404,"message":"models/x is not found","status":"NOT_FOUND"}}]`, 404, "", "not found"},
		{500, `{"error":{"code":500,"message":"oops","status":"INTERNAL"}}`, 500, "", "oops"},
		{503, `{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}`, 503, "", "overloaded"},
		{504, `{"error":{"code":504,"message":"late","status":"DEADLINE_EXCEEDED"}}`, 504, "", "late"},
		{502, `<html>`, 502, "", "Bad Gateway"},
	} {
		h := make(http.Header)
		status, told := Error(Gemini, tc.status, h, []byte(tc.body))
		if status != tc.want || h.Get("Retry-After") != tc.wait || !strings.Contains(string(told), tc.message) || strings.Contains(string(told), "<html") {
			t.Errorf("%s: %d %s, wait %q", tc.body, status, told, h.Get("Retry-After"))
		}
	}
	for _, tc := range []struct{ event, reason, failed string }{
		{`{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":4,"totalTokenCount":4}}`, "content_filter", ""},
		{`{"candidates":[{"finishReason":"SAFETY"}]}`, "content_filter", ""},
		{`{"candidates":[{"finishReason":"PROHIBITED_CONTENT"}]}`, "content_filter", ""},
		{`{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"MAX_TOKENS"}]}`, "length", ""},
		{`{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"get_weather","args":{"city":"Paris"}}}]},"finishReason":"FUNCTION_CALL","index":0}]}`, "tool_calls", ""}, // aimock 1.43.0
		{`{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"Malformed function call: f("}]}`, "", "502 malformed_function_call"},
		{`{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}`, "", "503 unavailable"},
	} {
		c, err := readStream(t, Gemini, strings.NewReader("data: "+tc.event+"\r\n\r\n"))
		if err != nil || c.reason != tc.reason || !strings.HasPrefix(c.failed, tc.failed) || c.done != (tc.failed == "") {
			t.Errorf("%s: %v %+v", tc.event, err, c)
		}
		whole, err := Whole(Gemini, []byte(tc.event), who)
		if err != nil || !strings.Contains(string(whole), tc.reason) || strings.Contains(string(whole), `"error"`) != (tc.failed != "") {
			t.Errorf("%s: %v %s", tc.event, err, whole)
		}
	}
}

// TestGeminiArgumentsInPieces: Vertex AI can stream the arguments of a call, which is never asked for; where it does so it is found out,
// and no call with half of its arguments passes for a whole one.
func TestGeminiArgumentsInPieces(t *testing.T) {
	c, err := readStream(t, Gemini, bytes.NewReader(recorded(t, "gemini/no-args-tool-call.sse")))
	if !errors.Is(err, ErrUnreadable) || c.done {
		t.Errorf("%v %+v", err, c)
	}
}
