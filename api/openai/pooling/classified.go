package pooling

import (
	"encoding/json"
	"slices"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/models"
)

// ReadClassified tokenises texts as /v1/score or /v1/embeddings does. What a model cannot read of a
// text is cut off its end.
func (rules Rules) ReadClassified(m *models.Model, question string, texts []string) (*Request, *api.Error) {
	texts = slices.Clone(texts)
	for i := range texts {
		if texts[i] == "" {
			texts[i] = " "
		}
	}
	body, err := json.Marshal(map[string]any{"text_1": question, "text_2": texts, "truncate_prompt_tokens": -1})
	if question == "" {
		body, err = json.Marshal(map[string]any{"input": texts, "truncate_prompt_tokens": -1})
	}
	if err != nil {
		return nil, api.Refuse("internal_error", "a text could not be read by the policy's classifier")
	}
	o, fault := job.ReadBody(body, false)
	if fault != nil {
		return nil, fault
	}
	if question == "" {
		return rules.ReadEmbedding(o, m)
	}
	return rules.ReadScore(o, m)
}

// ReadPairs tokenises each query with the one document, as a rank head reads pairs. The fields are what errors call them.
func (rules Rules) ReadPairs(o *job.Body, m *models.Model, queryField string, queries []string, documentField, document string) (*Request, *api.Error) {
	a := &ScoreAnswer{scoring{queries: queries, documents: []string{document}, queryField: queryField, documentField: documentField,
		single: [2]bool{false, true}, raw: true, pairs: make([]textPair, len(queries))}}
	for i := range a.pairs {
		a.pairs[i].query = i
	}
	r := newWholeReader(o, m)
	r.wayOut = ""
	p := &Request{Answer: a}
	return p, r.readPairs(p, &a.scoring)
}
