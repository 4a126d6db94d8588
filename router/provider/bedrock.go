package provider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Bedrock is the Converse API of Amazon Bedrock.
var Bedrock API = bedrock{}

type bedrock struct{}

func (bedrock) Path(model string, stream bool) string {
	path := "/model/" + strings.ReplaceAll(url.PathEscape(model), ":", "%3A") + "/converse" // as Amazon's own SDKs escape it
	if stream {
		return path + "-stream"
	}
	return path
}

func (bedrock) Streams(contentType string) bool {
	return strings.HasPrefix(contentType, "application/vnd.amazon.eventstream")
}

type bedrockRequest struct {
	System   []bedrockBlock   `json:"system,omitempty"`
	Messages []bedrockMessage `json:"messages"`
	Tools    *bedrockTools    `json:"toolConfig,omitempty"`
	Config   bedrockConfig    `json:"inferenceConfig"`
	Output   map[string]any   `json:"outputConfig,omitempty"`
	Extra    map[string]any   `json:"additionalModelRequestFields,omitempty"`
}

type bedrockMessage struct {
	Role    string         `json:"role"`
	Content []bedrockBlock `json:"content"`
}

type bedrockBlock struct {
	Text     string            `json:"text,omitempty"`
	Image    *bedrockMedia     `json:"image,omitempty"`
	Document *bedrockMedia     `json:"document,omitempty"`
	Call     *bedrockCall      `json:"toolUse,omitempty"`
	Result   *bedrockResult    `json:"toolResult,omitempty"`
	Thought  *bedrockReasoning `json:"reasoningContent,omitempty"`
}

type bedrockMedia struct {
	Format string            `json:"format"`
	Name   string            `json:"name,omitempty"`
	Source map[string]string `json:"source"`
}

type bedrockCall struct {
	ID    string          `json:"toolUseId"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input,omitempty"`
}

type bedrockResult struct {
	ID      string              `json:"toolUseId"`
	Content []map[string]string `json:"content"`
}

type bedrockReasoning struct {
	Text     *bedrockThought `json:"reasoningText,omitempty"`
	Redacted string          `json:"redactedContent,omitempty"`
}

type bedrockThought struct {
	Text      string `json:"text"`
	Signature string `json:"signature,omitempty"`
}

type bedrockTools struct {
	Tools  []bedrockTool  `json:"tools"`
	Choice map[string]any `json:"toolChoice,omitempty"`
}

type bedrockTool struct {
	Spec struct {
		Name        string                     `json:"name"`
		Description string                     `json:"description,omitempty"`
		Schema      map[string]json.RawMessage `json:"inputSchema"`
		Strict      bool                       `json:"strict,omitempty"`
	} `json:"toolSpec"`
}

type bedrockConfig struct {
	MaxTokens   int64    `json:"maxTokens,omitempty"`
	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"topP,omitempty"`
	Stop        []string `json:"stopSequences,omitempty"`
}

func (bedrock) Request(body []byte, model string, o Options) (*Request, error) {
	c, err := readChat(body)
	if err != nil {
		return nil, err
	}
	c.withoutSampling(o)
	if c.anyJSON {
		return nil, lacks("response_format", "Bedrock's models know JSON schemas; send type json_schema")
	}
	r := bedrockRequest{Config: bedrockConfig{MaxTokens: c.most, TopP: c.topP, Temperature: c.temperature, Stop: c.stop}}
	if len(c.system) > 0 {
		r.System = []bedrockBlock{{Text: strings.Join(c.system, "\n\n")}}
	}
	if r.Config.Temperature != nil {
		r.Config.Temperature = new(min(*r.Config.Temperature, 1))
	}
	if c.user != "" {
		c.ignored = append(c.ignored, "user")
	}
	if c.topK != nil {
		c.ignored = append(c.ignored, "top_k")
	}
	c.ignoreSampling(c.seed != nil)
	r.setOutput(c, model)
	if err := r.setTools(c); err != nil {
		return nil, err
	}
	for _, t := range c.turns {
		m := bedrockMessage{Role: "user"}
		if t.assistant {
			m.Role = "assistant"
		}
		for i := range t.parts {
			b, err := bedrockBlockOf(&t.parts[i], i)
			if err != nil {
				return nil, err
			}
			m.Content = append(m.Content, b)
		}
		r.Messages = append(r.Messages, m)
	}
	out, err := json.Marshal(r)
	return &Request{Body: out, Ignored: c.ignored}, err
}

// setOutput sets the form of the answer and how much the model thinks.
func (r *bedrockRequest) setOutput(c *chat, model string) {
	output := make(map[string]any)
	if s := c.schema; s != nil {
		form := map[string]any{"schema": string(s.schema)} // the API wants a string
		if s.name != "" {
			form["name"] = s.name
		}
		if s.description != "" {
			form["description"] = s.description
		}
		output["textFormat"] = map[string]any{"type": "json_schema", "structure": map[string]any{"jsonSchema": form}}
	}
	thinks := c.effort != "" && c.effort != "none" || c.budget != nil
	switch {
	case !thinks && (c.effort != "" || c.thinks != nil):
		c.ignored = append(c.ignored, "enable_thinking")
	case !thinks:
	case !strings.Contains(model, "anthropic.") || c.callsUnthought():
		c.ignored = append(c.ignored, "reasoning_effort") // models of others have fields of their own for it
	case c.budget == nil && !thinksByBudget(model):
		r.Extra = map[string]any{"thinking": map[string]any{"type": "adaptive"}}
		output["effort"] = strings.Replace(c.effort, "minimal", "low", 1)
		r.Config.Temperature = nil
	default:
		budget := budgets[c.effort]
		if c.budget != nil {
			budget = max(*c.budget, leastBudget)
		}
		r.Extra = map[string]any{"thinking": map[string]any{"type": "enabled", "budget_tokens": budget}}
		if r.Config.MaxTokens == 0 {
			r.Config.MaxTokens = anthropicMost(model)
		}
		if c.most == 0 || c.most <= budget {
			r.Config.MaxTokens += budget
		}
		r.Config.Temperature = nil
	}
	if r.Extra != nil && c.temperature != nil {
		c.ignored = append(c.ignored, "temperature") // none goes with thoughts
	}
	if len(output) > 0 {
		r.Output = output
	}
}

func (r *bedrockRequest) setTools(c *chat) error {
	if len(c.tools) == 0 {
		return nil
	}
	if c.choice == "none" {
		return lacks("tool_choice", "Bedrock has no word for none; leave the tools out")
	}
	if c.parallel != nil && !*c.parallel {
		c.ignored = append(c.ignored, "parallel_tool_calls")
	}
	r.Tools = &bedrockTools{}
	for _, t := range c.tools {
		if t.parameters == nil {
			t.parameters = anyObject
		}
		var one bedrockTool
		one.Spec.Name, one.Spec.Description, one.Spec.Strict = t.name, t.description, t.strict
		one.Spec.Schema = map[string]json.RawMessage{"json": t.parameters}
		r.Tools.Tools = append(r.Tools.Tools, one)
	}
	switch c.choice {
	case "auto":
		r.Tools.Choice = map[string]any{"auto": struct{}{}}
	case "required":
		r.Tools.Choice = map[string]any{"any": struct{}{}}
	case "named":
		r.Tools.Choice = map[string]any{"tool": map[string]string{"name": c.named}}
	}
	return nil
}

// documentFormats are the API's words for documents by their MIME types.
var documentFormats = map[string]string{
	"application/pdf": "pdf", "text/csv": "csv", "text/html": "html", "text/plain": "txt", "text/markdown": "md", "application/msword": "doc",
	"application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx", "application/vnd.ms-excel": "xls",
	"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
}

func bedrockBlockOf(p *part, at int) (b bedrockBlock, err error) {
	switch p.kind {
	case textPart:
		b.Text = p.text
	case thoughtPart:
		b.Thought = &bedrockReasoning{Redacted: p.redacted}
		if p.redacted == "" {
			b.Thought.Text = &bedrockThought{p.text, p.signature}
		}
	case callPart:
		b.Call = &bedrockCall{p.id, p.name, p.arguments}
	case resultPart:
		text := p.text
		if text == "" {
			text = " " // the API wants some
		}
		b.Result = &bedrockResult{p.id, []map[string]string{{"text": text}}}
	case mediaPart:
		m := &p.media
		source := map[string]string{"bytes": m.data}
		format, picture := strings.CutPrefix(m.kind, "image/")
		switch document := documentFormats[m.kind]; {
		case m.data == "":
			return b, lacks(p.path, "Bedrock's models read pictures from data: URLs, not from %.40s", m.url)
		case picture:
			b.Image = &bedrockMedia{Format: format, Source: source}
		case document != "":
			b.Document = &bedrockMedia{Format: document, Name: fmt.Sprintf("document-%d", at+1), Source: source} // file names hold what the API refuses
		default:
			return b, lacks(p.path, "Bedrock's models read pictures and documents, not %s", m.kind)
		}
	}
	return b, nil
}

// bedrockStatuses are those of errors by their names, without "Exception", in lower case.
var bedrockStatuses = map[string]int{
	"throttling": http.StatusTooManyRequests, "modelnotready": http.StatusTooManyRequests, "servicequotaexceeded": http.StatusTooManyRequests,
	"validation": http.StatusBadRequest, "accessdenied": http.StatusForbidden, "unrecognizedclient": http.StatusForbidden,
	"expiredtoken": http.StatusForbidden, "invalidsignature": http.StatusForbidden, "incompletesignature": http.StatusForbidden,
	"missingauthenticationtoken": http.StatusForbidden, "resourcenotfound": http.StatusNotFound, "modeltimeout": http.StatusGatewayTimeout,
	"modelerror": http.StatusBadGateway, "modelstreamerror": http.StatusBadGateway, "internalserver": http.StatusInternalServerError,
	"internalfailure": http.StatusInternalServerError, "serviceunavailable": http.StatusServiceUnavailable,
}

// bedrockFault is an error by its name, which may have a namespace before it and an address behind it.
func bedrockFault(name string, status int, body []byte) *fault {
	name, _, _ = strings.Cut(name, ":")
	if i := strings.LastIndexByte(name, '#'); i >= 0 {
		name = name[i+1:]
	}
	var said struct {
		Message string
		Type    string `json:"__type"`
	}
	_ = json.Unmarshal(body, &said) // a body of another kind says nothing
	if name == "" && said.Type != "" && !strings.Contains(said.Type, ":") {
		return bedrockFault(said.Type, status, body)
	}
	if known := bedrockStatuses[strings.TrimSuffix(strings.ToLower(name), "exception")]; known != 0 {
		status = known
	}
	switch {
	case status == http.StatusBadRequest && strings.Contains(said.Message, "model identifier is invalid"):
		status = http.StatusNotFound // the operator's name for the model
	case said.Message == "":
		said.Message = http.StatusText(status)
	}
	if name == "" {
		name = "upstream_error"
	}
	return &fault{status: status, kind: name, message: said.Message}
}

func (bedrock) said(status int, h http.Header, body []byte) fault {
	return *bedrockFault(h.Get("X-Amzn-Errortype"), status, body)
}
