package pooling

import (
	"strconv"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
)

// ScoreAnswer is the answer to a request for scores.
type ScoreAnswer struct{ scoring }

const scoreForms = "a string or an array of strings"

// ReadScore reads one text and one or more others, or two arrays of the same length.
func (rules Rules) ReadScore(o *job.Body, m *models.Model) (*Request, *api.Error) {
	var fault *api.Error
	r := newTextReader(o, m, &fault)
	a := &ScoreAnswer{}
	a.readSides(o.Object, &fault)
	if fault != nil {
		return nil, fault
	}
	if q, d := len(a.queries), len(a.documents); q != 1 && q != d {
		return nil, api.RefuseParam("invalid_value", a.documentField, "%s has %d texts and %s has %d; send one text and any number, or equally many",
			a.queryField, q, a.documentField, d)
	}
	a.pairs = make([]textPair, len(a.documents))
	for i := range a.pairs {
		a.pairs[i] = textPair{query: min(i, len(a.queries)-1), document: i}
	}
	return rules.readScoring(&Request{Answer: a}, r, o.Object, &a.scoring, &fault)
}

// readSides reads both sides under any of the names that vLLM has for them.
func (a *ScoreAnswer) readSides(o *jsonbody.Object, fault **api.Error) {
	first, second := readSide(o, "text_1"), readSide(o, "text_2")
	if first.raw == nil && second.raw == nil {
		first, second = readSide(o, "data_1"), readSide(o, "data_2")
	}
	if first.raw == nil && second.raw == nil {
		if first, second = readSide(o, "queries"), readSide(o, "documents"); second.raw == nil {
			if items := readSide(o, "items"); items.raw != nil {
				second = items
			}
		}
	}
	if first.raw == nil && second.raw == nil {
		first.name, second.name = "text_1", "text_2"
	}
	var err *api.Error
	a.queryField, a.documentField = first.name, second.name
	for _, side := range []scoreSide{first, second} {
		if side.raw == nil {
			jsonbody.Keep(fault, jsonbody.Missing(side.name, scoreForms))
		}
	}
	if *fault != nil {
		return
	}
	a.queries, a.single[0], err = parseTexts(first.name, first.raw)
	jsonbody.Keep(fault, err)
	a.documents, a.single[1], err = parseTexts(second.name, second.raw)
	jsonbody.Keep(fault, err)
}

// scoreSide is a field with texts.
type scoreSide struct {
	name string
	raw  []byte // nil: absent
}

func readSide(o *jsonbody.Object, name string) scoreSide {
	if raw, ok := o.Take(name); ok {
		return scoreSide{name, raw}
	}
	return scoreSide{name: name}
}

// AppendAnswer implements Answer.
func (a *ScoreAnswer) AppendAnswer(dst []byte, p *Request, vectors [][]float32) []byte {
	dst = append(dst, `{"id":`...)
	dst = api.AppendString(dst, p.Name)
	dst = strconv.AppendInt(append(dst, `,"object":"list","created":`...), p.Arrived.Unix(), 10)
	dst = append(dst, `,"model":`...)
	dst = append(api.AppendString(dst, p.Model.ID), `,"data":[`...)
	for i, score := range a.Scores(vectors) {
		dst = strconv.AppendInt(append(api.AppendComma(dst, i), `{"index":`...), int64(i), 10)
		dst = append(dst, `,"object":"score","score":`...)
		dst = append(appendFloat(dst, score), '}')
	}
	return append(appendPoolingUsage(append(dst, ']'), p), '}')
}
