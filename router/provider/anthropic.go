package provider

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// Anthropic is the Messages API.
var Anthropic API = anthropic{}

type anthropic struct{}

// anthropicVersion is the version of the API that requests are written in.
const anthropicVersion = "2023-06-01"

func (anthropic) Path(string, bool) string { return "/messages" }

func (anthropic) Authorize(req *http.Request, key string, _ []byte) error {
	if key != "" {
		req.Header.Set("X-Api-Key", key)
	}
	req.Header.Set("Anthropic-Version", anthropicVersion)
	return nil
}

func (anthropic) Secrets(key string) []string { return []string{key} }

func (anthropic) Streams(contentType string) bool {
	return strings.HasPrefix(contentType, "text/event-stream")
}

type anthropicRequest struct {
	Model       string             `json:"model"`
	MaxTokens   int64              `json:"max_tokens"`
	System      string             `json:"system,omitempty"`
	Messages    []anthropicMessage `json:"messages"`
	Tools       []anthropicTool    `json:"tools,omitempty"`
	Choice      *anthropicChoice   `json:"tool_choice,omitempty"`
	Temperature *float64           `json:"temperature,omitempty"`
	TopP        *float64           `json:"top_p,omitempty"`
	TopK        *float64           `json:"top_k,omitempty"`
	Stop        []string           `json:"stop_sequences,omitempty"`
	Thinking    map[string]any     `json:"thinking,omitempty"`
	Output      map[string]any     `json:"output_config,omitempty"`
	Metadata    map[string]string  `json:"metadata,omitempty"`
	Stream      bool               `json:"stream,omitempty"`
}

type anthropicMessage struct {
	Role    string           `json:"role"`
	Content []anthropicBlock `json:"content"`
}

type anthropicBlock struct {
	Type      string            `json:"type"`
	Text      string            `json:"text,omitempty"`
	Source    map[string]string `json:"source,omitempty"`
	ID        string            `json:"id,omitempty"`
	Name      string            `json:"name,omitempty"`
	Input     json.RawMessage   `json:"input,omitempty"`
	Answers   string            `json:"tool_use_id,omitempty"`
	Content   *string           `json:"content,omitempty"`
	Thinking  *string           `json:"thinking,omitempty"`
	Signature string            `json:"signature,omitempty"`
	Data      string            `json:"data,omitempty"`
	Cache     json.RawMessage   `json:"cache_control,omitempty"`
}

type anthropicTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"input_schema"`
	Strict      bool            `json:"strict,omitempty"`
}

type anthropicChoice struct {
	Type     string `json:"type"`
	Name     string `json:"name,omitempty"`
	Parallel *bool  `json:"disable_parallel_tool_use,omitempty"`
}

// anyObject is the schema of a tool without parameters.
var anyObject = json.RawMessage(`{"type":"object","properties":{}}`)

func (anthropic) Request(body []byte, model string, o Options) (*Request, error) {
	c, err := readChat(body)
	if err != nil {
		return nil, err
	}
	c.withoutSampling(o)
	if c.anyJSON {
		return nil, lacks("response_format", "Anthropic's models know JSON schemas; send type json_schema")
	}
	r := anthropicRequest{
		Model: model, MaxTokens: c.most, System: strings.Join(c.system, "\n\n"), Stream: o.Stream,
		Temperature: c.temperature, TopP: c.topP, TopK: c.topK, Stop: c.stop,
	}
	if r.MaxTokens == 0 {
		r.MaxTokens = anthropicMost(model)
	}
	if r.Temperature != nil {
		r.Temperature = new(min(*r.Temperature, 1))
	}
	if c.schema != nil {
		r.Output = map[string]any{"format": map[string]any{"type": "json_schema", "schema": c.schema.schema}}
	}
	if c.user != "" {
		r.Metadata = map[string]string{"user_id": c.user}
	}
	c.ignoreSampling(c.seed != nil)
	if r.Messages, err = anthropicMessages(c); err != nil {
		return nil, err
	}
	r.setTools(c)
	r.setThinking(c, model)
	out, err := json.Marshal(r)
	return &Request{Body: out, Ignored: c.ignored}, err
}

// ignoreSampling notes parameters of sampling that a provider does not have.
func (c *chat) ignoreSampling(seed bool) {
	if c.presence != nil {
		c.ignored = append(c.ignored, "presence_penalty")
	}
	if c.frequency != nil {
		c.ignored = append(c.ignored, "frequency_penalty")
	}
	if seed {
		c.ignored = append(c.ignored, "seed")
	}
}

// anthropicMost is the max_tokens of a chat that names none; the API wants one.
func anthropicMost(model string) int64 {
	if strings.Contains(model, "claude-3-") && !strings.Contains(model, "claude-3-5") && !strings.Contains(model, "claude-3-7") {
		return 4096
	}
	return 8192
}

func (r *anthropicRequest) setTools(c *chat) {
	for _, t := range c.tools {
		if t.parameters == nil {
			t.parameters = anyObject
		}
		r.Tools = append(r.Tools, anthropicTool{t.name, t.description, t.parameters, t.strict})
	}
	if len(r.Tools) == 0 {
		return
	}
	words := map[string]string{"auto": "auto", "none": "none", "required": "any", "named": "tool"}
	alone := c.parallel != nil && !*c.parallel
	if c.choice == "" && !alone {
		return
	}
	r.Choice = &anthropicChoice{Type: words[c.choice], Name: c.named}
	if c.choice == "" {
		r.Choice.Type = "auto"
	}
	if alone && r.Choice.Type != "none" {
		r.Choice.Parallel = new(true)
	}
}

// leastBudget is the least that Anthropic's models may think.
const leastBudget = 1024

// budgets of thinking by reasoning_effort, for models that know no effort.
var budgets = map[string]int64{"minimal": leastBudget, "low": leastBudget, "medium": 4096, "high": 16384, "xhigh": 32768, "max": 32768}

// thinksByBudget reports whether a model is told how long to think in tokens. Later ones decide themselves, by an effort.
func thinksByBudget(model string) bool {
	for _, part := range []string{"claude-3-", "-4-0", "-4-1", "-4-5", "-4-2025"} {
		if strings.Contains(model, part) {
			return true
		}
	}
	return false
}

// setThinking has the model think. Where the last answer has called tools without a thought that is vouched for, it cannot: the API
// refuses that, as the thoughts were another model's.
func (r *anthropicRequest) setThinking(c *chat, model string) {
	budget := int64(0)
	switch {
	case c.thinks != nil && !*c.thinks:
		r.Thinking = map[string]any{"type": "disabled"}
		return
	case c.budget != nil:
		budget = max(*c.budget, leastBudget)
	case c.effort == "" && c.thinks == nil:
		return
	case !thinksByBudget(model):
		r.Thinking = map[string]any{"type": "adaptive", "display": "summarized"}
		if effort := strings.Replace(c.effort, "minimal", "low", 1); effort != "" {
			if r.Output == nil {
				r.Output = make(map[string]any)
			}
			r.Output["effort"] = effort
		}
	case c.effort == "":
		budget = budgets["medium"]
	default:
		budget = budgets[c.effort]
	}
	if budget > 0 {
		r.Thinking = map[string]any{"type": "enabled", "budget_tokens": budget}
		if c.most == 0 || c.most <= budget {
			r.MaxTokens += budget // an answer shall have what was asked for beside the thought
		}
	}
	switch {
	case c.callsUnthought():
		r.Thinking = nil
		c.ignored = append(c.ignored, "reasoning_effort")
	case r.Temperature != nil: // the API takes none with thoughts
		r.Temperature = nil
		c.ignored = append(c.ignored, "temperature")
	}
}

// callsUnthought reports whether the calls that the last results answer came without a thought that is vouched for.
func (c *chat) callsUnthought() bool {
	for _, turn := range slices.Backward(c.turns) {
		if !turn.assistant {
			continue
		}
		thought, called := false, false
		for j := range turn.parts {
			thought = thought || turn.parts[j].kind == thoughtPart
			called = called || turn.parts[j].kind == callPart
		}
		return called && !thought
	}
	return false
}

func anthropicMessages(c *chat) ([]anthropicMessage, error) {
	var list []anthropicMessage
	for _, t := range c.turns {
		m := anthropicMessage{Role: "user"}
		if t.assistant {
			m.Role = "assistant"
		}
		for i := range t.parts {
			b, err := anthropicBlockOf(&t.parts[i])
			if err != nil {
				return nil, err
			}
			m.Content = append(m.Content, b)
		}
		list = append(list, m)
	}
	return list, nil
}

func anthropicBlockOf(p *part) (anthropicBlock, error) {
	b := anthropicBlock{Cache: p.cache}
	switch p.kind {
	case textPart:
		b.Type, b.Text = "text", p.text
	case thoughtPart:
		if b.Type, b.Signature, b.Data = "thinking", p.signature, p.redacted; p.redacted != "" {
			b.Type = "redacted_thinking"
		} else {
			b.Thinking = &p.text
		}
	case callPart:
		b.Type, b.ID, b.Name, b.Input = "tool_use", p.id, p.name, p.arguments
	case resultPart:
		b.Type, b.Answers, b.Content = "tool_result", p.id, &p.text
	case mediaPart:
		m := &p.media
		switch {
		case strings.HasPrefix(m.kind, "image/") || m.url != "":
			b.Type = "image"
		case m.kind == "application/pdf":
			b.Type = "document"
		default:
			return b, lacks(p.path, "Anthropic's models read pictures and PDF documents, not %s", m.kind)
		}
		switch {
		case m.data != "":
			b.Source = map[string]string{"type": "base64", "media_type": m.kind, "data": m.data}
		case strings.HasPrefix(m.url, "http"):
			b.Source = map[string]string{"type": "url", "url": m.url}
		default:
			return b, lacks(p.path, "Anthropic's models read pictures from data: and https: URLs, not from %.40s", m.url)
		}
	}
	return b, nil
}
