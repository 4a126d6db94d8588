package pooling

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/params"
)

// ranking is the answer to a rerank request: its documents, the best first.
type ranking struct {
	scoring
	most      int  // of the documents; 0: all
	withTexts bool // the documents' texts are part of the answer
	bare      bool // text-embeddings-inference's form
}

// ReadRerank reads a request to order documents by a query.
func (rules Rules) ReadRerank(o *job.Body, m *models.Model) (*Request, *api.Error) {
	var fault *api.Error
	r := newTextReader(o, m, &fault)
	a := &ranking{scoring: scoring{queryField: "query", single: [2]bool{true, false}}}
	a.queries = readOneText(o.Object, "query", "a string", &fault)
	a.most = o.Count("top_n", 0, math.MaxInt32, 0, &fault)
	if raw, ok := o.Take("texts"); ok {
		a.readBare(o.Object, raw, &fault)
	} else {
		a.readDocuments(o.Object, &fault)
	}
	a.pairs = make([]textPair, len(a.documents))
	for i := range a.pairs {
		a.pairs[i].document = i
	}
	return rules.readScoring(&Request{Answer: a}, r, o.Object, &a.scoring, &fault)
}

// readScoring ends the reading of a request whose texts are in a.
func (rules Rules) readScoring(p *Request, r *textReader, o *jsonbody.Object, a *scoring, fault **api.Error) (*Request, *api.Error) {
	p.RequestID = params.ReadRequestID(o, fault)
	a.raw = a.raw || !o.Flag("use_activation", true, fault)
	a.maxQueryTokens = o.Count("max_tokens_per_query", 0, math.MaxInt32, 0, fault)
	a.maxDocumentTokens = o.Count("max_tokens_per_doc", 0, math.MaxInt32, 0, fault)
	params.ReadLabels(o, fault)
	o.FinishBut(Unsupported, fault)
	if *fault != nil {
		return nil, *fault
	}
	p.Parsed = time.Now()
	return p, r.readPairs(p, a)
}

func readOneText(o *jsonbody.Object, name, what string, fault **api.Error) []string {
	text, ok := o.Text(name, fault)
	if !ok {
		jsonbody.Keep(fault, jsonbody.Missing(name, what))
	}
	return []string{text}
}

// readDocuments reads what Jina, Cohere and vLLM have. The texts are part of the answer
// unless asked otherwise: vLLM sends them always, Cohere on request.
func (a *ranking) readDocuments(o *jsonbody.Object, fault **api.Error) {
	a.documentField = "documents"
	a.withTexts = o.Flag("return_documents", true, fault)
	raw, ok := o.Take("documents")
	if !ok {
		jsonbody.Keep(fault, jsonbody.Missing("documents", "an array of strings, or of objects with a field text"))
		return
	}
	list, err := pooledArray("documents", raw)
	jsonbody.Keep(fault, err)
	a.documents = make([]string, len(list))
	for i, item := range list {
		path := jsonbody.At("documents", i)
		if item[0] != '{' {
			a.documents[i], err = jsonbody.String(path, item)
			jsonbody.Keep(fault, err)
			continue
		}
		document, err := o.Parse(path, item, jsonbody.MaxFields)
		if err != nil {
			jsonbody.Keep(fault, err)
			return
		}
		if a.documents[i], ok = document.Text("text", fault); !ok {
			jsonbody.Keep(fault, jsonbody.Missing(jsonbody.Join(path, "text"), "the document's text"))
		}
		document.Finish(fault)
	}
}

// pooledArray splits an array of texts.
func pooledArray(path string, raw []byte) ([]json.RawMessage, *api.Error) {
	list, err := jsonbody.Array(path, raw, MaxPooledTexts)
	if err == nil && len(list) == 0 {
		err = api.RefuseParam("invalid_value", path, "%s is an empty array; send at least one text", path)
	}
	return list, err
}

// readBare reads text-embeddings-inference's fields.
func (a *ranking) readBare(o *jsonbody.Object, raw []byte, fault **api.Error) {
	a.bare, a.documentField = true, "texts"
	a.withTexts = o.Flag("return_text", false, fault)
	a.raw = o.Flag("raw_scores", false, fault)
	var err *api.Error
	a.documents, _, err = parseTexts("texts", raw)
	jsonbody.Keep(fault, err)
}

// parseTexts reads a string or an array of strings.
func parseTexts(path string, raw []byte) (texts []string, single bool, err *api.Error) {
	if raw[0] == '"' {
		text, err := jsonbody.String(path, raw)
		return []string{text}, true, err
	}
	if raw[0] != '[' {
		return nil, false, jsonbody.WrongType(path, "a string or an array of strings", raw)
	}
	list, err := pooledArray(path, raw)
	if err != nil {
		return nil, false, err
	}
	texts = make([]string, len(list))
	for i, item := range list {
		if texts[i], err = jsonbody.String(jsonbody.At(path, i), item); err != nil {
			return nil, false, err
		}
	}
	return texts, false, nil
}

// AppendAnswer implements Answer.
func (a *ranking) AppendAnswer(dst []byte, p *Request, vectors [][]float32) []byte {
	scores := a.Scores(vectors)
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
	dst = api.AppendString(dst, p.Name)
	dst = append(dst, `,"model":`...)
	dst = api.AppendString(dst, p.Model.ID)
	dst = append(appendPoolingUsage(dst, p), `,"results":[`...)
	for n, i := range order {
		dst = append(api.AppendComma(dst, n), `{"index":`...)
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
		dst = append(api.AppendComma(dst, n), `{"index":`...)
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
