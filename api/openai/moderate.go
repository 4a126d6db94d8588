package openai

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"weir/api"
	"weir/api/edge"
	"weir/api/moderation"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/tokenizer"
)

// Before a request is admitted, the texts that it brings are read by the policy of its
// model. They are taken from the body as it is, in the same way for all endpoints and for
// models that other servers compute.

// moderator has the policies of models read what a call brings.
type moderator struct {
	*call
	report   *moderation.Report // what policies have found; nil: none was asked
	refusing string             // the model whose policy refused the request
}

// check refuses a request that the model's policy does not allow.
func (mod *moderator) check(m *models.Model, o *job.Body) *api.Error {
	p := m.Policy
	if p == nil {
		return nil
	}
	if mod.report == nil {
		mod.report = &moderation.Report{}
	}
	if !p.ReadsInput() {
		return nil
	}
	r := inputReader{policy: p, tokenizer: m.Tokenizer}
	for _, f := range o.Fields {
		if f.Name != "model" {
			r.field(f.Name, f.Raw)
		}
	}
	for _, item := range o.Earlier {
		r.message("input", decoded(item))
	}
	if r.unread != "" {
		return api.RefuseParam("invalid_value", r.unread, "%s holds token ids, and the policy %q of the model %s reads text: send text", r.unread, p.Name(), m.ID)
	}
	for i := range r.texts {
		t := &r.texts[i]
		blocked := t.isBlocked(p, mod.report, o.Permit.Continue)
		if fault := o.Permit.Fault(); fault != nil {
			return fault
		}
		if blocked {
			mod.refusing = m.ID
			return policyViolation(m, t.path, mod.report.Blocked())
		}
	}
	return mod.checkByModels(m, o, r.texts)
}

// checkByModels has the policy's classifiers read the texts.
func (mod *moderator) checkByModels(m *models.Model, o *job.Body, texts []inputText) *api.Error {
	if len(m.Policy.Classifiers()) == 0 {
		return nil
	}
	list, reports := make([]string, len(texts)), make([]*moderation.Report, len(texts))
	for i := range texts {
		list[i], reports[i] = strings.Join(texts[i].parts, "\n"), mod.report
	}
	blocked, fault := mod.classify(m.Policy, list, reports, true, nil)
	o.Permit = mod.permit
	switch {
	case fault != nil:
		return fault
	case blocked < 0:
		return nil
	}
	mod.refusing = m.ID
	return policyViolation(m, texts[blocked].path, mod.report.Blocked())
}

func policyViolation(m *models.Model, path string, f *moderation.Finding) *api.Error {
	e := api.RefuseParam("content_policy_violation", path,
		"the request was refused: its %s has what the rule %q (%s) of the policy %q of the model %s does not allow", path, f.Rule, f.Category, f.Policy, m.ID)
	e.Filtered = f.Category
	return e
}

// refusedBy says which policy refused a request; nil: none did.
func (mod *moderator) refusedBy(fault *api.Error) *edge.Moderation {
	if fault.Filtered == "" {
		return nil
	}
	return &edge.Moderation{Model: mod.refusing, Tenant: mod.caller.Tenant.Name, Report: mod.report}
}

// inputText is one text of a request: the parts of a message together.
type inputText struct {
	path  string
	parts []string
}

// isBlocked has a policy read the text: with its parts on lines of their own, and with them next
// to each other, as templates join them in either way.
func (t *inputText) isBlocked(p *moderation.Policy, report *moderation.Report, proceed func() bool) bool {
	if p.Check(strings.Join(t.parts, "\n"), report, proceed) {
		return true
	}
	if len(t.parts) < 2 {
		return false
	}
	joined := &moderation.Report{}
	if !p.Check(strings.Join(t.parts, ""), joined, proceed) {
		return false
	}
	report.Findings = append(report.Findings, *joined.Blocked())
	return true
}

// inputReader gathers the texts of a request that a policy reads.
type inputReader struct {
	policy    *moderation.Policy
	tokenizer *tokenizer.Tokenizer // nil: token ids cannot be read
	texts     []inputText
	unread    string // a field with token ids
}

// fieldRoles are the fields that have texts, and whose these are; "" is that of each message.
var fieldRoles = map[string]string{
	"messages": "", "input": "", "system": "system", "instructions": "system",
	"prompt": "user", "suffix": "user", "template": "user", "context": "user", "inputs": "user", "query": "user", "queries": "user", "documents": "user", "texts": "user", "text": "user",
	"text_1": "user", "text_2": "user", "data_1": "user", "data_2": "user", "items": "user", "state": "user", "questions": "user", "chat_template_kwargs": "user", "prediction": "user",
}

func (r *inputReader) field(name string, raw json.RawMessage) {
	role, known := fieldRoles[name]
	if !known {
		return
	}
	value := decoded(raw)
	list, isList := value.([]any)
	switch {
	case role == "" && isList && hasMessages(list):
		for i, item := range list {
			r.message(jsonbody.At(name, i), item)
		}
	case role == "":
		r.values(name, "user", value)
	default:
		r.values(name, role, value)
	}
}

// hasMessages tells a list of messages from one of texts or token ids.
func hasMessages(list []any) bool {
	return slices.ContainsFunc(list, func(v any) bool { _, ok := v.(map[string]any); return ok })
}

// message reads a message of a chat, or an item of a response's input.
func (r *inputReader) message(path string, value any) {
	m, ok := value.(map[string]any)
	if !ok {
		r.values(path, "user", value)
		return
	}
	role, _ := m["role"].(string)
	kind, _ := m["type"].(string)
	switch {
	case role == "developer":
		role = "system"
	case role == "function", strings.HasSuffix(kind, "_output"):
		role = "tool"
	case role != "":
	case kind == "" || kind == "message" || kind == "text" || kind == "input_text":
		role = "user"
	default:
		role = "assistant" // a call or a thought
	}
	if r.policy.Reads(role) {
		r.add(path, textsBelow(nil, m))
	}
}

// values reads a text, a list of texts of their own, or token ids.
func (r *inputReader) values(path, role string, value any) {
	if !r.policy.Reads(role) {
		return
	}
	list, isList := value.([]any)
	switch {
	case !isList:
		r.add(path, textsBelow(nil, value))
	case len(list) > 0 && isNumeric(list[0]):
		r.tokens(path, list)
	default:
		for i, v := range list {
			r.values(jsonbody.At(path, i), role, v)
		}
	}
}

func isNumeric(v any) bool { _, ok := v.(float64); return ok }

func (r *inputReader) tokens(path string, list []any) {
	if r.tokenizer == nil {
		r.unread = path
		return
	}
	ids := make([]int32, 0, len(list))
	for _, v := range list {
		if n, ok := v.(float64); ok && n >= 0 && int(n) < r.tokenizer.Size() {
			ids = append(ids, int32(n))
		}
	}
	r.add(path, []string{r.tokenizer.Decode(ids, false)})
}

func (r *inputReader) add(path string, parts []string) {
	if len(parts) > 0 {
		r.texts = append(r.texts, inputText{path, parts})
	}
}

func decoded(raw json.RawMessage) (value any) {
	_ = json.Unmarshal(raw, &value) // the body was checked
	return value
}

// notText are fields whose values no model reads as text.
var notText = map[string]bool{
	"type": true, "role": true, "id": true, "tool_call_id": true, "tool_use_id": true, "call_id": true, "url": true, "image_url": true,
	"source": true, "input_audio": true, "file": true, "file_id": true, "data": true, "media_type": true, "detail": true, "status": true,
	"cache_control": true, "signature": true, "encrypted_content": true,
}

// textsBelow are the texts in a value, at any depth.
func textsBelow(list []string, value any) []string {
	switch v := value.(type) {
	case string:
		return append(list, v)
	case []any:
		for _, e := range v {
			list = textsBelow(list, e)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if !notText[name] {
				list = textsBelow(list, v[name])
			}
		}
	}
	return list
}
