package decision

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/models"
	"weir/internal/inference"
	"weir/tokenizer"
)

// head is a request that the head of a text encoder answers: the texts that it reads, and what its values mean.
type head struct {
	texts [][]inference.TokenID
	types [][]uint8
	marks [][]int
	pairs []string // questions that are read in a pair with the input each; the caller tokenises them

	read func(vectors [][]float32) [][]float64 // the log-probabilities of options, by question
}

// Head reports whether the head of a text encoder answers, and no language model.
func (p *Request) Head() bool { return p.head != nil }

// Pairs are questions that the model reads in pairs with the input; nil where it does not. What these are as tokens Paired takes.
func (p *Request) Pairs() (queries []string, field, document string) {
	if p.head == nil {
		return nil, "", ""
	}
	return p.head.pairs, p.form.inputName(), p.input
}

// Paired takes the tokens and the token types of Pairs.
func (p *Request) Paired(texts [][]inference.TokenID, types [][]uint8) {
	p.head.texts, p.head.types = texts, types
}

// Fill gives an embedder's call the texts that the head reads.
func (p *Request) Fill(e *inference.Embedding) {
	e.Texts, e.Types, e.Marks = p.head.texts, p.head.types, p.head.marks
}

// Logs are the log-probabilities of the options, by question, by what the head gave of the texts.
func (p *Request) Logs(vectors [][]float32) [][]float64 { return p.head.read(vectors) }

// forHead has the questions read as the model's head needs them.
func (p *Request) forHead(o *job.Body, m *models.Model) *api.Error {
	p.head = &head{}
	var fault *api.Error
	switch m.Kind() {
	case models.KindClassify:
		fault = p.forClassifier(o, m)
	case models.KindRank:
		fault = p.forReranker(m)
	case models.KindDecide:
		fault = p.forDecider(o, m)
	default:
		fault = api.RefuseParam("wrong_model_kind", "model", "the model %s answers no questions", m.ID)
	}
	if fault != nil {
		return fault
	}
	if n := p.Tokens(); n > MaxTokens {
		return tooManyTokens(n)
	}
	return nil
}

// asked is what a question asks, or its name where it says nothing else.
func (q *question) asked() string { return strings.TrimSpace(cmp.Or(q.instructions, q.name)) }

// forClassifier reads the input once. Its labels are the classifier's own: the options of a question are some of them, and a predicate is
// about one.
func (p *Request) forClassifier(o *job.Body, m *models.Model) *api.Error {
	field := p.form.inputName()
	ids, fault := o.Permit.Encode(m, field, []tokenizer.Span{{Text: p.input}}, tokenizer.EncodeOptions{AddSpecial: true, Limit: m.CountedLimit()})
	if fault != nil {
		return fault
	}
	if n := len(ids); n > m.MaxModelLen {
		return contextExceeded(m, field, n)
	}
	p.head.texts = [][]inference.TokenID{ids}
	places := make([][]int, len(p.questions)) // of options among the labels; of a predicate, the label that it is about
	for i := range p.questions {
		if places[i], fault = p.questions[i].labels(m); fault != nil {
			return fault
		}
	}
	p.head.read = func(vectors [][]float32) [][]float64 {
		logs := logSoftmax(vectors[0], 1)
		all := make([][]float64, len(places))
		for i, list := range places {
			if p.questions[i].kind == predicate {
				all[i] = []float64{logs[list[0]], logOthers(logs, list[0])}
				continue
			}
			for _, place := range list {
				all[i] = append(all[i], logs[place])
			}
		}
		return all
	}
	return nil
}

// labels finds the places of a question's options among a classifier's labels.
func (q *question) labels(m *models.Model) ([]int, *api.Error) {
	if q.kind == predicate {
		if place := labelOf(m, q.asked()); place >= 0 {
			return []int{place}, nil
		}
		if place := affirmed(m.Pooler.Classes); place >= 0 {
			return []int{place}, nil
		}
		return nil, api.RefuseParam("invalid_value", q.path, "%s asks the classifier %s whether a statement holds, and it knows the probabilities of its labels alone, which are %.300q; "+
			"send one of them as the instructions, or ask for a choice", q.path, m.ID, m.Pooler.Classes)
	}
	places, taken := make([]int, len(q.options)), map[int]string{}
	for i := range q.options {
		o := &q.options[i]
		text := o.label
		if q.kind == score && text == strconv.Itoa(i) && o.description != "" && labelOf(m, text) < 0 { // the levels of System One have numbers as labels
			text = o.description
		}
		place := labelOf(m, text)
		if place < 0 {
			return nil, api.RefuseParam("invalid_value", o.path, "%s is %.80q, and the labels of the classifier %s are %.300q; it answers with these alone", o.path, text, m.ID, m.Pooler.Classes)
		}
		if other, again := taken[place]; again {
			return nil, api.RefuseParam("invalid_value", o.path, "%s is the same label of the classifier %s as %s", o.path, m.ID, other)
		}
		places[i], taken[place] = place, o.path
	}
	return places, nil
}

// labelOf is the place of a text among a classifier's labels, or else of the only one that differs in case alone; -1 is none.
func labelOf(m *models.Model, text string) int {
	found := -1
	for i, label := range m.Pooler.Classes {
		switch {
		case label == text:
			return i
		case !strings.EqualFold(label, strings.TrimSpace(text)):
		case found >= 0:
			return -1
		default:
			found = i
		}
	}
	return found
}

// affirmations are pairs of labels of which the first says that something is so.
var affirmations = [][2]string{{"yes", "no"}, {"true", "false"}, {"positive", "negative"}, {"1", "0"}}

// affirmed is the place of the label that affirms, of two such labels; -1 where the two do not tell.
func affirmed(labels []string) int {
	if len(labels) != 2 {
		return -1
	}
	for _, pair := range affirmations {
		for i := range labels {
			if strings.EqualFold(labels[i], pair[0]) && strings.EqualFold(labels[1-i], pair[1]) {
				return i
			}
		}
	}
	return -1
}

// forReranker makes a pair of each question and the input. A reranker says how well a text answers a query, which is one probability.
func (p *Request) forReranker(m *models.Model) *api.Error {
	for i := range p.questions {
		q := &p.questions[i]
		described := q.kind == predicate && (q.options[0].description != "" || q.options[1].description != "")
		switch {
		case q.kind == choice || q.kind == score && len(q.options) != 2:
			return api.RefuseParam("invalid_value", q.path, "%s has %d options, and the reranker %s says of a text and a query how well they fit: ask a predicate, "+
				"a score of two levels, or a model that chats", q.path, len(q.options), m.ID)
		case described:
			return api.RefuseParam("invalid_value", q.path, "%s describes its answers, and the reranker %s reads one query: put what they mean into the instructions", q.path, m.ID)
		case q.asked() == "":
			return api.RefuseParam("invalid_value", q.path, "%s has no instructions, which the reranker %s reads as the query", q.path, m.ID)
		}
		p.head.pairs = append(p.head.pairs, q.asked())
	}
	p.head.read = func(vectors [][]float32) [][]float64 {
		all := make([][]float64, len(vectors))
		for i, v := range vectors {
			logit := float64(v[0])
			if len(v) == models.MaxRankLabels {
				logit -= float64(v[1])
			}
			all[i] = []float64{-softplus(-logit), -softplus(logit)}
			if p.questions[i].kind == score { // the lower level first
				all[i][0], all[i][1] = all[i][1], all[i][0]
			}
		}
		return all
	}
	return nil
}

func contextExceeded(m *models.Model, path string, n int) *api.Error {
	return api.RefuseParam("context_length_exceeded", path, "This model's maximum context length is %d tokens. However, %s has %d tokens. Please reduce the length of it.",
		m.MaxModelLen, path, n)
}

// logSoftmax gives the logarithms of the probabilities of logits, divided by a temperature.
func logSoftmax(logits []float32, temperature float64) []float64 {
	logs, top, sum := make([]float64, len(logits)), math.Inf(-1), 0.0
	for i, v := range logits {
		logs[i] = float64(v) / temperature
		top = max(top, logs[i])
	}
	for _, v := range logs {
		sum += math.Exp(v - top)
	}
	for i := range logs {
		logs[i] -= top + math.Log(sum)
	}
	return logs
}

// logOthers is the logarithm of what all but one have of the probability together.
func logOthers(logs []float64, one int) float64 {
	top, sum := math.Inf(-1), 0.0
	for i, v := range logs {
		if i != one {
			top = max(top, v)
		}
	}
	for i, v := range logs {
		if i != one {
			sum += math.Exp(v - top)
		}
	}
	return top + math.Log(sum)
}

// softplus is the logarithm of 1 + e^x.
func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }
