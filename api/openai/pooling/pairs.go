package pooling

import (
	"strings"

	"weir/api"
	"weir/api/openai/jsonbody"
	"weir/api/openai/prompt"
	"weir/internal/inference"
	"weir/tokenizer"
)

// textPair is a query and a document, by their places in scoring.queries and
// scoring.documents.
type textPair struct{ query, document int }

// scoring is what /v1/rerank and /v1/score have in common: pairs of texts, and what
// scores them. A rank head reads both texts of a pair at once. A model without one
// reads each text by itself, and the score of a pair is the cosine of its vectors.
type scoring struct {
	queries, documents []string
	queryField         string // as errors name the texts
	documentField      string
	single             [2]bool // the field holds one text and no array
	pairs              []textPair
	raw                bool // logits and no scores from 0 to 1
	rank               bool

	maxQueryTokens, maxDocumentTokens int // of a text itself; 0: all
}

func (s *scoring) path(documents bool, i int) string {
	field, single := s.queryField, s.single[0]
	if documents {
		field, single = s.documentField, s.single[1]
	}
	if single {
		return field
	}
	return jsonbody.At(field, i)
}

// readPairs reads the texts as the model takes them.
func (r *textReader) readPairs(p *Request, s *scoring) *api.Error {
	r.field = s.documentField
	if s.rank = r.model.Pooler.Ranks(); !s.rank {
		return r.readApart(p, s)
	}
	queries, fault := r.inner(s, false)
	if fault != nil {
		return fault
	}
	documents, fault := r.inner(s, true)
	if fault != nil {
		return fault
	}
	for _, pair := range s.pairs {
		one, fault := r.pair(s.path(false, pair.query), queries[pair.query], documents[pair.document])
		if fault != nil {
			return fault
		}
		path := s.path(true, pair.document)
		if n, most := len(one.ids), r.model.MaxModelLen; n > most {
			return tooLong(path, n, most, r.wayOut)
		}
		if fault := r.count(path, len(one.ids)); fault != nil {
			return fault
		}
		p.Texts = append(p.Texts, one.ids)
		if r.model.Pooler.PairTypes {
			types := make([]uint8, len(one.ids))
			for i := one.second; i < len(types); i++ {
				types[i] = 1
			}
			p.Types = append(p.Types, types)
		}
	}
	return nil
}

// readApart reads all queries and then all documents.
func (r *textReader) readApart(p *Request, s *scoring) *api.Error {
	for _, documents := range []bool{false, true} {
		inner, fault := r.inner(s, documents)
		if fault != nil {
			return fault
		}
		for i, text := range inner {
			ids := append(append(r.around[:r.before:r.before], text.ids...), r.around[r.before:]...)
			if ids, fault = r.fit(s.path(documents, i), ids); fault != nil {
				return fault
			}
			p.Texts = append(p.Texts, ids)
		}
	}
	return nil
}

// innerText is a text without the tokens around it.
type innerText struct {
	text string
	ids  []inference.TokenID
}

// inner tokenises the queries, or the documents, and cuts them to what may stay.
func (r *textReader) inner(s *scoring, documents bool) ([]innerText, *api.Error) {
	texts, most := s.queries, s.maxQueryTokens
	if documents {
		texts, most = s.documents, s.maxDocumentTokens
	}
	list := make([]innerText, len(texts))
	for i, text := range texts {
		if text == "" {
			return nil, prompt.EmptyText(s.path(documents, i))
		}
		ids, fault := r.permit.Tokenise(r.model, []tokenizer.Span{{Text: text}}, tokenizer.EncodeOptions{Limit: r.limit()})
		if fault != nil {
			return nil, fault
		}
		if most > 0 && len(ids) > most {
			ids, text = r.shorten(ids[:most])
		}
		if r.keep > 0 && len(ids) > r.keep {
			ids, text = r.shorten(r.part(ids, r.keep))
		}
		if limit := r.model.MaxModelLen; len(ids) > limit {
			return nil, tooLong(s.path(documents, i), len(ids), limit, r.wayOut)
		}
		list[i] = innerText{text, ids}
	}
	return list, nil
}

// shorten gives what stays of a text, and its text for a template.
func (r *textReader) shorten(ids []inference.TokenID) ([]inference.TokenID, string) {
	if r.model.Pooler.PairTemplate == "" {
		return ids, ""
	}
	return ids, r.model.Tokenizer.Decode(ids, false)
}

// pairIDs is a pair as a rank head reads it.
type pairIDs struct {
	ids    []inference.TokenID
	second int // where the document begins, in a pair without a template
}

// pair joins two texts. Where the pair may be cut, the document is. path is the query's.
func (r *textReader) pair(path string, query, document innerText) (pairIDs, *api.Error) {
	if r.model.Pooler.PairTemplate != "" {
		ids, fault := r.rendered(path, query, document)
		return pairIDs{ids: ids}, fault
	}
	end := r.around[r.before:]
	one := pairIDs{ids: append(append(r.around[:r.before:r.before], query.ids...), end...)}
	if r.model.DoublesSeparator() {
		one.ids = append(one.ids, end...)
	}
	one.second = len(one.ids)
	text := document.ids
	if room := r.keep - one.second - len(end); r.keep > 0 && len(text) > room {
		if room < 1 {
			return one, r.noRoom(path, one.second+len(end))
		}
		text = r.part(text, room)
	}
	one.ids = append(append(one.ids, text...), end...)
	return one, nil
}

// part keeps n tokens of a document.
func (r *textReader) part(ids []inference.TokenID, n int) []inference.TokenID {
	if r.keepsEnd {
		return ids[len(ids)-n:]
	}
	return ids[:n]
}

// noRoom refuses a query beside which nothing of a document stays.
func (r *textReader) noRoom(path string, tokens int) *api.Error {
	return api.RefuseParam("context_length_exceeded", path,
		"%s and the model's own tokens have %d tokens, and of a pair %d may stay: no document has room. Please reduce the length of %s.",
		path, tokens, r.keep, path)
}

// rendered is a pair in the model's template, whose control tokens count and not those in
// the texts. A document that has to be cut is shortened until the whole fits, since
// tokens at its borders may merge with the template's.
func (r *textReader) rendered(path string, query, document innerText) ([]inference.TokenID, *api.Error) {
	text, rest := document.text, len(document.ids)
	for {
		ids, fault := r.permit.Tokenise(r.model, spansOf(r.model.Pooler.PairTemplate, query.text, text), tokenizer.EncodeOptions{})
		over := len(ids) - r.keep
		switch {
		case fault != nil || r.keep == 0 || over <= 0:
			return ids, fault
		case rest <= over:
			return nil, r.noRoom(path, len(ids)-rest)
		}
		rest -= max(over, rest/64) // a few passes at most
		text = r.model.Tokenizer.Decode(r.part(document.ids, rest), false)
	}
}

// spansOf puts two texts into a template, which is trusted.
func spansOf(template, query, document string) (spans []tokenizer.Span) {
	for template != "" {
		i, name, text := len(template), "", ""
		for _, f := range [][2]string{{"{query}", query}, {"{document}", document}} {
			if k := strings.Index(template, f[0]); k >= 0 && k < i {
				i, name, text = k, f[0], f[1]
			}
		}
		spans = append(spans, tokenizer.Span{Text: template[:i], Control: true})
		if name != "" {
			spans = append(spans, tokenizer.Span{Text: text})
		}
		template = template[i+len(name):]
	}
	return spans
}

// Scores gives each pair's score.
func (s *scoring) Scores(vectors [][]float32) []float32 {
	scores := make([]float32, len(s.pairs))
	for i, pair := range s.pairs {
		switch {
		case !s.rank:
			scores[i] = cosine(vectors[pair.query], vectors[len(s.queries)+pair.document])
		case s.raw:
			scores[i] = logit(vectors[i])
		default:
			scores[i] = sigmoid(logit(vectors[i]))
		}
	}
	return scores
}
