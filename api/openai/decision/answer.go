package decision

import (
	"math"
	"slices"
	"strconv"

	"weir/api"
	"weir/api/openai/models"
)

// Usage is what a call used.
type Usage struct{ Input, Cached int }

// form writes answers as an API has them.
type form interface {
	inputName() string
	begin(dst []byte, p *Request) []byte
	answer(dst []byte, i int, q *question, a *answer) []byte
	end(dst []byte, u Usage) []byte
}

// answer is what is known of one question.
type answer struct {
	probabilities []float64 // of the options; their sum is 1
	mass          float64   // what the probabilities of all options summed up to before that
	best          int       // the first of the most probable ones
}

// newAnswer takes the log-probabilities of a question's options, and how they are calibrated; false where none of them has any probability.
func newAnswer(logs []float64, by models.Scaling) (*answer, bool) {
	top, sum := slices.Max(logs), 0.0
	if math.IsInf(top, 0) || math.IsNaN(top) {
		return nil, false
	}
	for _, l := range logs {
		sum += math.Exp(l - top)
	}
	a := &answer{mass: min(1, math.Exp(top)*sum)}
	a.share(by.Apply(logs))
	return a, true
}

// share makes probabilities of logarithms, of which one is finite at least.
func (a *answer) share(logs []float64) {
	a.probabilities = make([]float64, len(logs))
	for i, l := range logs {
		if l > logs[a.best] {
			a.best = i
		}
	}
	sum := 0.0
	for i, l := range logs {
		a.probabilities[i] = math.Exp(l - logs[a.best])
		sum += a.probabilities[i]
	}
	for i := range a.probabilities {
		a.probabilities[i] /= sum
	}
}

// choiceConfidence is how far the best option is above an even guess, from 0 to 1: TypeSafe's formula.
func (a *answer) choiceConfidence() float64 {
	even := 1 / float64(len(a.probabilities))
	return max(0, (a.probabilities[a.best]-even)/(1-even))
}

// scoreConfidence is how near the levels are to the most probable one, from 0 to 1, where 0 is as far as levels that are all equally probable:
// TypeSafe's formula.
func (a *answer) scoreConfidence() float64 {
	n := len(a.probabilities)
	spread, even := 0.0, 0.0
	for i, p := range a.probabilities {
		spread += p * math.Abs(float64(i-a.best))
		even += math.Abs(float64(i)-float64(n-1)/2) / float64(n)
	}
	return max(0, 1-spread/even)
}

// expected is the mean level.
func (a *answer) expected() float64 {
	sum := 0.0
	for i, p := range a.probabilities {
		sum += p * float64(i)
	}
	return sum
}

// scaling is how the model's answers to a question are calibrated.
func (p *Request) scaling(q *question) models.Scaling {
	if p.raw {
		return models.Scaling{}
	}
	return [...]models.Scaling{predicate: p.Model.Calibration.Predicate, choice: p.Model.Calibration.Choice, score: p.Model.Calibration.Score}[q.kind]
}

// AppendAnswer writes the answer. logs[i][k] is the log-probability of option k of prompt i, or what a decision head gave for it.
func (p *Request) AppendAnswer(dst []byte, logs [][]float64, u Usage) ([]byte, *api.Error) {
	if p.decoder != nil {
		logs = p.decoder.read(p, logs)
	}
	dst = p.form.begin(dst, p)
	for i := range p.questions {
		q := &p.questions[i]
		a, ok := newAnswer(logs[i], p.scaling(q))
		if !ok {
			return nil, api.Refuse("internal_error", "the model gives no option of "+q.path+" any probability")
		}
		dst = p.form.answer(api.AppendComma(dst, i), i, q, a)
	}
	return p.form.end(dst, u), nil
}

func appendNumber(dst []byte, name string, v float64) []byte {
	return strconv.AppendFloat(append(append(append(dst, '"'), name...), `":`...), v, 'g', -1, 64)
}

// openAI is OpenAI's form.
type openAI struct{}

func (openAI) inputName() string { return "input" }

func (openAI) begin(dst []byte, p *Request) []byte {
	return append(api.AppendString(append(dst, `{"model":`...), p.Model.ID), `,"answers":[`...)
}

func (openAI) answer(dst []byte, _ int, q *question, a *answer) []byte {
	dst = append(dst, `{"type":"`...)
	dst = append(append(dst, [...]string{"predicate", "choice", "score"}[q.kind]...), `","name":`...)
	if q.isNamed {
		dst = api.AppendString(dst, q.name)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, ',')
	switch q.kind {
	case predicate:
		return append(appendNumber(dst, "probability", a.probabilities[0]), '}')
	case choice:
		dst = append(append(dst, `"choice":`...), q.options[a.best].value...)
		dst = appendNumber(append(dst, ','), "confidence", a.choiceConfidence())
	case score:
		dst = appendNumber(dst, "score", a.expected())
		dst = appendNumber(append(dst, ','), "confidence", a.scoreConfidence())
	}
	dst = append(dst, `,"probabilities":[`...)
	for i, p := range a.probabilities {
		dst = append(api.AppendComma(dst, i), '{')
		if q.kind == score {
			dst = append(append(dst, `"label":`...), q.options[i].value...)
			dst = strconv.AppendInt(append(dst, `,"value":`...), int64(i), 10)
		} else {
			dst = append(append(dst, `"value":`...), q.options[i].value...)
		}
		dst = append(appendNumber(append(dst, ','), "probability", p), '}')
	}
	return append(dst, "]}"...)
}

func (openAI) end(dst []byte, u Usage) []byte {
	dst = strconv.AppendInt(append(dst, `],"usage":{"input_tokens":`...), int64(u.Input), 10)
	dst = strconv.AppendInt(append(dst, `,"input_tokens_details":{"cached_tokens":`...), int64(u.Cached), 10)
	dst = append(dst, `,"cache_write_tokens":0},"output_tokens":0,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":`...)
	return append(strconv.AppendInt(dst, int64(u.Input), 10), "}}"...)
}

// systemOne is the form of System One, with vLLM's label_mass.
type systemOne struct{}

func (systemOne) inputName() string { return "state" }

func (systemOne) begin(dst []byte, p *Request) []byte {
	return append(api.AppendString(append(dst, `{"model":`...), p.Model.ID), `,"answers":{`...)
}

func (systemOne) answer(dst []byte, _ int, q *question, a *answer) []byte {
	dst = append(api.AppendString(dst, q.name), `:{"type":"`...)
	dst = append(append(dst, [...]string{"noul", "choice", "score"}[q.kind]...), `",`...)
	switch q.kind {
	case predicate:
		dst = appendNumber(dst, "noul", a.probabilities[0])
	case choice:
		dst = append(append(dst, `"choice":`...), q.options[a.best].value...)
		dst = appendNumber(append(dst, ','), "confidence", a.choiceConfidence())
		dst = q.appendByLabel(append(dst, ','), a)
	case score:
		dst = appendNumber(dst, "score", a.expected())
		dst = appendNumber(append(dst, ','), "confidence", a.scoreConfidence())
		dst = append(dst, `,"legend":{`...)
		for i := range q.options {
			dst = append(api.AppendString(api.AppendComma(dst, i), q.options[i].label), ':')
			dst = append(dst, q.options[i].value...)
		}
		dst = q.appendByLabel(append(dst, "},"...), a)
	}
	return append(appendNumber(append(dst, ','), "label_mass", a.mass), '}')
}

func (q *question) appendByLabel(dst []byte, a *answer) []byte {
	dst = append(dst, `"probabilities":{`...)
	for i, p := range a.probabilities {
		dst = append(api.AppendString(api.AppendComma(dst, i), q.options[i].label), ':')
		dst = strconv.AppendFloat(dst, p, 'g', -1, 64)
	}
	return append(dst, '}')
}

func (systemOne) end(dst []byte, u Usage) []byte {
	dst = strconv.AppendInt(append(dst, `},"usage":{"input_tokens":`...), int64(u.Input), 10)
	return append(dst, `,"output_tokens":0}}`...)
}
