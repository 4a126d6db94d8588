package decision

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/models"
	"weir/internal/inference"
	"weir/tokenizer"
)

// style is how language models of a decision.type are asked, and what they answer with: as llama.cpp's server has it.
type style struct {
	labels    func(m *models.Model, q *question) ([]answerLabel, bool) // in the order of the options; false: there are not enough. nil: a head reads marks
	trueFirst bool                                                     // of a predicate's options; else what is false comes first
	unwritten bool                                                     // the template is not given the labels: it counts the options itself
	sorted    bool                                                     // JSON has its keys in alphabetical order
	schema    bool                                                     // the template lists all questions of the call
	text      bool                                                     // JSON is written as text
	bothWays  bool                                                     // a choice is asked twice, with its options in both orders
	ratings   int                                                      // of a predicate: how many steps there are from no to yes; 0: it has two options
}

// styles are the decision types of language models.
var styles = map[string]style{
	"openjev":      {labels: letterLabels, trueFirst: true, unwritten: true},
	"lev":          {labels: codeLabels, sorted: true, bothWays: true, ratings: 9},
	"nimble":       {labels: codeLabels, schema: true},
	"pplx-decider": {labels: codeLabels},
	"lfm2-d1":      {labels: spokenLabels, trueFirst: true},
	"kev":          {text: true},
}

// Types are the decision types of language models that can be asked, in no order.
func Types() []string {
	list := make([]string, 0, len(styles))
	for name := range styles {
		list = append(list, name)
	}
	return list
}

// decoder is a call that a language model answers whose file says how it is asked.
type decoder struct {
	style   style
	call    callVariables
	prompts []decoderPrompt // as Request.forks
}

// decoderPrompt is one prompt of a question.
type decoderPrompt struct {
	question int
	reversed bool
	groups   []int // of outputs: how many tokens stand for each; nil: one
}

// forDecoder makes the prompts of the questions. What they begin with alike is computed once.
func (p *Request) forDecoder(o *job.Body, m *models.Model) *api.Error {
	s, ok := styles[m.Decision.Type]
	if !ok {
		return api.RefuseParam("wrong_model_kind", "model", "the model %s decides by %q, which this server does not know", m.ID, m.Decision.Type)
	}
	p.decoder = &decoder{style: s}
	if fault := p.readCall(m); fault != nil {
		return fault
	}
	var prompts [][]inference.TokenID
	total := 0
	for i := range p.questions {
		ways := 1
		if s.bothWays && p.questions[i].kind == choice {
			ways = 2
		}
		for way := range ways {
			ids, fault := p.ask(o, i, way == 1)
			if fault != nil {
				return fault
			}
			if total += len(ids); total > mostRead {
				return tooManyTokens(total)
			}
			prompts = append(prompts, ids)
		}
	}
	p.divide(prompts)
	if n := p.Tokens(); n > MaxTokens {
		return tooManyTokens(n)
	}
	return nil
}

// mostRead is how many tokens the prompts of a call may have, what they share counted in each: all of it is tokenised.
const mostRead = 8 * MaxTokens

// ask makes a prompt of a question, with the options in the given order or reversed, and adds what it is answered with.
func (p *Request) ask(o *job.Body, i int, reversed bool) ([]inference.TokenID, *api.Error) {
	q, m, s := &p.questions[i], p.Model, &p.decoder.style
	options, labels, fault := p.labelled(q, reversed)
	if fault != nil {
		return nil, fault
	}
	variables := p.asked(q, i, options)
	s.rewrite(variables)
	spans, err := p.written(m.Decision, variables, p.decoder.call)
	if err != nil {
		return nil, takesNoQuestion(m, err)
	}
	ids, fault := o.Permit.Encode(m, p.form.inputName(), spans, tokenizer.EncodeOptions{Limit: m.CountedLimit()})
	if fault != nil {
		return nil, fault
	}
	if n := len(ids) + 1; n > m.MaxModelLen {
		return nil, api.RefuseParam("context_length_exceeded", q.path,
			"This model's maximum context length is %d tokens. However, %s and the input have %d tokens with their answer. Please reduce the length of the %s or of the question.",
			m.MaxModelLen, q.path, n, p.form.inputName())
	}
	k, a := fork{}, decoderPrompt{question: i, reversed: reversed}
	if s.labels == nil {
		if k.marks = places(ids, m.Decision.Mark); len(k.marks) != len(options) {
			return nil, api.RefuseParam("template_error", "model", "the template of the model %s writes %d marks of options behind %d options, which its decision head reads",
				m.ID, len(k.marks), len(options))
		}
		for range options {
			k.given = append(k.given, []inference.TokenID{m.Decision.Mark})
		}
	}
	for _, l := range labels {
		a.groups = append(a.groups, len(l.ids))
		for _, id := range l.ids {
			k.given = append(k.given, []inference.TokenID{id})
		}
	}
	p.forks, p.decoder.prompts = append(p.forks, k), append(p.decoder.prompts, a)
	return ids, nil
}

// labelled are a question's options as the template has them, and the labels that they, or ratings, are answered with.
func (p *Request) labelled(q *question, reversed bool) ([]describedOption, []answerLabel, *api.Error) {
	s, options := &p.decoder.style, q.described()
	if q.kind == predicate && s.trueFirst || reversed {
		slices.Reverse(options)
	}
	if s.labels == nil {
		return options, nil, nil
	}
	asked := *q
	asked.options = make([]option, max(len(options), p.decoder.rated(q)))
	for i := range asked.options {
		if i < len(options) {
			asked.options[i].label = options[i].Key
		}
	}
	labels, ok := s.labels(p.Model, &asked)
	if !ok {
		return nil, nil, api.RefuseParam("invalid_value", q.path, "%s has %d options, and the vocabulary of the model %s has labels of one token for %d; ask with fewer",
			q.path, len(asked.options), p.Model.ID, len(labels))
	}
	for i := range options {
		if !s.unwritten {
			options[i].Label = labels[i].text
		}
	}
	return options, labels, nil
}

// rated is how many ratings a question is answered with; 0: its options are its answers.
func (d *decoder) rated(q *question) int {
	if q.kind == predicate {
		return d.style.ratings
	}
	return 0
}

// readCall makes the variables that are the same for all questions.
func (p *Request) readCall(m *models.Model) *api.Error {
	d := p.decoder
	var err error
	if d.call.state, err = valueOf(d.style.change(orJSON(p.input, p.state))); err != nil {
		return takesNoQuestion(m, err)
	}
	if !d.style.schema {
		return nil
	}
	list, fault := p.schema()
	if fault != nil {
		return fault
	}
	if d.call.questions, err = valueOf(list); err != nil {
		return takesNoQuestion(m, err)
	}
	return nil
}

// schema are all questions of the call, for templates that list them.
func (p *Request) schema() ([]map[string]any, *api.Error) {
	list := make([]map[string]any, len(p.questions))
	for i := range p.questions {
		q := &p.questions[i]
		options, _, fault := p.labelled(q, false)
		if fault != nil {
			return nil, fault
		}
		list[i] = p.asked(q, i, options)
		delete(list[i], "images")
	}
	return list, nil
}

// places are those of an id.
func places(ids []inference.TokenID, of inference.TokenID) (at []int) {
	for i, id := range ids {
		if id == of {
			at = append(at, i)
		}
	}
	return at
}

// divide finds what all prompts begin with, and leaves at least the last token of each to itself.
func (p *Request) divide(prompts [][]inference.TokenID) {
	n := len(prompts[0]) - 1
	for _, ids := range prompts[1:] {
		n = min(n, len(ids)-1)
		for i, id := range ids[:n] {
			if id != prompts[0][i] {
				n = i
				break
			}
		}
	}
	p.shared = prompts[0][:n]
	for i, ids := range prompts {
		p.forks[i].tail = ids[n:]
	}
}

// rewrite makes JSON among a prompt's variables what the model was trained with.
func (s *style) rewrite(variables map[string]any) {
	variables["instructions"] = s.change(variables["instructions"])
	options, _ := variables["options"].([]describedOption)
	for i := range options {
		options[i].Description = s.change(options[i].Description)
		if s.text {
			options[i].Key = plainControl(options[i].Key)
		}
	}
}

// change is rewrite of one text or JSON.
func (s *style) change(v any) any {
	raw, isJSON := v.(json.RawMessage)
	text, isText := v.(string)
	switch {
	case s.text && isJSON:
		return plainControl(flatten(raw))
	case s.text && isText:
		return plainControl(text)
	case s.sorted && isJSON:
		return sortedJSON(raw)
	}
	return v
}

// sortedJSON has the keys of all objects in alphabetical order.
func sortedJSON(raw json.RawMessage) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return raw
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return raw
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// read makes the log-probabilities of options, by question, of those of labels or of what a head gave, by prompt.
func (d *decoder) read(p *Request, logs [][]float64) [][]float64 {
	shares, mass, count := make([][]float64, len(p.questions)), make([]float64, len(p.questions)), make([]float64, len(p.questions))
	for k, scores := range logs {
		a := d.prompts[k]
		q := &p.questions[a.question]
		if scores = best(scores, a.groups); d.style.labels == nil {
			mass[a.question]++
		} else {
			mass[a.question] += math.Exp(logSum(scores))
		}
		got := shared(scores, p.Model.Decision.Temperature(headNames[q.kind], len(q.options)))
		if n := d.rated(q); n > 0 {
			got = rating(got)
		} else if a.reversed || q.kind == predicate && !d.style.trueFirst {
			slices.Reverse(got)
		}
		if shares[a.question] == nil {
			shares[a.question] = make([]float64, len(got))
		}
		for i, v := range got {
			shares[a.question][i] += v
		}
		count[a.question]++
	}
	for i := range shares {
		for k := range shares[i] {
			shares[i][k] = math.Log(shares[i][k]/count[i]) + math.Log(min(1, mass[i]/count[i]))
		}
	}
	return shares
}

// best is the largest score of each group; of each by itself without groups.
func best(scores []float64, groups []int) []float64 {
	if groups == nil {
		return slices.Clone(scores)
	}
	list := make([]float64, len(groups))
	for i, n := range groups {
		list[i], scores = slices.Max(scores[:n]), scores[n:]
	}
	return list
}

// shared are the probabilities of scores that are divided by a temperature.
func shared(scores []float64, temperature float64) []float64 {
	top, sum := slices.Max(scores), 0.0
	list := make([]float64, len(scores))
	for i, v := range scores {
		list[i] = math.Exp((v - top) / temperature)
		sum += list[i]
	}
	for i := range list {
		list[i] /= sum
	}
	return list
}

// rating is how probable yes and no are, by ratings from a certain no to a certain yes.
func rating(shares []float64) []float64 {
	yes := 0.0
	for i, v := range shares {
		yes += v * float64(i) / float64(len(shares)-1)
	}
	return []float64{yes, 1 - yes}
}

func logSum(logs []float64) float64 {
	top, sum := slices.Max(logs), 0.0
	for _, v := range logs {
		sum += math.Exp(v - top)
	}
	return top + math.Log(sum)
}
