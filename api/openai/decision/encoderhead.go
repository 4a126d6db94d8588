package decision

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/models"
	"weir/internal/inference"
	"weir/tokenizer"
	"weir/tokenizer/chat"
)

// The types of questions that a decision head knows: what its template calls them, and their numbers. The order of kind is another one.
var (
	headNames = [...]string{predicate: "noul", choice: "choice", score: "score"}
	headTypes = [...]uint8{predicate: 2, choice: 0, score: 1}
)

// How the texts of options and of questions are cut that are longer than what the head was trained with: as Laya's own library cuts them.
const (
	optionTokens    = 48 // of an option's text
	leastQuestion   = 16 // what options leave to the question, before they are shortened
	shortestOption  = 4  // with its mark
	shortestHeading = 8
)

// forDecider makes a text of each question, its options and the input, with a mark before each option.
func (p *Request) forDecider(o *job.Body, m *models.Model) *api.Error {
	total := 0
	state, err := valueOf(orJSON(p.input, p.state))
	for i := range p.questions {
		q := &p.questions[i]
		var spans []tokenizer.Span
		if err == nil {
			spans, err = p.written(m.Pooler.Decision, p.asked(q, i, q.described()), callVariables{state: state})
		}
		if err != nil {
			return takesNoQuestion(m, err)
		}
		ids, fault := o.Permit.Encode(m, p.form.inputName(), spans, tokenizer.EncodeOptions{Limit: m.CountedLimit() + m.Pooler.Decision.HeadTokens})
		if fault != nil {
			return fault
		}
		ids, marks, fault := q.shortened(m, ids)
		if fault != nil {
			return fault
		}
		if n := len(ids); n > m.MaxModelLen {
			return api.RefuseParam("context_length_exceeded", q.path,
				"This model's maximum context length is %d tokens. However, %s and the input have %d tokens. Please reduce the length of the %s or of the question.",
				m.MaxModelLen, q.path, n, p.form.inputName())
		}
		if total += len(ids); total > MaxTokens {
			return tooManyTokens(total)
		}
		p.head.texts = append(p.head.texts, ids)
		p.head.types = append(p.head.types, slices.Repeat([]uint8{headTypes[q.kind]}, len(ids)))
		p.head.marks = append(p.head.marks, marks)
	}
	p.head.read = func(vectors [][]float32) [][]float64 {
		all := make([][]float64, len(vectors))
		for i, v := range vectors {
			q := &p.questions[i]
			all[i] = logSoftmax(v, m.Pooler.Decision.Temperature(headNames[q.kind], len(v)))
			if q.kind == predicate { // the head has what is false first
				all[i][0], all[i][1] = all[i][1], all[i][0]
			}
		}
		return all
	}
	return nil
}

// takesNoQuestion refuses a request that the model's template fails on.
func takesNoQuestion(m *models.Model, err error) *api.Error {
	return api.RefuseParam("template_error", "model", "the template of the model %s takes no question: %v", m.ID, err)
}

// callVariables are those variables of the template that are the same for all questions of a call. They are read once: a client's JSON may be
// much longer than what the template writes of it.
type callVariables struct {
	state     chat.Value
	questions chat.Value // of templates that list them; the zero value: there is no such variable
}

// valueOf is what a template sees of v.
func valueOf(v any) (chat.Value, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return chat.Value{}, err
	}
	return chat.FromJSON(raw)
}

// asked are the variables of the template for a question with its options, beside those of the call.
func (p *Request) asked(q *question, i int, options []describedOption) map[string]any {
	return map[string]any{
		"id": q.id(i), "type": headNames[q.kind], "instructions": orJSON(cmp.Or(q.instructions, q.name), q.raw),
		"options": options, "images": []string{},
	}
}

// id is the name of a question, or else its number.
func (q *question) id(i int) string {
	if q.isNamed {
		return q.name
	}
	return strconv.Itoa(i)
}

// written renders the template. Texts of the client become no control token, and JSON is given as it is, for the template to write.
func (p *Request) written(d *models.Decision, question map[string]any, call callVariables) ([]tokenizer.Span, error) {
	variables, err := valueOf(question)
	if err != nil {
		return nil, err
	}
	in := chat.Input{Messages: chat.Messages(), Extra: variables.With("state", call.state).With("questions", call.questions)}
	in.BOSToken, in.EOSToken = p.Model.Tokenizer.BoundaryTexts()
	return d.Template.Render(in)
}

// orJSON is a text, or the JSON that it was in the request.
func orJSON(text string, raw json.RawMessage) any {
	if raw != nil {
		return raw
	}
	return text
}

// describedOption is an option as the template of a decision head has it.
type describedOption struct {
	Key         string `json:"key"`
	Description any    `json:"description"`     // nil: none
	Label       string `json:"label,omitempty"` // that a language model answers with
}

// described are the options, in the order of the head: what is false before what is true, and the levels of a score by number.
func (q *question) described() []describedOption {
	list := make([]describedOption, len(q.options))
	for i := range q.options {
		o := &q.options[i]
		list[i].Key = o.label
		if o.description != "" {
			list[i].Description = orJSON(o.description, o.raw)
		}
		if q.kind == score {
			list[i].Key = strconv.Itoa(i)
			if o.label != list[i].Key || list[i].Description == nil { // a level of OpenAI's form, which has a name
				text := o.label
				if o.description != "" {
					text += ": " + o.description
				}
				list[i].Description = text
			}
		}
	}
	if q.kind == predicate {
		list[0].Key, list[1].Key = "true", "false"
		slices.Reverse(list)
	}
	return list
}

// shortened finds the marks, and cuts question and options to what the head was trained with: first the options, evenly, and then the
// question. The text behind them stays.
func (q *question) shortened(m *models.Model, ids []inference.TokenID) (short []inference.TokenID, marks []int, fault *api.Error) {
	d := m.Pooler.Decision
	for i, id := range ids {
		if id == d.Mark {
			marks = append(marks, i)
		}
	}
	layout := func() *api.Error {
		return api.RefuseParam("template_error", "model", "the template of the model %s does not write a question as its decision head reads it: "+
			"question, separator, a mark before each option, separator, input, separator", m.ID)
	}
	if len(marks) != len(q.options) || marks[0] < 2 || ids[marks[0]-1] != d.Separator || ids[len(ids)-1] != d.Separator {
		return nil, nil, layout()
	}
	rest := slices.Index(ids[marks[len(marks)-1]:], d.Separator) + marks[len(marks)-1] // the separator behind the last option
	if rest >= len(ids)-1 {
		return nil, nil, layout()
	}
	options, total := make([][]inference.TokenID, len(marks)), 0
	cut := func(most int) {
		total = 0
		for i := range options {
			options[i] = options[i][:min(len(options[i]), most)]
			total += len(options[i])
		}
	}
	for i, at := range marks {
		end := rest
		if i+1 < len(marks) {
			end = marks[i+1]
		}
		options[i] = ids[at:end]
	}
	if cut(optionTokens + 1); total+leastQuestion > d.HeadTokens {
		cut(max(shortestOption, max(d.HeadTokens-leastQuestion, 0)/len(options)))
	}
	heading := ids[1 : marks[0]-1]
	heading = heading[:min(len(heading), max(shortestHeading, d.HeadTokens-total))]
	short = slices.Concat(ids[:1], heading, []inference.TokenID{d.Separator})
	first := make(map[string]int, len(options))
	for i, ids := range options {
		if other, again := first[keyOf(ids)]; again {
			return nil, nil, api.RefuseParam("invalid_value", q.options[i].path, "%s has the same tokens as %s, as far as the model %s reads them: %d of an option. Tell them apart earlier.",
				q.options[i].path, q.options[other].path, m.ID, len(ids)-1)
		}
		first[keyOf(ids)] = i
		marks[i] = len(short)
		short = append(short, ids...)
	}
	return append(short, ids[rest:]...), marks, nil
}
