package provider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Gemini is Google's generateContent, of the Gemini API and of Vertex AI.
var Gemini API = gemini{}

type gemini struct{}

func (gemini) Path(model string, stream bool) string {
	if !strings.Contains(model, "/") {
		model = "models/" + model
	}
	parts := strings.Split(model, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	path := "/" + strings.Join(parts, "/")
	if stream {
		return path + ":streamGenerateContent?alt=sse"
	}
	return path + ":generateContent"
}

func (gemini) Authorize(req *http.Request, key string, _ []byte) error {
	if key != "" {
		req.Header.Set("X-Goog-Api-Key", key)
	}
	return nil
}

func (gemini) Secrets(key string) []string { return []string{key} }

func (gemini) Streams(contentType string) bool {
	return strings.HasPrefix(contentType, "text/event-stream")
}

type geminiRequest struct {
	System   *geminiContent  `json:"systemInstruction,omitempty"`
	Contents []geminiContent `json:"contents"`
	Tools    []geminiTools   `json:"tools,omitempty"`
	Choice   map[string]any  `json:"toolConfig,omitempty"`
	Config   geminiConfig    `json:"generationConfig"`
}

type geminiContent struct {
	Role  string       `json:"role,omitempty"`
	Parts []geminiPart `json:"parts"`
}

type geminiPart struct {
	Text      string            `json:"text,omitempty"`
	Thought   bool              `json:"thought,omitempty"`
	Signature string            `json:"thoughtSignature,omitempty"`
	Inline    map[string]string `json:"inlineData,omitempty"`
	File      map[string]string `json:"fileData,omitempty"`
	Call      *geminiCall       `json:"functionCall,omitempty"`
	Result    *geminiResult     `json:"functionResponse,omitempty"`
}

type geminiCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name,omitempty"`
	Args json.RawMessage `json:"args,omitempty"`

	Partial json.RawMessage `json:"partialArgs,omitempty"` // pieces of arguments, which are never asked for
}

type geminiResult struct {
	ID       string         `json:"id,omitempty"`
	Name     string         `json:"name"`
	Response map[string]any `json:"response"`
}

type geminiTools struct {
	Functions []geminiFunction `json:"functionDeclarations"`
}

type geminiFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parametersJsonSchema,omitempty"`
}

type geminiConfig struct {
	MaxTokens   int64           `json:"maxOutputTokens,omitempty"`
	Temperature *float64        `json:"temperature,omitempty"`
	TopP        *float64        `json:"topP,omitempty"`
	TopK        *float64        `json:"topK,omitempty"`
	Stop        []string        `json:"stopSequences,omitempty"`
	Seed        *int64          `json:"seed,omitempty"`
	Presence    *float64        `json:"presencePenalty,omitempty"`
	Frequency   *float64        `json:"frequencyPenalty,omitempty"`
	MIME        string          `json:"responseMimeType,omitempty"`
	Schema      json.RawMessage `json:"responseJsonSchema,omitempty"`
	Thinking    map[string]any  `json:"thinkingConfig,omitempty"`
}

func (gemini) Request(body []byte, model string, _ Options) (*Request, error) {
	c, err := readChat(body)
	if err != nil {
		return nil, err
	}
	r := geminiRequest{Config: geminiConfig{
		MaxTokens: c.most, Temperature: c.temperature, TopP: c.topP, TopK: c.topK, Stop: c.stop, Seed: c.seed, Presence: c.presence, Frequency: c.frequency,
	}}
	if len(c.system) > 0 {
		r.System = &geminiContent{Parts: []geminiPart{{Text: strings.Join(c.system, "\n\n")}}}
	}
	if c.user != "" {
		c.ignored = append(c.ignored, "user")
	}
	if c.parallel != nil && !*c.parallel && len(c.tools) > 0 {
		c.ignored = append(c.ignored, "parallel_tool_calls")
	}
	switch {
	case c.schema != nil:
		r.Config.MIME, r.Config.Schema = "application/json", c.schema.schema
	case c.anyJSON:
		r.Config.MIME = "application/json"
	}
	r.Config.Thinking = geminiThinking(c, model)
	for _, t := range c.turns {
		content, err := geminiContentOf(&t, c, model)
		if err != nil {
			return nil, err
		}
		r.Contents = append(r.Contents, content)
	}
	r.setTools(c)
	out, err := json.Marshal(r)
	return &Request{Body: out, Ignored: c.ignored}, err
}

func (r *geminiRequest) setTools(c *chat) {
	if len(c.tools) == 0 {
		return
	}
	var list []geminiFunction
	for _, t := range c.tools {
		list = append(list, geminiFunction{t.name, t.description, t.parameters})
		if t.strict {
			c.ignored = append(c.ignored, "tools.function.strict")
		}
	}
	r.Tools = []geminiTools{{list}}
	words := map[string]string{"auto": "AUTO", "none": "NONE", "required": "ANY", "named": "ANY"}
	if c.choice == "" {
		return
	}
	config := map[string]any{"mode": words[c.choice]}
	if c.named != "" {
		config["allowedFunctionNames"] = []string{c.named}
	}
	r.Choice = map[string]any{"functionCallingConfig": config}
}

// geminiBudgets are tokens of thinking by reasoning_effort, as Google's own API for OpenAI's clients has them.
var geminiBudgets = map[string]int64{"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576, "max": 24576}

// geminiLevels are the same for models from Gemini 3 on, which are told a level.
var geminiLevels = map[string]string{"none": "minimal", "minimal": "minimal", "low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}

func geminiThinking(c *chat, model string) map[string]any {
	if c.effort == "" && c.budget == nil && c.thinks == nil {
		return nil
	}
	config := make(map[string]any)
	off := c.thinks != nil && !*c.thinks
	if !off {
		config["includeThoughts"] = true
	}
	switch older := strings.Contains(model, "gemini-2") || strings.Contains(model, "gemini-1"); {
	case c.budget != nil && !off:
		config["thinkingBudget"] = *c.budget
	case off && older:
		config["thinkingBudget"] = int64(0)
	case off:
		config["thinkingLevel"] = geminiLevels["none"]
	case c.effort == "":
	case older:
		config["thinkingBudget"] = geminiBudgets[c.effort]
	default:
		config["thinkingLevel"] = geminiLevels[c.effort]
	}
	return config
}

// noSignature stands for the signature of a call that another model has made: Google's models from Gemini 3 on refuse calls without one.
const noSignature = "skip_thought_signature_validator"

func geminiContentOf(t *messageGroup, c *chat, model string) (geminiContent, error) {
	content := geminiContent{Role: "user"}
	if t.assistant {
		content.Role = "model"
	}
	called := false
	for i := range t.parts {
		p := &t.parts[i]
		if p.kind == thoughtPart {
			c.ignored = append(c.ignored, p.path+".thinking_blocks") // another provider's
			continue
		}
		one, err := geminiPartOf(p)
		if err != nil {
			return content, err
		}
		if one.Call != nil {
			if !called && one.Signature == "" && !strings.Contains(model, "gemini-2") && !strings.Contains(model, "gemini-1") {
				one.Signature = noSignature
			}
			called = true
		}
		content.Parts = append(content.Parts, one)
	}
	if len(content.Parts) == 0 {
		content.Parts = []geminiPart{{Text: " "}} // a turn has parts
	}
	return content, nil
}

func geminiPartOf(p *part) (one geminiPart, err error) {
	switch p.kind {
	case textPart:
		one.Text = p.text
	case callPart:
		one.Call, one.Signature = &geminiCall{ID: p.id, Name: p.name, Args: p.arguments}, p.signature
	case resultPart:
		one.Result = &geminiResult{ID: p.id, Name: p.name, Response: resultObject(p.text)}
	case mediaPart:
		m := &p.media
		switch {
		case m.data != "":
			one.Inline = map[string]string{"mimeType": m.kind, "data": m.data}
		case strings.HasPrefix(m.url, "gs://"), strings.HasPrefix(m.url, "https://generativelanguage.googleapis.com/"), strings.HasPrefix(m.url, "https://www.youtube.com/"):
			one.File = map[string]string{"fileUri": m.url}
		default:
			return one, lacks(p.path, "Google's models read pictures from data: URLs and from Google's own storage, not from %.60s", m.url)
		}
	case thoughtPart:
	}
	return one, nil
}

// resultObject is a call's result as the object that the API wants.
func resultObject(text string) map[string]any {
	var object map[string]any
	if json.Unmarshal([]byte(text), &object) == nil && object != nil {
		return object
	}
	return map[string]any{"result": text}
}

// geminiError is an error of Google's APIs.
type geminiError struct {
	Code    int
	Message string
	Status  string
	Details []struct {
		Type   string `json:"@type"`
		Reason string
		Delay  string `json:"retryDelay"`
	}
}

// geminiStatuses are those of errors by their canonical code.
var geminiStatuses = map[string]int{
	"INVALID_ARGUMENT": http.StatusBadRequest, "OUT_OF_RANGE": http.StatusBadRequest, "UNAUTHENTICATED": http.StatusUnauthorized,
	"PERMISSION_DENIED": http.StatusForbidden, "NOT_FOUND": http.StatusNotFound, "RESOURCE_EXHAUSTED": http.StatusTooManyRequests,
	"UNAVAILABLE": http.StatusServiceUnavailable, "INTERNAL": http.StatusInternalServerError, "UNKNOWN": http.StatusInternalServerError,
	"DEADLINE_EXCEEDED": http.StatusGatewayTimeout, "UNIMPLEMENTED": http.StatusNotImplemented,
	// The account is at fault: billing that is not set up, or a country where the API is not offered.
	"FAILED_PRECONDITION": http.StatusForbidden,
}

func (e *geminiError) fault(status int) *fault {
	if known := geminiStatuses[e.Status]; known != 0 {
		status = known
	}
	f := &fault{status: status, kind: strings.ToLower(e.Status), message: e.Message}
	for _, d := range e.Details {
		switch {
		case d.Reason == "API_KEY_INVALID":
			f.status = http.StatusUnauthorized // under 400
		case strings.HasSuffix(d.Type, "google.rpc.RetryInfo") && d.Delay != "":
			f.wait = strings.TrimSuffix(d.Delay, "s")
		}
	}
	return f
}

func (gemini) said(status int, _ http.Header, body []byte) fault {
	var said struct{ Error *geminiError }
	var list []struct{ Error *geminiError } // of requests for streams without alt=sse
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		said.Error = list[0].Error
	} else if json.Unmarshal(body, &said) != nil {
		said.Error = nil
	}
	if said.Error == nil {
		return fault{status: status, kind: "upstream_error", message: http.StatusText(status)}
	}
	return *said.Error.fault(status)
}

// unusable are reasons for which an answer is of no use to anybody.
func unusable(reason, message string) *fault {
	return &fault{
		status: http.StatusBadGateway, kind: strings.ToLower(reason),
		message: fmt.Sprintf("the model gave up its answer (%s) %s", reason, message),
	}
}
