package completion

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/api/openai/reasoning"
	"weir/api/openai/toolset"
	"weir/tokenizer"
	"weir/tokenizer/chat"
	"weir/tokenizer/family"
)

// ChatPrompt is what a model's chat template is applied to.
type ChatPrompt struct {
	input chat.Input
	tools toolset.Set
}

// ReadPrompt reads the fields that make the prompt of a chat: messages, tools,
// add_generation_prompt, continue_final_message and the template's variables.
func (r Reader) ReadPrompt(o *jsonbody.Object, m *models.Model, fault **api.Error) *ChatPrompt {
	p := &ChatPrompt{}
	p.input.ContinueFinalMessage = o.Flag("continue_final_message", false, fault)
	p.input.AddGenerationPrompt = o.Flag("add_generation_prompt", !p.input.ContinueFinalMessage, fault)
	if p.input.ContinueFinalMessage && p.input.AddGenerationPrompt {
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", "continue_final_message",
			"continue_final_message and add_generation_prompt exclude each other; the one goes on with the last message, the other begins a new one"))
	}
	p.input.Extra = readTemplateVariables(o, m.Variables, fault)
	p.readTools(o, m, fault)
	raw, ok := o.Take("messages")
	switch {
	case !ok:
		jsonbody.Keep(fault, jsonbody.Missing("messages", "an array of messages"))
		return p
	case *fault != nil:
		return p
	}
	var err *api.Error
	p.input.Messages, err = parseMessages(o, raw, m, r.MaxMessages, &p.tools)
	jsonbody.Keep(fault, err)
	return p
}

// readTools reads the tools. They go into the prompt whatever the choice is, so that answers that may call one tool or none share the prefix
// of those that may call all; where the choice is none, the model's HideTools leaves them out.
func (p *ChatPrompt) readTools(o *jsonbody.Object, m *models.Model, fault **api.Error) {
	p.tools = toolset.Read(o, fault)
	switch {
	case *fault != nil || !p.tools.Has():
	case m.Family == nil:
		jsonbody.Keep(fault, jsonbody.Unsupported("tools", "the model "+m.ID+" cannot call tools: describe them in a message"))
	case m.Family.Listed && !hidesTools(m, &p.tools):
		var err error
		if p.input.Tools, err = chat.FromJSON(p.tools.Listed); err != nil {
			jsonbody.Keep(fault, api.RefuseParam("invalid_value", "tools", "tools: %v", err))
		}
	}
}

// hidesTools reports whether the prompt does not list the tools of a request.
func hidesTools(m *models.Model, tools *toolset.Set) bool {
	return m.HideTools && tools.Choice.Mode == family.None
}

// efforts are those of OpenAI's API and of Anthropic's. Templates may know others, so that these are no more than warned of.
var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// switchOf says whether an effort asks for thoughts; told is false where it leaves that to the template.
func switchOf(effort string) (thinks, told bool) {
	switch effort {
	case "none":
		return false, true
	case "low", "medium", "high", "xhigh", "max":
		return true, true
	}
	return false, false
}

// readTemplateVariables gathers what a template knows beside the messages:
// chat_template_kwargs, and reasoning_effort and enable_thinking, which may
// stand beside it or in it; what stands in it counts. An effort turns
// enable_thinking, the one switch that many templates have, off or on.
// What the request does not say is as defaults have it, a JSON object or nil.
func readTemplateVariables(o *jsonbody.Object, defaults []byte, fault **api.Error) chat.Value {
	variables := &jsonbody.Object{}
	if raw, ok := o.Take("chat_template_kwargs"); ok {
		inner, err := o.Parse("chat_template_kwargs", raw, jsonbody.MaxFields)
		if err != nil {
			jsonbody.Keep(fault, err)
			return chat.Value{}
		}
		variables = inner
	}
	effort, hasEffort := o.Text("reasoning_effort", fault)
	thinking, hasThinking := o.Bool("enable_thinking", fault)
	if hasEffort {
		if !slices.Contains(efforts, effort) {
			o.Notes.Add("%s %s is not one of %s", o.Notes.Client("reasoning_effort"), jsonbody.HeaderQuote(effort), strings.Join(efforts, " "))
		}
		variables.Add("reasoning_effort", api.AppendString(nil, effort))
	}
	if !hasThinking {
		thinking, hasThinking = switchOf(effort)
	}
	if hasThinking {
		variables.Add("enable_thinking", strconv.AppendBool(nil, thinking))
	}
	addDefaults(variables, defaults)
	if *fault != nil || len(variables.Fields) == 0 {
		return chat.Value{}
	}
	v, err := chat.FromJSON(variables.AppendJSON(nil))
	if err != nil {
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", "chat_template_kwargs", "chat_template_kwargs: %v", err))
	}
	return v
}

// addDefaults gives variables those of a JSON object that they do not have.
func addDefaults(variables *jsonbody.Object, defaults []byte) {
	if len(defaults) == 0 {
		return
	}
	if list, err := variables.Parse("chat_template_kwargs", defaults, jsonbody.MaxFields); err == nil {
		for _, f := range list.Fields {
			variables.Add(f.Name, f.Raw)
		}
	}
}

// Render applies the model's template.
func (p *ChatPrompt) Render(m *models.Model) ([]tokenizer.Span, *api.Error) {
	in := p.input
	in.BOSToken, in.EOSToken = m.Tokenizer.BoundaryTexts()
	spans, err := m.Template.Render(in)
	if err == nil {
		return spans, nil
	}
	var te *chat.Error
	if !errors.As(err, &te) {
		return nil, api.Refuse("internal_error", "the model's chat template could not be rendered")
	}
	param := "messages"
	if te.Reason == chat.Invalid {
		param = "chat_template_kwargs"
	}
	return nil, api.RefuseParam("template_error", param, "%v", te)
}

// ReadChat reads a chat completion request into a job. The prompt is already
// tokenised: the template is the authority on special tokens, so none are
// added around it unless the request asks.
func (r Reader) ReadChat(o *job.Body, m *models.Model) (*job.Job, *api.Error) {
	return r.readChat(o, m, nil)
}

// readChat reads a chat, and the messages of more chats that are answered with it.
func (r Reader) readChat(o *job.Body, m *models.Model, more []json.RawMessage) (*job.Job, *api.Error) {
	if m.Template == nil {
		return nil, m.NoTemplate()
	}
	m.Fill(o.Object)
	var fault *api.Error
	p := params.Read(o.Object, m, r.Rules, &fault)
	if p.MaxTokens == params.LengthNotSet {
		p.MaxTokens = params.AsManyAsFit
	}
	j := &job.Job{Model: m, Params: p, PromptLogprobs: p.PromptLogprobs}
	readChatLogprobs(p, o.Object, m, &fault)
	most := reasoning.ReadBudget(o.Object, &fault)
	p.HideReasoning = !o.Flag("include_reasoning", true, &fault)
	j.RefuseNoTokens(&fault)
	conversation := r.ReadPrompt(o.Object, m, &fault)
	options := tokenizer.EncodeOptions{AddSpecial: o.Flag("add_special_tokens", false, &fault)}
	o.FinishBut(params.Unsupported, &fault)
	if fault != nil {
		return nil, fault
	}
	j.Parsed = time.Now()
	spans, fault := conversation.Render(m)
	if fault != nil {
		return nil, fault
	}
	if p.Truncate == 0 {
		options.Limit = m.CountedLimit()
	}
	ids, fault := o.Permit.Encode(m, "messages", spans, options)
	if fault != nil {
		return nil, fault
	}
	if len(ids) == 0 {
		return nil, api.RefuseParam("invalid_value", "messages", "the messages render to an empty prompt")
	}
	j.Reading = conversation.reading(m, spans, p)
	if fault = j.Bound(o.Object, most); fault != nil {
		return nil, fault
	}
	j.Prompts = []job.Prompt{{IDs: ids}}
	if fault = r.addChats(j, o, conversation, more, options); fault != nil {
		return nil, fault
	}
	return j, j.LimitOutput("messages", 1)
}

// readChatLogprobs reads logprobs (true or false) and top_logprobs.
func readChatLogprobs(p *params.Params, o *jsonbody.Object, m *models.Model, fault **api.Error) {
	p.Logprobs = o.Flag("logprobs", false, fault)
	top, _ := o.Integer("top_logprobs", 0, int64(m.LogprobsLimit()), fault)
	if top > 0 && !p.Logprobs {
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", "top_logprobs", "top_logprobs is allowed only together with logprobs: true"))
	}
	if p.Logprobs {
		p.Sampling.Logprobs = int(top)
	}
	p.RefuseNamed("true", fault)
}
