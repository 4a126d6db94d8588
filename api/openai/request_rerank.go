package openai

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"weir/api"
)

var rerankEndpoint = poolingEndpoint{
	service: service{route: routeRerank, upstream: "/rerank", prefix: "rerank-"},
	takes:   scoresPairs, lowers: true,
	read: (*Server).readRerank,
}

// scoresPairs: also models without a rank head do, as in vLLM.
func scoresPairs(k kind) bool { return k == kindRank || k == kindEmbedding }

// rerank answers the request that Jina, Cohere and vLLM have, and under the same path
// text-embeddings-inference's.
func (c *call) rerank() *api.Error { return c.pooled(&rerankEndpoint) }

// ranking is the answer to a rerank request: its documents, the best first.
type ranking struct {
	scoring
	most      int  // of the documents; 0: all
	withTexts bool // the documents' texts are part of the answer
	bare      bool // text-embeddings-inference's form
}

func (s *Server) readRerank(o *request, m *Model) (*pooling, *api.Error) {
	var fault *api.Error
	r := newTextReader(o, m, &fault)
	a := &ranking{scoring: scoring{queryField: "query", single: [2]bool{true, false}}}
	a.queries = readOneText(o.object, "query", "a string", &fault)
	if raw, ok := o.take("texts"); ok {
		a.readBare(o.object, raw, &fault)
	} else {
		a.readDocuments(o.object, &fault)
	}
	a.pairs = make([]textPair, len(a.documents))
	for i := range a.pairs {
		a.pairs[i].document = i
	}
	return s.readScoring(&pooling{answer: a}, r, o.object, &a.scoring, &fault)
}

// readScoring ends the reading of a request whose texts are in a.
func (s *Server) readScoring(p *pooling, r *textReader, o *object, a *scoring, fault **api.Error) (*pooling, *api.Error) {
	p.requestID = readRequestID(o, fault)
	a.raw = a.raw || !o.flag("use_activation", true, fault)
	a.maxQueryTokens = o.count("max_tokens_per_query", 0, maxInt32, 0, fault)
	a.maxDocumentTokens = o.count("max_tokens_per_doc", 0, maxInt32, 0, fault)
	readLabels(o, fault)
	o.finishBut(poolingFields, fault)
	if *fault != nil {
		return nil, *fault
	}
	p.parsed = time.Now()
	return p, r.readPairs(p, a)
}

func readOneText(o *object, name, what string, fault **api.Error) []string {
	text, ok := o.text(name, fault)
	if !ok {
		keep(fault, missing(name, what))
	}
	return []string{text}
}

// readDocuments reads what Jina, Cohere and vLLM have. The texts are part of the answer
// unless asked otherwise: vLLM sends them always, Cohere on request.
func (a *ranking) readDocuments(o *object, fault **api.Error) {
	a.documentField = "documents"
	a.most = o.count("top_n", 0, maxInt32, 0, fault)
	a.withTexts = o.flag("return_documents", true, fault)
	raw, ok := o.take("documents")
	if !ok {
		keep(fault, missing("documents", "an array of strings, or of objects with a field text"))
		return
	}
	list, err := pooledArray("documents", raw)
	keep(fault, err)
	a.documents = make([]string, len(list))
	for i, item := range list {
		path := at("documents", i)
		if item[0] != '{' {
			a.documents[i], err = parseString(path, item)
			keep(fault, err)
			continue
		}
		document, err := o.parse(path, item, maxFields)
		if err != nil {
			keep(fault, err)
			return
		}
		if a.documents[i], ok = document.text("text", fault); !ok {
			keep(fault, missing(join(path, "text"), "the document's text"))
		}
		document.finish(fault)
	}
}

// pooledArray splits an array of texts.
func pooledArray(path string, raw []byte) ([]json.RawMessage, *api.Error) {
	list, err := parseArray(path, raw, maxPooledTexts)
	if err == nil && len(list) == 0 {
		err = badRequest("invalid_value", path, "%s is an empty array; send at least one text", path)
	}
	return list, err
}

// readBare reads text-embeddings-inference's fields.
func (a *ranking) readBare(o *object, raw []byte, fault **api.Error) {
	a.bare, a.documentField = true, "texts"
	a.withTexts = o.flag("return_text", false, fault)
	a.raw = o.flag("raw_scores", false, fault)
	var err *api.Error
	a.documents, _, err = parseTexts("texts", raw)
	keep(fault, err)
}

// parseTexts reads a string or an array of strings.
func parseTexts(path string, raw []byte) (texts []string, single bool, err *api.Error) {
	if raw[0] == '"' {
		text, err := parseString(path, raw)
		return []string{text}, true, err
	}
	if raw[0] != '[' {
		return nil, false, wrongType(path, "a string or an array of strings", raw)
	}
	list, err := pooledArray(path, raw)
	if err != nil {
		return nil, false, err
	}
	texts = make([]string, len(list))
	for i, item := range list {
		if texts[i], err = parseString(at(path, i), item); err != nil {
			return nil, false, err
		}
	}
	return texts, false, nil
}

func (a *ranking) appendAnswer(dst []byte, p *pooling, vectors [][]float32) []byte {
	scores := a.scores(vectors)
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(scores[j], scores[i]) })
	if a.most > 0 {
		order = order[:min(a.most, len(order))]
	}
	if a.bare {
		return a.appendBare(dst, order, scores)
	}
	dst = append(dst, `{"id":`...)
	dst = api.AppendString(dst, p.name)
	dst = append(dst, `,"model":`...)
	dst = api.AppendString(dst, p.model.ID)
	dst = append(appendPoolingUsage(dst, p), `,"results":[`...)
	for n, i := range order {
		dst = append(comma(dst, n), `{"index":`...)
		dst = strconv.AppendInt(dst, int64(i), 10)
		if a.withTexts {
			dst = append(dst, `,"document":{"text":`...)
			dst = append(api.AppendString(dst, a.documents[i]), '}')
		}
		dst = append(dst, `,"relevance_score":`...)
		dst = append(appendFloat(dst, scores[i]), '}')
	}
	return append(dst, "]}"...)
}

func (a *ranking) appendBare(dst []byte, order []int, scores []float32) []byte {
	dst = append(dst, '[')
	for n, i := range order {
		dst = append(comma(dst, n), `{"index":`...)
		dst = strconv.AppendInt(dst, int64(i), 10)
		if a.withTexts {
			dst = append(dst, `,"text":`...)
			dst = api.AppendString(dst, a.documents[i])
		}
		dst = append(dst, `,"score":`...)
		dst = append(appendFloat(dst, scores[i]), '}')
	}
	return append(dst, ']')
}
