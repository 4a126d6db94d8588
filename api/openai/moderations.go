package openai

import (
	"maps"
	"slices"
	"strings"

	"weir/api"
	"weir/api/moderation"
	"weir/api/openai/completion"
	"weir/api/openai/jsonbody"
	"weir/api/openai/params"
)

// POST /v1/moderations answers in OpenAI's shape from a model's policy: every rule of it, on
// whichever side, reads every text. Nothing is recorded of the request.

// maxModerated texts are read in one request.
const maxModerated = 1024

// openAICategories are those that clients expect in every result.
var openAICategories = []string{
	"harassment", "harassment/threatening", "hate", "hate/threatening", "illicit", "illicit/violent", "self-harm",
	"self-harm/instructions", "self-harm/intent", "sexual", "sexual/minors", "violence", "violence/graphic",
}

type moderationJSON struct {
	Flagged    bool                `json:"flagged"`
	Categories map[string]bool     `json:"categories"`
	Scores     map[string]float64  `json:"category_scores"`
	Types      map[string][]string `json:"category_applied_input_types"`
}

func serveModerations(c *call) *api.Error {
	o, fault := c.body()
	if fault != nil {
		return fault
	}
	name, _ := o.Text("model", &fault)
	raw, ok := o.Take("input")
	if !ok {
		jsonbody.Keep(&fault, jsonbody.Missing("input", "a string, an array of strings or an array of text parts"))
	}
	params.ReadLabels(o.Object, &fault)
	o.FinishBut(params.Unsupported, &fault)
	if fault != nil {
		return fault
	}
	texts, fault := moderatedTexts(o.Object, raw)
	if fault != nil {
		return fault
	}
	m, p, fault := c.moderator.policyFor(name)
	if fault != nil {
		return fault
	}
	results, reports := make([]moderationJSON, len(texts)), make([]*moderation.Report, len(texts))
	for i, text := range texts {
		reports[i] = &moderation.Report{}
		p.Classify(text, reports[i], o.Permit.Continue)
		if fault := o.Permit.Fault(); fault != nil {
			return fault
		}
	}
	scores := make([]map[string]float64, len(texts))
	tell := func(text int, category string, score float64) {
		if scores[text] == nil {
			scores[text] = make(map[string]float64)
		}
		scores[text][category] = max(scores[text][category], score)
	}
	if _, fault := c.moderator.classify(p, texts, reports, false, tell); fault != nil {
		return fault
	}
	for i := range results {
		results[i] = resultOf(p, reports[i], scores[i])
	}
	warn(c.ctx, o.Notes)
	api.WriteJSON(c.ctx, statusOK, struct {
		ID      string           `json:"id"`
		Model   string           `json:"model"`
		Results []moderationJSON `json:"results"`
	}{"modr-" + c.id, m, results})
	return nil
}

// moderatedTexts reads input. Strings have a result each; parts are one text together.
func moderatedTexts(o *jsonbody.Object, raw []byte) ([]string, *api.Error) {
	if raw[0] == '"' {
		text, fault := jsonbody.String("input", raw)
		return []string{text}, fault
	}
	if raw[0] != '[' {
		return nil, jsonbody.WrongType("input", "a string, an array of strings or an array of text parts", raw)
	}
	list, fault := jsonbody.Array("input", raw, maxModerated)
	switch {
	case fault != nil:
		return nil, api.RefuseParam("invalid_value", "input", "input has more than %d texts; send them in several requests", maxModerated)
	case len(list) == 0:
		return nil, api.RefuseParam("invalid_value", "input", "input is an empty array; send at least one text")
	}
	texts := make([]string, len(list))
	for i, item := range list {
		path := jsonbody.At("input", i)
		switch {
		case item[0] != list[0][0]:
			return nil, api.RefuseParam("invalid_type", path, "%s is of another type than input[0]; all must be strings or all text parts", path)
		case item[0] == '"':
			texts[i], fault = jsonbody.String(path, item)
		default:
			var text []byte
			if text, fault = completion.ParsePart(o, path, item); fault == nil {
				texts[i], fault = jsonbody.String(path, text)
			}
		}
		if fault != nil {
			return nil, fault
		}
	}
	if list[0][0] != '"' {
		texts = []string{strings.Join(texts, "\n")}
	}
	return texts, nil
}

// policyFor finds the policy of a model, or one by its own name. Without a name, or with one
// of OpenAI's moderation models, it is the only one that there is.
func (mod *moderator) policyFor(name string) (model string, p *moderation.Policy, fault *api.Error) {
	set, fault := mod.models()
	if fault != nil {
		return "", nil, fault
	}
	if m, ok := set.Find(name); ok {
		if p = m.CurrentPolicy(); p == nil {
			return "", nil, api.RefuseParam("no_policy", "model", "the model %s has no policy; give it one with safety in its record", m.ID)
		}
		return m.ID, p, nil
	}
	var names []string
	for _, m := range set.List {
		own := m.CurrentPolicy()
		if own == nil {
			continue
		}
		if own.Name() == name {
			return name, own, nil
		}
		if !slices.Contains(names, own.Name()) {
			model, p, names = m.ID, own, append(names, own.Name())
		}
	}
	unnamed := name == "" || strings.HasPrefix(name, "omni-moderation") || strings.HasPrefix(name, "text-moderation")
	switch {
	case len(names) == 0:
		return "", nil, api.RefuseParam("no_policy", "model", "no model here has a policy; list one in policies, and name it with safety in a model's record")
	case unnamed && len(names) == 1:
		return model, p, nil
	case unnamed:
		return "", nil, jsonbody.Missing("model", "a model or a policy, of which there are: "+strings.Join(names, ", "))
	}
	return "", nil, modelNotFound(name, set.IDs()+"; policies: "+strings.Join(names, ", "))
}

// resultOf writes what a policy found in a text; scores are those of classifiers, by category.
func resultOf(p *moderation.Policy, report *moderation.Report, scores map[string]float64) moderationJSON {
	r := moderationJSON{Categories: map[string]bool{}, Scores: map[string]float64{}, Types: map[string][]string{}}
	for _, name := range openAICategories {
		r.Categories[name], r.Scores[name], r.Types[name] = false, 0, []string{}
	}
	for _, name := range p.Categories() {
		r.Categories[name], r.Scores[name], r.Types[name] = false, 0, []string{"text"}
	}
	maps.Copy(r.Scores, scores)
	for i := range report.Findings {
		f := &report.Findings[i]
		r.Flagged, r.Categories[f.Category] = true, true
		r.Scores[f.Category] = max(r.Scores[f.Category], f.Score)
	}
	return r
}
